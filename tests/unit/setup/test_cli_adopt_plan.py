"""What an adoption writes beside the host's file: names that are free, credentials in files of their own, and a
configuration that means what it did and the new servers."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from accredit.config.build import build_upstream
from accredit.config.load import load
from accredit.config.servers import view
from accredit.errors import ConfigurationError
from accredit.gateway import StdioUpstream
from accredit.hosts.foreign import Folders, Own, own_servers
from accredit.hosts.table import HOSTS
from accredit.setup.adopt_plan import Plan, Root, plan, unset
from accredit.setup.adopt_text import build_server_table, slugs, with_values

pytestmark = [
    pytest.mark.holds("setup/adopt_plan"),
    pytest.mark.holds("setup/adopt_text"),
]


class Gateway:
    """A folder for a configuration, and what would be adopted into it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gateway/accredit.toml"
        self.file.parent.mkdir()
        self.home = folder

    def plan(self, **entries: object) -> Plan:
        data = json.dumps({"mcpServers": entries}).encode()
        found = own_servers(HOSTS["cursor"], data, Folders(self.home, None))
        own = [each for each in found if isinstance(each, Own)]
        assert len(own) == len(found), found
        return plan(self.file, own, "cursor", Root("Owner", self.home / "owner.key.pub"))

    def write(self, planned: Plan) -> None:
        for path, data in planned.secrets.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)
        self.file.write_bytes(planned.new)
        self.file.chmod(0o600)

    def servers(self) -> dict[str, object]:
        return tomllib.loads(self.file.read_text())["servers"]


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


CAT = {"command": shutil.which("cat"), "args": ["x"], "env": {"TOKEN": "s3cret"}}


def names(planned: Plan) -> dict[str, str]:
    return {each.own.name: each.server for each in planned.adopted}


def test_a_credential_is_in_a_file_and_not_in_the_configuration(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer s3cret", "Accept": "text/plain", "X": "${KEY}"}
    planned = gateway.plan(a=CAT, b={"url": "https://x.example/mcp", "headers": headers})
    assert b"s3cret" not in planned.new
    assert {path.name: data for path, data in planned.secrets.items()} == {
        "a.TOKEN": b"s3cret\n", "b.Authorization": b"Bearer s3cret\n",
    }  # fmt: skip
    gateway.write(planned)
    assert gateway.servers()["b"] == {"url": "https://x.example/mcp", "headers": {
        "Authorization": {"file": "secrets/b.Authorization"}, "Accept": "text/plain", "X": {"env": "KEY"}}}  # fmt: skip
    built = build_upstream(view(load(gateway.file, {}, {}), "a"), {})
    assert isinstance(built, StdioUpstream)
    assert (built.env, built.cwd) == ({"TOKEN": "s3cret"}, str(gateway.home))


def test_a_proof_for_no_call_in_particular_opens_nothing_that_was_adopted(gateway: Gateway) -> None:
    gateway.write(gateway.plan(a=CAT))
    assert load(gateway.file, {}, {}).config.proofs.binding == "required"


def test_a_credential_among_a_command_s_words_reaches_the_program_and_no_configuration(gateway: Gateway) -> None:
    words = [
        "-c",
        "import sys; print(sys.argv[1:])",
        "it's",
        "$HOME `id`",
        "",
        "--key=s3 'cr\"et$x",
        "postgres://a:b@c",
    ]
    planned = gateway.plan(a={"command": sys.executable, "args": words, "env": {"ARGUMENT_1": "mine"}})
    assert b"cr" not in planned.new.split(b"[servers.a]")[1].replace(b"secrets", b"")
    gateway.write(planned)
    built = build_upstream(view(load(gateway.file, {}, {}), "a"), {})
    assert isinstance(built, StdioUpstream)
    done = subprocess.run(built.command, env=dict(built.env), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(words[2:])
    assert built.env["ARGUMENT_1"] == "mine"


@pytest.mark.parametrize("value", ["s3cret\n", "s3cret\n\n", "\n", " s3cret \r\n"])
@pytest.mark.parametrize("name", ["TOKEN", "PLAIN"])
def test_a_value_reaches_the_program_to_its_last_newline(value: str, name: str, gateway: Gateway) -> None:
    planned = gateway.plan(a={"command": sys.executable, "args": ["-c", "pass"], "env": {name: value}})
    gateway.write(planned)
    built = build_upstream(view(load(gateway.file, {}, {}), "a"), {})
    assert isinstance(built, StdioUpstream)
    assert built.env[name] == value


def test_names_are_slugs_and_of_two_one_gets_a_number(gateway: Gateway) -> None:
    planned = gateway.plan(**{"My Mail!": CAT, "my-mail": CAT, "--help": CAT, "Ärger": CAT, "日本": CAT, "x" * 500: CAT,
                              "a\nb": CAT, "x" * 499 + "y": CAT})  # fmt: skip
    assert names(planned) == {
        "My Mail!": "my-mail", "my-mail": "my-mail-2", "--help": "help", "Ärger": "rger", "日本": "server",
        "x" * 500: "x" * 32, "a\nb": "a-b", "x" * 499 + "y": "x" * 30 + "-2",
    }  # fmt: skip
    gateway.write(planned)
    assert len(gateway.servers()) == 8
    many = slugs("a")
    assert [next(many) for _ in range(3)] == ["a", "a-2", "a-3"]


def test_a_server_that_is_there_already_is_that_one__and_one_with_another_secret_is_not(gateway: Gateway) -> None:
    gateway.write(gateway.plan(a=CAT))
    again = gateway.plan(a=CAT)
    assert (again.new, again.secrets, names(again)) == (gateway.file.read_bytes(), {}, {"a": "a"})
    other = gateway.plan(a={**CAT, "env": {"TOKEN": "another"}})
    assert names(other) == {"a": "a-2"}
    assert [path.name for path in other.secrets] == ["a-2.TOKEN"]
    assert names(gateway.plan(b=CAT)) == {"b": "b"}
    (gateway.file.parent / "secrets/a.TOKEN").chmod(0o644)
    assert names(gateway.plan(a=CAT)) == {"a": "a-2"}


def test_a_file_of_somebody_else_s_is_not_taken_for_a_credential_s(gateway: Gateway) -> None:
    secrets = gateway.file.parent / "secrets"
    secrets.mkdir()
    (secrets / "a.TOKEN").write_text("mine")
    (secrets / "a.TOKEN-2").symlink_to("/nowhere")
    planned = gateway.plan(a={**CAT, "env": {"TOKEN": "s3cret", "TO.KEN": "x", "TO_KEN": "y"}})
    assert [path.name for path in planned.secrets] == ["a.TOKEN-3", "a.TO_KEN", "a.TO_KEN-2"]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "/nowhere/x"}, "no program"),
        ({"command": "no-such-program"}, "no program"),
        ({"command": "./cat"}, "no program"),
        ({"command": "cat", "env": {"PATH": "/nowhere"}}, "no program"),
        ({"command": "cat", "cwd": "/nowhere"}, "no folder"),
        ({"command": "${PROGRAM}"}, "holds a variable"),
        ({"command": "cat", "env": {"A=B": "x"}}, "can't be in a configuration"),
        ({"command": "cat", "env": {"A": "x" * 70_000}}, "can't be in a configuration"),
        ({"url": "https://ada:pw@x.example/mcp"}, "can't be in a configuration"),
        ({"url": "file:///etc/passwd"}, "can't be in a configuration"),
        ({"url": "https://x.example:99999/mcp"}, "can't be in a configuration"),
        ({"url": "https://x.example/mcp", "headers": {"Host": "y"}}, "can't be in a configuration"),
        ({"url": "https://x.example/mcp", "headers": {"A": "b\r\nC: d"}}, "can't be in a configuration"),
        ({"url": "http://127.0.0.1:8484/mcp/mail"}, "leads to the gateway itself"),
    ],
)
def test_what_would_keep_the_gateway_from_starting_is_left(entry: object, why: str, gateway: Gateway) -> None:
    gateway.file.write_text("[gateway]\nport = 8484\n")
    gateway.file.chmod(0o600)
    planned = gateway.plan(a=entry, good=CAT)
    assert names(planned) == {"good": "good"}
    assert b'mode = "observe"' in planned.new
    (left,) = planned.left
    assert why in left.why
    assert "pw" not in left.why + left.remedy


def test_a_url_with_a_key_goes_into_no_file_that_others_can_read(gateway: Gateway) -> None:
    entry = {"url": "https://x.example/mcp?key=s3cret"}
    planned = gateway.plan(a=entry)
    assert b"s3cret" in planned.new
    assert "s3cret" not in planned.shown
    gateway.write(gateway.plan(good=CAT))
    gateway.file.chmod(0o644)
    (left,) = gateway.plan(a=entry).left
    assert "others can read" in left.why


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n# of mine"])
def test_what_the_configuration_said_stays(end: str, gateway: Gateway) -> None:
    old = f'[gateway]\nport = 8499\n[proofs]\nmode = "off"\n[servers.mine]\nurl = "http://127.0.0.1:9/mcp" # mine{end}'
    gateway.file.write_bytes(old.encode())
    planned = gateway.plan(a=CAT)
    assert planned.new.startswith(old.encode())
    gateway.write(planned)
    assert list(gateway.servers()) == ["mine", "a"]
    assert tomllib.loads(planned.new.decode())["proofs"] == {"mode": "off"}


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ('[upstream]\nurl = "http://127.0.0.1:9/mcp"\n', "has one server"),
        ('[proofs]\nmode = "required"\n', "requires proofs"),
        ('servers = { mine = { url = "http://127.0.0.1:9/mcp" } }\n', "a form that can't be added to"),
        ("[servers", "not TOML"),
    ],
)
def test_a_configuration_that_can_not_take_them_is_left(old: str, why: str, gateway: Gateway) -> None:
    gateway.file.write_text(old)
    with pytest.raises(ConfigurationError) as refused:
        gateway.plan(a=CAT)
    assert why in refused.value.what
    if why == "requires proofs":  # a command that works: a file of its own, whatever the folder is called
        own = gateway.file.parent.with_name(f"{gateway.file.parent.name}-cursor") / "accredit.toml"
        assert refused.value.remedy.endswith(f"accredit install cursor --adopt --config {own}")


def test_what_a_person_said_of_a_variable_is_kept_as_a_credential(gateway: Gateway) -> None:
    data = json.dumps({"servers": {"a": {"command": "cat", "env": {"A": "${input:k}"}, "args": ["${input:k}"]}, "b": {
        "type": "http", "url": "https://x/mcp", "headers": {"H": "Bearer ${input:k}"}}}}).encode()  # fmt: skip
    found = own_servers(HOSTS["vscode"], data, Folders(gateway.home, None))
    own = [each for each in found if isinstance(each, Own)]
    assert [*unset(own)] == ["K"]
    command, remote = (build_server_table(with_values(each, {"K": "s3cret"})) for each in own)
    assert {name: (each.text, each.is_secret) for name, each in command.values.items()} == {
        "A": ("s3cret", True), "ARGUMENT_1": ("s3cret", True),
    }  # fmt: skip
    assert {name: (each.text, each.is_secret) for name, each in remote.values.items()} == {"H": ("Bearer s3cret", True)}
