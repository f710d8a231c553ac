"""The servers of the how-to with the slips that somebody in a hurry makes: what is left open says so at the start, or
runs nothing for a stranger."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.integration.test_server_howto import BLOCK, PAGE
from tests.unit.server.test_server_gate import TRUST, code_of, in_memory

from accredit.errors import ConfigurationError
from accredit.keys import make_token_key, write_key, write_token_key

BLOCKS = {name: body for name, kind, body in BLOCK.findall(PAGE) if kind == "python"}
SERVERS = ("server.py", "fast.py", "low.py")
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
        ("server.py", '@require("email:read")\n', "", -32602),
        ("server.py", OVER, UNDER, -31001),
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
