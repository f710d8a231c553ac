"""What `accredit suggest` prints: TOML and command lines that say what was used, and no more, whatever names say."""

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.ops.conftest import Folder
from tests.unit.policy.test_suggesting import MERGED, ONE, TWO, denied, record, suggested
from tests.unit.ratify.world import AGENT, HUMAN
from tests.world.in_process import Run

from accredit.config.conversion import convert_tables
from accredit.consent.call import CallTerms
from accredit.keys import load_public_key, make_key, write_key
from accredit.ops.suggest import Lines, find_public_keys
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.suggesting import Deployment
from accredit.ratify import Extension
from accredit.signing.arguments import constraint

pytestmark = [pytest.mark.slow, pytest.mark.holds("ops/suggest")]

UNKNOWN = denied("unknown_tool")
HOSTILE = [
    'x"]\n[proofs]\nmode = "off"\n["',
    "x\n[tools.y]\nscope = 'mcp:tool'",
    "'; accredit grant --scope '*' #",
    "$(touch /tmp/owned) `id` ${HOME} \\ ! ~ * ? [a] {a,b}",
    "-- --yes --out /etc/passwd",
    "--scope=mcp:tool",
    "a\r\n# b",
    "ad\u202emin",
    "\u0440\u0430\u0443\u0440\u0430l",
    "\u2028x\u0085y\x7f\x1b[2J",
    "dev.accredit.call",
    '","target":["*"]}',
    "\\",
    "\\u0022",
    "scope",
    "by_name",
    "tools",
    "mail__list_inbox",
]
names = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.text("'\"\\$`!#;&|<>()[]{}*?~ \n\t-=", min_size=1, max_size=20),
)
used = st.lists(st.tuples(names, st.sampled_from(["bb" * 16, "cc" * 16])), min_size=1, max_size=8)
SHELLS = [shell for shell in ("sh", "bash") if shutil.which(shell)]


def lines(*calls: object, to: Deployment = ONE) -> list[str]:
    return list(Lines(suggested(*calls, to=to), {}).text())  # pyright: ignore[reportArgumentType]


def commands(printed: list[str]) -> list[str]:
    return [line for line in printed if line.startswith("accredit ")]


def toml(printed: list[str]) -> str:
    return "\n".join(line for line in printed if not line.startswith("accredit "))


def read_by(shell: str, printed: list[str]) -> list[list[str]]:
    """The words of each command, as a real shell has them. The whole output is run, comments and all."""
    script = "\n".join(line for line in printed if line.startswith(("accredit ", "#")) or not line)
    says = "accredit() { printf '%s\\0' \"$@\"; printf '\\0\\0'; }\n"
    done = subprocess.run(
        [shutil.which(shell) or shell, "-c", says + script], capture_output=True, check=True, env={"PATH": "/nowhere"}
    )
    assert done.stderr == b""
    return [each.split("\0") for each in done.stdout.decode("utf-8").split("\0\0\0")[:-1]]


def after(option: str, words: list[str]) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


@settings(max_examples=60, deadline=None)
@given(used, st.sampled_from([("", ONE), ("mail", TWO), ("mail", MERGED._replace(merged=False))]))
@example([(name, "bb" * 16) for name in HOSTILE], ("", ONE))
def test_what_is_printed_says_exactly_what_was_used(
    calls: list[tuple[str, str]], where: tuple[str, Deployment]
) -> None:
    server, deployment = where
    nothing = deployment._replace(catalogs={name: Catalog() for name in deployment.catalogs})
    records = [record(name, UNKNOWN, server=server, agent=agent, scope="") for name, agent in calls]
    hidden = [record(name + "~", UNKNOWN, server=server, signed=False) for name, _ in calls]
    printed = lines(*records, *hidden, to=nothing)
    assert all(line.isascii() and line.isprintable() for line in printed)
    config = convert_tables(tomllib.loads(toml(printed)), strict=True)
    tables = (config.servers.by_name[server].tools if server else config.tools).by_name
    assert set(tables) == {name for name, _ in calls}
    assert all(not each.sensitive and not each.accepts and not each.facts for each in tables.values())
    assert set(tomllib.loads(toml(printed))) == ({"servers"} if server else {"tools"})
    for shell in SHELLS:
        granted: set[tuple[str, str]] = set()
        for words in read_by(shell, printed):
            assert words[0] == "grant"
            assert [word for word in words if word.startswith("-")] == [
                *("--issuer", "--agent"),
                *["--scope"] * len(after("--scope", words)),
                *("--constraint", "--expires", "--out"),
            ]
            (agent,), (text,) = after("--agent", words), after("--constraint", words)
            only = constraint(text)
            assert isinstance(only, Extension)
            terms = CallTerms.read(only)
            assert (terms.gateway, terms.method) == (f"mail-gateway{server and '/'}{server}", "tools/call")
            assert set(after("--scope", words)) == {tables[name].scope for name in terms.target}
            granted |= {(name, agent) for name in terms.target}
        assert granted == {(name, f"AGENT-{agent[:12]}.pub") for name, agent in calls}


@settings(max_examples=60, deadline=None)
@given(st.lists(names, min_size=1, max_size=6))
def test_no_name_of_what_stays_refused_ends_its_comment(found: list[str]) -> None:
    printed = lines(*(record(name, UNKNOWN, signed=False) for name in found))
    assert all(line.startswith("#") or not line for line in printed)
    assert all(line.isascii() and line.isprintable() for line in printed)
    assert tomllib.loads("\n".join(printed)) == {}
    assert any(
        json.loads(line[line.index('"') : line.rindex('"') + 1]) == found[0][:200] for line in printed if '"' in line
    )


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_no_name_runs_anything_in_a_shell_that_reads_comments_as_commands(tmp_path: Path) -> None:
    """What is pasted into a terminal, on a Mac for example: there zsh takes a line with `#` for a command of that name,
    and does first what `$(...)` in it says."""
    runs = ["$(: > owned)", "`: > owned`", "'; : > owned; '", '"; : > owned; "', "; : > owned #", "!!", "\\"]
    signed = [record(f"x{name}", UNKNOWN, scope="") for name in runs]
    hidden = [record(name, UNKNOWN, signed=False) for name in runs]
    names = {each: f"Ann {name} (" for each, name in zip(("aa" * 16, "bb" * 16), runs[3:], strict=False)}
    printed = list(Lines(suggested(*signed, *hidden, to=ONE._replace(catalogs={"": Catalog()})), names).text())
    pasted = "\n".join(line for line in printed if line.startswith(("accredit ", "#")))
    control = "# $(: > control)\n"
    zsh = [shutil.which("zsh") or "zsh", "-f", "-i", "-s"]
    done = subprocess.run(zsh, input=f"{control}{pasted}\n: > last\n", text=True, capture_output=True, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["control", "last"], done.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_a_backslash_in_a_name_is_none_for_a_shell_that_takes_it_off() -> None:
    r"""In single quotes fish reads `\\\\` as one: the grant would be for a tool of another name."""
    name = "a\\b\\\\c'd"
    (line,) = commands(lines(record(name, UNKNOWN, scope=""), to=ONE._replace(catalogs={"": Catalog()})))
    fish = [shutil.which("fish") or "fish", "-N", "-c", f"function accredit; string join0 -- $argv; end\n{line}"]
    words = subprocess.run(fish, capture_output=True, check=True).stdout.decode().split("\0")
    only = constraint(after("--constraint", words)[0])
    assert isinstance(only, Extension)
    assert CallTerms.read(only).target == (name,)


def test_agents_whose_ids_begin_alike_have_names_of_their_own() -> None:
    one, other = "bb" * 16, "bb" * 15 + "cc"
    printed = commands(lines(record(agent=one), record(agent=other)))
    assert {line.split(" --agent ")[1].split(" ")[0] for line in printed} == {f"AGENT-{one}.pub", f"AGENT-{other}.pub"}


def grant_words(keys: dict[str, Path]) -> list[str]:
    (line,) = [
        each for each in Lines(suggested(record(), to=ONE), {}, keys=keys).text() if each.startswith("accredit ")
    ]
    return shlex.split(line)


@pytest.mark.holds("ops/suggest", "key-paths")
def test_keys_that_are_on_this_machine_are_named__and_the_grant_goes_where_connect_looks_for_it(tmp_path: Path) -> None:
    own = tmp_path / "it is/me"
    keys = {"aa" * 16: own / "owner.key.pub", "bb" * 16: own / "agents/cursor/agent.key.pub"}
    (own / "agents/cursor").mkdir(parents=True)
    assert after("--issuer", grant_words(keys)) == [f"PRINCIPAL-{'aa' * 6}.key"], "the private half is not here"
    (own / "owner.key").touch()
    words = grant_words(keys)
    assert after("--issuer", words) == [f"{own}/owner.key"], "whole, so that it runs in any folder"
    assert after("--agent", words) == [f"{own}/agents/cursor/agent.key.pub"]
    assert after("--out", words) == [f"{own}/agents/cursor/delegation-{'bb' * 6}-1.json"]
    (own / "agents/cursor/grants").mkdir()
    assert after("--out", grant_words(keys)) == [f"{own}/agents/cursor/grants/delegation-{'bb' * 6}-1.json"]


@pytest.mark.holds("ops/suggest", "key-paths")
@pytest.mark.parametrize("name", ["a'b", "$HOME", "`id`", "x!!", "a\\b", "a\nb"])
def test_a_path_that_some_shell_would_not_take_as_it_is_has_a_placeholder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "owner.key").touch()
    words = grant_words({each * 16: tmp_path / name / "owner.key.pub" for each in ("aa", "bb")})
    assert [after(option, words)[0] for option in ("--issuer", "--agent", "--out")] == [
        f"PRINCIPAL-{'aa' * 6}.key", f"AGENT-{'bb' * 6}.pub", f"delegation-{'bb' * 6}-1.json",
    ]  # fmt: skip


def test_keys_are_found_in_the_person_s_folder__of_each_host_s_agent__and_beside_the_configuration(
    tmp_path: Path,
) -> None:
    own, config = tmp_path / "accredit", tmp_path / "gateway/accredit.toml"
    places = [own / "owner.key", own / "agents/cursor/agent.key", config.parent / "x.key", tmp_path / "other/me.key"]
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_key(path, make_key("agent", path.stem, 1))
    (own / "issuer.key.pub").write_text("-----BEGIN PUBLIC KEY-----")
    (own / "desk.toml").write_text('[desk]\nkey_file = "../other/me.key"\n')
    found = find_public_keys({"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}, config)
    assert {path.resolve() for path in found.values()} == {path.with_name(f"{path.name}.pub") for path in places}
    assert all(load_public_key(path).id == id for id, path in found.items())
    (own / "desk.toml").write_text("broken")
    assert len(find_public_keys({"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}, None)) == 2


def test_what_is_sensitive_is_said_to_be_and_signed_without_asking() -> None:
    catalog = Catalog(tools={"wipe": Entry(scope="comms:email:delete")})
    printed = lines(record("wipe", scope=""), to=ONE._replace(catalogs={"": catalog}))
    (line,) = commands(printed)
    assert "--yes" in line.split(" ")
    assert any("sensitive" in each and "comms:email:delete" in each for each in printed)
    said = printed[printed.index(line) - 2]
    assert said.endswith("without this grant the desk asks about each call; with it nobody is asked")


CONFIG = """
[gateway]
id = "mail-gateway"
[proofs]
mode = "observe"
[store]
url = "sqlite:///accredit.db"
"""


def test_the_command_reads_the_log__and_says_when_and_how_often(folder: Folder, run: Run) -> None:
    (folder.path / "accredit.toml").write_text(CONFIG)
    done = run("suggest", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [(each["tool"], each["calls"]) for each in found["tables"]] == [("list_\x1b[31minbox", 1), ("send_email", 2)]
    assert [(each["reason"], each["calls"]) for each in found["refused"]] == [("asked", 1)]
    (grant,) = found["grants"]
    assert (grant["agent_id"], grant["calls"], grant["gateway"]) == (AGENT.id, 3, "mail-gateway")
    assert grant["line"].startswith(
        f"accredit grant --issuer PRINCIPAL-{HUMAN.id[:12]}.key --agent AGENT-{AGENT.id[:12]}.pub "
    )
    assert json.loads(run("suggest", "--json", "--since", "2100-01-01T00:00:00Z").out)["grants"] == []
    printed = run("suggest").out
    assert printed.isascii()
    assert '[tools."list_\\u001b[31minbox"]' in printed
    assert "# 2 calls, 2027-01-15T08:00:00.000Z to 2027-01-15T08:00:02.000Z" in printed


FORGED = (
    "INSERT INTO log_entries SELECT -9223372036854775808, writer, number, key,"
    " CAST(replace(CAST(payload AS TEXT), 'send_email', 'wire_money') AS BLOB), zeroblob(64), ml_dsa_65, digest,"
    " members, proof FROM log_entries WHERE entry = 1"
)


def test_what_somebody_wrote_into_the_store_leads_to_no_grant(folder: Folder, run: Run) -> None:
    """A copy of a genuine record, for a tool that the agent never called."""
    (folder.path / "accredit.toml").write_text(CONFIG)
    before = json.loads(run("suggest", "--json").out)
    assert before["unverified"] == {"entries": 0, "place": "", "reason": ""}
    with closing(sqlite3.connect(folder.path / "accredit.db")) as log, log:
        log.execute(FORGED)
    done = run("suggest", "--json")
    after = json.loads(done.out)
    assert "wire_money" not in done.out
    assert (after.pop("unverified"), before.pop("unverified"))[0]["entries"] == 1
    assert after == before
    printed = run("suggest").out
    assert "wire_money" not in printed
    assert re.search(r"^# left out, as it does not verify: 1 record \(the first at \"[0-9a-f]{32}/1\": ", printed, re.M)


def test_a_record_of_a_gateway_that_is_not_trusted_leads_to_nothing(folder: Folder, run: Run) -> None:
    (folder.path / "accredit.toml").write_text(CONFIG)
    write_key(folder.path / "other.key", make_key("gateway", "Other", 1))
    found = json.loads(run("suggest", "--json", "--key", "other.key.pub").out)
    assert (found["tables"], found["grants"], found["unverified"]["entries"] > 0) == ([], [], True)
    (folder.path / "gateway.key").unlink()
    (folder.path / "gateway.key.pub").unlink()
    done = run("suggest")
    assert (done.code, done.out) == (2, "")
    assert "nothing verifies without a key" in done.err


def test_without_a_log_there_is_nothing_to_read(folder: Folder, run: Run) -> None:
    (folder.path / "accredit.toml").write_text(CONFIG.replace("sqlite:///accredit.db", "memory:"))
    done = run("suggest")
    assert done.code == 2
    assert "a store in memory has no log" in done.err


@pytest.mark.parametrize("command", [("suggest",), ("log", "list"), ("log", "verify"), ("desk", "--read-only")])
def test_in_the_wrong_folder_the_missing_configuration_is_named__not_a_store_or_an_id_of_none(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*command)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: no configuration: there is no accredit.toml here\n")
