"""`accredit call`, the real command: at a gateway, and through a configuration's own gate."""

import json
import shlex
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit

from accredit.cli import main

pytestmark = [
    pytest.mark.holds("cli/actions/call"),
    pytest.mark.holds("cli/actions/call_way"),
    pytest.mark.holds("cli/commands/calls"),
    pytest.mark.holds("asking/in_process"),
]

EMAIL = ("send_email", "--arg", "to=ada@example.org", "--arg", "subject=5")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Serving, AgentFiles]]:
    files = agent_files(tmp_path_factory.mktemp("gateway"), Trust(), "email:read")
    with Serving("--config", "accredit.toml", folder=files.folder) as serving:
        yield serving, files


@pytest.mark.slow
def test_a_tool_is_called_at_a_gateway__and_what_is_printed_after_a_refusal_works_as_it_stands(
    gateway: tuple[Serving, AgentFiles],
) -> None:
    serving, files = gateway
    way = ("--url", serving.url, *files.options)
    done = accredit("call", "list_inbox", *way, folder=files.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["ada@example.org: The engine", "grace@example.org: A bug"]
    (files.folder / "email-send.json").write_text("{}")  # the next name is taken
    refused = accredit("call", *EMAIL, *way, folder=files.folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    what, remedy, *advice = refused.stderr.splitlines()
    assert what == "error: Not allowed: nobody has allowed this agent send_email (ratify_scope_denied)."
    assert remedy.startswith("help: It needs the scope email:send: ")
    grant = shlex.split(advice[1].replace("PATH", "owner.key"))
    assert accredit(*grant[1:], folder=files.folder).returncode == 0
    added = shlex.split(advice[2].partition("Then add ")[2].partition(" to the")[0])
    assert advice[2].endswith("to the arguments of `accredit call`.")
    done = accredit("call", *EMAIL, *way, *added, "--json", folder=files.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["structuredContent"] == {"result": "sent to ada@example.org: 5"}
    assert (files.folder / "email-send.json").read_text() == "{}"


@pytest.mark.slow
def test_who_has_no_key_is_told_how_to_get_one__and_that_works_as_it_stands(
    gateway: tuple[Serving, AgentFiles], tmp_path: Path
) -> None:
    serving, files = gateway
    (tmp_path / "agent.key").write_text("somebody else's")
    refused = accredit("call", "list_inbox", "--url", serving.url, folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    make, _, grant, add = refused.stderr.splitlines()[2:]
    assert accredit(*shlex.split(make.partition(": accredit ")[2]), folder=tmp_path).returncode == 0
    grant = grant.replace("PATH", shlex.quote(str(files.folder / "owner.key")))
    assert accredit(*shlex.split(grant)[1:], folder=tmp_path).returncode == 0
    added = shlex.split(add.partition("Then add ")[2].partition(" to the")[0])
    done = accredit("call", "list_inbox", "--url", serving.url, *added, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_configurations_own_gate_judges_and_records(tmp_path: Path) -> None:
    files = agent_files(tmp_path, Trust(), "email:send")
    config = tmp_path / "accredit.toml"
    config.write_text(
        config.read_text().replace('"memory:"', '"sqlite:///accredit.db"')
        + '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n'
    )
    assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=tmp_path).returncode == 0
    (tmp_path / "args.json").write_text('{"to": "ada@example.org"}')
    way = ("--config", "accredit.toml")
    arguments = ("--json-args", "args.json", "--arg", "subject=Hello")
    done = accredit("call", "send_email", *arguments, *way, *files.options, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sent to ada@example.org: Hello\n", "")
    refused = accredit("call", "send_email", *arguments, *way, folder=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: Not allowed: nobody has allowed this agent send_email (ratify_")
    assert not files.known_gateways.exists()  # nobody was met: the gate is this process
    rows = [json.loads(line) for line in accredit("log", "list", "--json", folder=tmp_path).stdout.splitlines()]
    assert [(row["decision"], row["outcome"]) for row in rows][::2] == [("challenge", None)] * 2
    assert (rows[1]["decision"], rows[1]["outcome"], rows[1]["agent_name"]) == ("allow", "ok", "Mailer")


@pytest.mark.slow
@pytest.mark.holds("signing/grant_lookup", "read-only")
def test_a_tool_is_granted_by_its_name_at_a_gateway__and_all_that_only_read_by_what_the_server_says(
    gateway: tuple[Serving, AgentFiles],
) -> None:
    serving, files = gateway
    who = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--json", "--out")
    done = accredit(*who, "tool.json", "--tool", "send_email", "--url", serving.url, folder=files.folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scope"] == ["email:send"]
    done = accredit(*who, "reads.json", "--all-read-only", "--config", "accredit.toml", folder=files.folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scope"] == ["email:read", "email:search"]
    config = (files.folder / "accredit.toml").read_text()
    (files.folder / "shared.toml").write_text(config.replace("email:search", "email:send"))
    done = accredit(*who, "shared.json", "--all-read-only", "--config", "shared.toml", folder=files.folder)
    assert json.loads(done.stdout)["scope"] == ["email:read"]
    assert "note: email:send is left out: it lets the agent use more than reads: send_email" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("send_email", "--arg", "to=a", "--arg", "sbject=b"), 2, "is subject meant?"),
        (("send_email", "--arg", "to=a"), 2, "send_email needs subject"),
        (("send_mail",), 1, "is send_email meant?"),
    ],
)
def test_what_can_not_be_called_so_is_told(
    gateway: tuple[Serving, AgentFiles], arguments: tuple[str, ...], code: int, says: str
) -> None:
    serving, files = gateway
    done = accredit("call", *arguments, "--url", serving.url, folder=files.folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--url", "http://127.0.0.1:9/mcp", "--config", "accredit.toml"),
        ("--url", "127.0.0.1:9"),
        ("--url", "http://127.0.0.1:9/mcp", "--key", "agent.key"),
        ("--config", "nowhere.toml"),
        ("--url", "http://127.0.0.1:9/mcp", "--header", "Authorization=Bearer x"),
    ],
)
def test_wrong_use_is_told_before_anybody_is_asked(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["accredit", "call", "list_inbox", *options])
    assert main() == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")


@pytest.mark.slow
def test_a_gateway_that_is_not_there_is_told_with_the_command_that_starts_it(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    home = tmp_path / "my gateways"
    home.mkdir()
    files = agent_files(home, Trust())
    text = files.folder.joinpath("accredit.toml").read_text("utf-8")
    (home / "accredit.toml").write_text(text.replace("[gateway]", f"[gateway]\nport = {port}"), "utf-8")
    (tmp_path / "accredit.toml").write_bytes((home / "accredit.toml").read_bytes())  # nobody has named this one
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    def told(where: str = url) -> str:
        done = accredit("call", "list_inbox", "--url", where, folder=tmp_path, env=env)
        assert (done.returncode, done.stdout) == (1, "")
        what, remedy = done.stderr.splitlines()
        assert "can't be reached" in what
        return remedy

    assert told() == "help: start it with `accredit up`, or `accredit serve --config FILE`, which print its URL"
    (tmp_path / "config" / "accredit").mkdir(parents=True)
    known = tmp_path / "config" / "accredit" / "configurations.json"
    known.write_text(json.dumps([str(tmp_path / "gone.toml"), str(home / "accredit.toml")]))
    for where in (url, f"{url}/mail"):
        assert told(where) == f"help: start it: accredit serve --config '{home}/accredit.toml'"
    assert "accredit up" in told("http://127.0.0.1:9/mcp")  # it is another's
    command = shlex.split(told().partition(": start it: accredit ")[2])
    with Serving(*command[1:], folder=tmp_path) as serving:
        done = accredit("call", "list_inbox", "--url", serving.url, *files.options, folder=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
    known.unlink()
    env["ACCREDIT_CONFIG"] = str(home / "accredit.toml")
    assert "my gateways" in told()
    home.chmod(0o777)  # whoever can write there could have somebody start what they like
    assert "my gateways" not in told()


def test_a_server_that_is_not_there_is_an_error_without_a_trace(tmp_path: Path) -> None:
    done = accredit("call", "list_inbox", "--url", "http://127.0.0.1:9/mcp", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "127.0.0.1:9 can't be reached" in done.stderr
    assert "Traceback" not in done.stderr
