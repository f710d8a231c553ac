"""The servers of the how-to with the slips that somebody in a hurry makes: what is left open says so at the start, or
runs nothing for a stranger."""

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.integration.test_server_howto import BLOCK, PAGE
from tests.unit.server.test_server_gate import TRUST, code_of, in_memory
from tests.world.raw_server import PATIENCE
from tests.world.warm import python

from accredit.errors import ConfigurationError
from accredit.keys import make_token_key, write_key, write_token_key
from accredit.server import ProofGuard
from accredit.server.judge import MAX_OPEN_TOOLS

BLOCKS = {name: body for name, kind, body in BLOCK.findall(PAGE) if kind == "python"}
SERVERS = ("guarded_server.py", "fast.py", "low.py")
TOKENS = "token_server.py"
OVER = '@mcp.tool()\n@require("email:read")\n'
UNDER = '@require("email:read")\n@mcp.tool()\n'
GUARD = 'ProofGuard(roots=["owner.key.pub"], gateway_id="mail")'


def served(folder: Path, name: str, old: str, new: str) -> Any:
    """The server of a block in which one text stands for another."""
    assert old in BLOCKS[name]
    write_key(folder / "owner.key", TRUST.owner)
    write_key(folder / "agent.key", TRUST.agent)
    write_token_key(folder / "tokens.key", make_token_key())
    (folder / name).write_text(BLOCKS[name].replace(old, new), "utf-8")
    names = runpy.run_path(str(folder / name))
    return names.get("mcp") or names["server"]


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        *((name, "", "", -31001) for name in SERVERS),
        (TOKENS, "", "", -31011),
        ("guarded_server.py", '@require("email:read")\n', "", -32602),
        ("guarded_server.py", OVER, UNDER, -31001),
        ("fast.py", '@require("email:read")\n', "", -32602),
        ("fast.py", OVER, UNDER, -31001),
        ("fast.py", f"{GUARD}.protect(mcp)", f"mcp.add_middleware({GUARD})", -32603),
        ("low.py", '"list_inbox": require("email:read"), ', "", -32602),
        ("low.py", '"list_inbox": require', '"list_inbx": require', -32602),
        (TOKENS, 'audience="mail"', 'audience="post"', -31011),
    ],
)
def test_a_server_of_the_how_to_runs_nothing_for_a_stranger__also_with_a_slip(
    name: str, old: str, new: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = served(tmp_path, name, old, new)

    async def case(client: Client) -> None:
        assert await code_of(client.call_tool("wipe" if name == TOKENS else "list_inbox", {})) == code

    in_memory(server, case)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        *(
            (name, 'roots=["owner.key.pub"]', f"roots={roots}")
            for name in SERVERS
            for roots in ("[]", '"owner.key.pub"', '["agent.key.pub"]', "None", '["other.key.pub"]')
        ),
        *((name, 'gateway_id="mail"', 'gateway_id=""') for name in SERVERS),
        ("low.py", 'require("email:read")', '"email:read"'),
        ("low.py", "guard.protect(server", "guard.protect(server)\nguard.protect(server"),
        (TOKENS, 'gateway_id="mail"', 'gateway_id=""'),
        (TOKENS, "TokenRules([issuer])", "TokenRules([])"),
        (TOKENS, "tokens=TokenRules([issuer])", "tokens=None"),
        (TOKENS, "TokenRules([issuer])", "TokenRules([issuer], bind_agent=True)"),
        (TOKENS, 'key_file="tokens.key.pub"', 'key_file="other.key.pub"'),
        (TOKENS, ', key_file="tokens.key.pub"', ""),
    ],
)
def test_a_server_of_the_how_to_with_a_slip_that_would_leave_it_open_does_not_start(
    name: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError):
        served(tmp_path, name, old, new)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("key", ["missing", "private", "damaged"])
def test_a_key_file_that_can_not_be_used_is_one_line_and_no_traceback(name: str, key: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(BLOCKS[name], "utf-8")
    public = tmp_path / "owner.key.pub"
    if key == "private":
        write_key(tmp_path / "owner.key", TRUST.owner)
        (tmp_path / "owner.key").replace(public)
    elif key == "damaged":
        public.write_text("{", "utf-8")
    done = subprocess.run([python(), name], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    if key == "missing":
        assert line == (
            f"accredit: can't read owner.key.pub: there is no file {public}: put the public key there, or make one with"
            " `accredit keys new owner.key --kind human`, or correct the path"
        )
    else:
        assert line.startswith("accredit: owner.key.pub is ")


def test_whoever_handles_it_has_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no file") as caught:
        ProofGuard(roots=[tmp_path / "no.pub"], gateway_id="mail")
    assert isinstance(caught.value, Exception)


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("guarded_server.py", '@require("email:read")\n'),
        ("fast.py", '@require("email:read")\n'),
        ("low.py", '"list_inbox": require("email:read"), '),
    ],
)
def test_the_log_says_once_which_tool_has_no_requirement(
    name: str, old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    server = served(tmp_path, name, old, "")

    async def case(client: Client) -> None:
        for _ in range(2):
            assert await code_of(client.call_tool("list_inbox", {})) == -32602

    in_memory(server, case)
    told = [each.getMessage() for each in caplog.records if "@require" in each.getMessage()]
    assert told == [
        'the tool "list_inbox" has no @require, so each call of it is refused: write @require("SCOPE") over its'
        " function (low-level: name it in tools=), or give the guard a default_tool_scope"
    ]
    assert caplog.records[0].levelname == "WARNING"


def test_the_log_tells_of_a_bounded_number_of_tools__and_safely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    server = served(tmp_path, "low.py", "", "")

    async def case(client: Client) -> None:
        for number in range(MAX_OPEN_TOOLS + 20):
            assert await code_of(client.call_tool(f"\x1b[2J{number}", {})) == -32602

    in_memory(server, case)
    told = [each.getMessage() for each in caplog.records if "@require" in each.getMessage()]
    assert len(told) == MAX_OPEN_TOOLS
    assert all(each.isprintable() for each in told)
