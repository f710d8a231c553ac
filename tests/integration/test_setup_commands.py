"""`accredit init` and `accredit check` as real processes: from a server to a gateway that asks for proofs."""

import json
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.world import listing_server
from tests.world.command import Serving, accredit, environment, wait_until, with_nobody_to_ask
from tests.world.mail import MAIL, mail_server
from tests.world.raw_server import PATIENCE
from tests.world.running import run
from tests.world.tool_lists import HOSTILE_TEXTS
from tests.world.warm import path

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("setup/init"),
    pytest.mark.holds("cli/commands/setting_up"),
    pytest.mark.holds("cli/commands/setting_up"),
    pytest.mark.holds("asking/listing"),
    pytest.mark.holds("asking/hosts"),
]

LISTING = (sys.executable, listing_server.__file__)
FILES = ("accredit.toml", "gateway.key", "gateway.key.pub", "accredit.lock")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line as a person would copy it into a shell."""
    return subprocess.run(
        ["sh", "-c", with_nobody_to_ask(command)], check=True, capture_output=True, text=True, cwd=folder,
        env=environment({"PATH": path()}), timeout=PATIENCE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is on stderr, but for the notice that a slow machine brings forth."""
    return [line for line in done.stderr.splitlines() if not line.startswith("waiting for the server")]


def next_steps(printed: str) -> list[str]:
    return [line.strip() for line in printed.partition("next:\n")[2].partition("\nnote: ")[0].splitlines()]


def calls(url: str, folder: Path) -> tuple[list[str], str, str]:
    """The tools that the agent sees, a result that it gets, and a refusal."""

    async def act() -> tuple[list[str], str, str]:
        presenter = ProofPresenter(folder / "agent.key", [folder / "delegation.json"])
        async with AccreditedClient(url, presenter=presenter) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("search", {"word": "number"})
            with pytest.raises(ProofRefused) as refused:
                await client.call_tool("send_email", {"to": "ada@example.org", "subject": "Hello"})
            return listed, str(result.content), refused.value.error

    return run(act())


def test_a_server_is_guarded_after_the_commands_that_were_printed(tmp_path: Path) -> None:
    with mail_server(tmp_path) as url:
        done = accredit("init", url, folder=tmp_path)
        assert (done.returncode, complaints(done)) == (0, [])
        keys, grant, serve = next_steps(done.stdout)
        assert serve == "accredit serve --config accredit.toml"
        early = accredit(*serve.split()[1:], folder=tmp_path)
        assert early.returncode == 2
        assert "accredit keys new" in early.stderr
        shell(keys, tmp_path)
        shell(grant, tmp_path)
        assert accredit("config", "check", folder=tmp_path).returncode == 0
        assert accredit("check", "--config", "accredit.toml", folder=tmp_path).returncode == 0
        assert accredit("check", folder=tmp_path).stdout == "ok: 3 tools, each with a scope\n"
        # What was put together before the processes forked works in each of them.
        with Serving(*serve.split()[2:], "--workers", "2", folder=tmp_path) as gateway:
            listed, content, error = calls(gateway.url, tmp_path)
            assert listed == ["list_inbox", "search"]
            assert "The engine" in content
            assert error == "ratify_scope_denied"
            # What the gateway lists says its scopes itself.
            assert accredit("check", gateway.url, folder=tmp_path).returncode == 0
            gateway.stop()
            assert gateway.wait() == 0


def test_a_command_is_guarded_from_another_folder_too(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    shutil.copy(MAIL[1], tmp_path / "server.py")
    done = accredit("init", "--dir", "there/it is", "--", sys.executable, "server.py", folder=tmp_path)
    assert (done.returncode, complaints(done)) == (0, [])
    folder = tmp_path / "there" / "it is"
    command = tomllib.loads((folder / "accredit.toml").read_text("utf-8"))["upstream"]["command"]
    assert command == [sys.executable, "server.py"]
    keys, grant, serve = next_steps(done.stdout)
    shell(keys, tmp_path)
    shell(grant, tmp_path)
    assert serve == "accredit serve --config 'there/it is/accredit.toml'"
    with Serving("--config", "there/it is/accredit.toml", folder=tmp_path) as gateway:
        assert calls(gateway.url, folder)[2] == "ratify_scope_denied"
    assert accredit("check", "--config", "there/it is/accredit.toml", folder=tmp_path).returncode == 0


def test_a_credential_of_a_command_is_in_no_file_that_others_read(tmp_path: Path) -> None:
    words = ("sh", "-c", 'exec "$1" "$2"', "sh", *MAIL[:2], "--api-key", "sk-0123456789abcdef")
    done = accredit("init", "--", *words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    readable = [each for each in tmp_path.iterdir() if each.is_file() and each.stat().st_mode & 0o077]
    assert readable
    assert not [each for each in readable if b"sk-0123456789abcdef" in each.read_bytes()]


def test_the_files_are_for_whom_they_should_be(tmp_path: Path) -> None:
    done = accredit("init", "--json", "--", *MAIL, folder=tmp_path)
    told = json.loads(done.stdout)
    assert told["files"] == list(FILES)
    assert len(told["next"]) == 3
    assert told["tools"][2] == {"name": "send_email", "scope": "custom:mail:send_email", "sensitive": True}
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES}
    assert modes["gateway.key"] == 0o600
    assert modes["accredit.toml"] & 0o077
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
def test_nothing_is_ever_replaced_and_the_server_is_not_even_asked(link: bool, name: str, tmp_path: Path) -> None:
    if link:
        (tmp_path / name).symlink_to("nowhere")
    else:
        (tmp_path / name).write_text("mine", "utf-8")
    done = accredit("init", "--", "sh", "-c", "touch asked", folder=tmp_path)
    assert done.returncode == 2
    assert f"{name} exists already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_that_comes_meanwhile_is_not_replaced_and_no_key_is_left(tmp_path: Path) -> None:
    server = listing(tmp_path, tools("a"))
    words = f"echo mine > accredit.toml; exec {shlex.join(server)}"
    done = accredit("init", "--", "sh", "-c", words, folder=tmp_path)
    assert done.returncode == 2
    assert "accredit.toml exists already" in done.stderr
    assert (tmp_path / "accredit.toml").read_text("utf-8") == "mine\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accredit.toml", "pages.json"]


def test_a_url_that_may_hold_a_key_is_for_nobody_else_to_read(tmp_path: Path) -> None:
    with mail_server(tmp_path) as url:
        assert accredit("init", f"{url}?key=secret", folder=tmp_path).returncode == 0
    assert stat.S_IMODE((tmp_path / "accredit.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("init",), "no server to ask"),
        (("init", "ftp://127.0.0.1/mcp"), "upstream.url"),
        (("init", "http://127.0.0.1:9/mcp", "--", "cat"), "a URL and a command"),
        (("init", "http://127.0.0.1:9/mcp"), "did not list its tools"),
        (("init", "http://127.0.0.1:9/mcp", "--dir", "new"), "did not list its tools"),
        (("init", "--", "no-such-program-here"), "no-such-program-here"),
        (("init", "--", "false"), "ended with code 1"),
        (("init", "--dir", "file/x", "--", "cat"), "can't make"),
        (("check",), "no upstream"),
        (("check", "--config", "missing.toml"), "missing.toml"),
        (("check", "--config", "missing.toml", "http://127.0.0.1:9/mcp"), "--config and a server"),
        (("check", "http://127.0.0.1:9/mcp"), "did not list its tools"),
        (("check", "no_such_module:server"), "no_such_module"),
        (("check", "json:nothing"), "json:nothing"),
        (("check", "json:dumps"), "no MCP server"),
        (("check", "leaves:server"), "SystemExit"),
    ],
)
def test_what_can_not_be_asked_is_two_lines_and_exit_code_2(
    arguments: tuple[str, ...], word: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)", "utf-8")
    done = accredit(*arguments, folder=tmp_path, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr
    assert len(complaints(done)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "leaves.py"]


def tools(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names], **more}


def listing(folder: Path, *pages: object) -> tuple[str, ...]:
    """The command of a server that lists these pages."""
    (folder / "pages.json").write_text(json.dumps(pages), "utf-8")
    return (*LISTING, "pages.json")


def for_clients(folder: Path, **lists: dict[str, Any]) -> tuple[str, ...]:
    """The command of a server that lists these to clients that can do what the name says (`all`: to everybody)."""
    by_path = {"" if name == "all" else name.replace("_", "."): found for name, found in lists.items()}
    (folder / "pages.json").write_text(json.dumps(by_path), "utf-8")
    return (*LISTING, "pages.json")


@pytest.mark.parametrize(
    "able", ["roots", "sampling_tools", "elicitation_url", "tasks_requests_sampling_createMessage"]
)
def test_a_tool_that_only_able_clients_see_has_a_scope_too__and_check_says_so(able: str, tmp_path: Path) -> None:
    lists = {able: {"tools/list": tools("hidden")}}
    server = for_clients(tmp_path, all={"tools/list": tools("plain")}, **lists)
    done = accredit("init", "--", *server, folder=tmp_path)
    assert "1 that only some clients see" in done.stdout, done
    text = (tmp_path / "accredit.toml").read_text("utf-8")
    assert set(tomllib.loads(text)["tools"]) == {"plain", "hidden"}
    assert text.count("Only some clients see it") == 1
    done = accredit("check", folder=tmp_path)
    assert (done.returncode, complaints(done)) == (0, [])
    assert done.stdout.splitlines()[1].endswith("by what they can do: hidden")
    assert json.loads(accredit("check", "--json", folder=tmp_path).stdout)["only_some"] == ["hidden"]


def test_a_server_with_only_resources_and_prompts_is_set_up__and_the_grant_that_is_printed_covers_them(
    tmp_path: Path,
) -> None:
    resources = [{"uri": "note://a", "name": "a"}, {"uri": "mail://b", "name": "b", "_meta": {"ratify_scope": "m:r"}}]
    template = {"uriTemplate": "log://{day}", "name": "c", "_meta": {"ratify_scope": "log:read"}}
    server = for_clients(
        tmp_path,
        all={
            "resources/list": {"resources": resources},
            "resources/templates/list": {"resourceTemplates": [template]},
            "prompts/list": {"prompts": [{"name": "greet\n[x]"}]},
        },
    )
    done = accredit("init", "--", *server, folder=tmp_path)
    assert (done.returncode, complaints(done)) == (0, [])
    assert "0 tools, none of them sensitive, 3 resources, 1 prompt" in done.stdout
    text = (tmp_path / "accredit.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    assert tables["resources"] == {
        "scope": "mcp:resource",
        "mail://b": {"scope": "m:r"},
        "log://": {"scope": "log:read"},
    }
    assert tables["prompts"] == {"scope": "mcp:prompt"}
    assert "#   greet [x]\n" in text
    keys, grant, _ = next_steps(done.stdout)
    assert "--scope mcp:resource --scope mcp:prompt " in grant
    shell(keys, tmp_path)
    shell(grant, tmp_path)
    assert accredit("config", "check", folder=tmp_path).returncode == 0
    assert accredit("check", folder=tmp_path).stdout == "ok: 0 tools, each with a scope\n"


def test_what_a_server_said_before_it_ended_is_shown__and_steers_no_terminal(tmp_path: Path) -> None:
    words = "printf 'no DATABASE_URL\\033[2J\\n' >&2; exit 3"
    done = accredit("init", "--dir", "new", "--", "sh", "-c", words, folder=tmp_path)
    assert done.returncode == 2
    said, error, remedy = complaints(done)
    assert said.startswith("the server: no DATABASE_URL")
    assert said.isprintable()
    assert error.endswith("ended with code 3")
    assert remedy.startswith("help: run the command by hand")
    assert list(tmp_path.iterdir()) == []


def test_a_command_goes_on_running_where_it_was_given__whatever_its_arguments_name(tmp_path: Path) -> None:
    server = for_clients(tmp_path, all={"tools/list": tools("a")})
    assert accredit("init", "--dir", "there", "--", *server, folder=tmp_path).returncode == 0
    upstream = tomllib.loads((tmp_path / "there" / "accredit.toml").read_text("utf-8"))["upstream"]
    assert upstream == {"command": list(server), "cwd": str(tmp_path)}
    done = accredit("check", "--config", str(tmp_path / "there" / "accredit.toml"), folder=Path("/"))
    assert (done.returncode, complaints(done)) == (0, [])


def test_a_hostile_server_writes_nothing_but_comments_and_names(tmp_path: Path) -> None:
    names = [text for text in HOSTILE_TEXTS if len(text) < 100 and text != "\ud800"]  # that is no JSON to the gateway
    server = listing(tmp_path, tools(*names[:4], nextCursor="1"), tools(*names[4:]))
    done = accredit("init", "--", *server, folder=tmp_path)
    assert (done.returncode, complaints(done)) == (0, []), done
    text = (tmp_path / "accredit.toml").read_text("utf-8")
    assert all(line.isprintable() for line in text.split("\n"))
    tables = tomllib.loads(text)
    assert set(tables["tools"]) == set(names) - {""}
    assert all(entry["sensitive"] for entry in tables["tools"].values())
    done = accredit("check", "--json", folder=tmp_path)
    assert [(each["tool"], each["problem"]) for each in json.loads(done.stdout)["findings"]] == [("", "no_scope")]


@pytest.mark.parametrize(
    ("pages", "word"),
    [
        ([tools("a", "a")], "twice"),
        ([tools("a", nextCursor="1"), tools("a")], "twice"),
        ([tools(nextCursor="0")], "pages"),
        ([lambda: tools(*map(str, range(5_000)))], "more than 4096 elements"),
        ([{"tools": [{}]}], "without a name"),
        ([lambda: tools("x" * 2_500_000)], "Invalid upstream"),
        ([[]], "did not list its tools"),
    ],
    ids=["twice", "on_two_pages", "endless", "many", "nameless", "huge", "no_object"],
)
def test_a_list_that_is_none_is_refused_and_nothing_is_written(pages: list[Any], word: str, tmp_path: Path) -> None:
    listed = [page() if callable(page) else page for page in pages]
    done = accredit("init", "--", *listing(tmp_path, *listed), folder=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr
    assert len(complaints(done)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["pages.json"]


def test_a_check_lists_what_the_catalog_and_the_server_disagree_on(tmp_path: Path) -> None:
    page = tools("new", "other", "same")
    page["tools"][1]["_meta"] = {"ratify_scope": "email:read"}
    catalog = "".join(f'[tools.{name}]\nscope = "email:send"\n' for name in ("other", "same", "gone"))
    command = json.dumps(listing(tmp_path, page))
    (tmp_path / "accredit.toml").write_text(f"[upstream]\ncommand = {command}\n{catalog}", "utf-8")
    done = accredit("check", folder=tmp_path)
    assert (done.returncode, complaints(done)) == (1, [])
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["new", "other", "gone"]


SERVERS = """
from fastmcp import FastMCP
from mcp.server.mcpserver import MCPServer

print("imported")
official, fast = MCPServer("official"), FastMCP("fast")
for server in (official, fast):
    for name, meta in (("send", {"ratify_scope": "email:send"}), ("wipe", None)):
        server.tool(name=name, meta=meta)(lambda: name)
"""


@pytest.mark.parametrize("name", ["official", "fast"])
def test_a_server_object_is_asked_in_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "servers.py").write_text(SERVERS, "utf-8")
    done = accredit("check", "--json", f"servers:{name}", folder=tmp_path)
    assert done.returncode == 1, done
    told = json.loads(done.stdout)
    assert told["tools"] == 2
    assert [(each["tool"], each["problem"]) for each in told["findings"]] == [("wipe", "no_scope")]


def test_a_command_that_is_interrupted_leaves_no_server_behind(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    with subprocess.Popen(
        [sys.executable, "-m", "accredit", "init", "--", *LISTING, "--mute"],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as asking:  # fmt: skip
        wait_until(lambda: asked.exists() and bool(asked.read_text("ascii")))
        asking.send_signal(signal.SIGINT)
        assert asking.wait(PATIENCE) == 128 + signal.SIGINT
        assert asking.stderr is not None
        assert b"Traceback" not in asking.stderr.read()
    server = Path(f"/proc/{asked.read_text('ascii')}")
    wait_until(lambda: not server.exists())
    assert [path.name for path in tmp_path.iterdir()] == ["asked"]
