"""`[upstream] identity = "jwt"` with the real command, as the how-to says it: the key, its file, and who reads it."""

import asyncio
import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.world.calls import post
from tests.world.command import Serving, accredit
from tests.world.honest_server import HonestServer
from tests.world.issuer import AUDIENCE, key_set_text
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer
from tests.world.tokened import ISSUER, Tokened

from accredit.jsonrpc.methods import Era
from accredit.keys import make_token_key

pytestmark = pytest.mark.holds("config/identity")

PAGE = (Path(__file__).parents[2] / "docs/how-to/know-who-calls.md").read_text("utf-8")
KEYS = "/.well-known/accredit/jwks.json"


def configured(folder: Path, world: Tokened, url: str = "http://127.0.0.1:9000/mcp", more: str = "") -> Path:
    """The how-to's configuration, with tokens required."""
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "keys.json").write_bytes(key_set_text(world.key))
    tokens = f'issuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_file = "keys.json"\n'
    file = folder / "accredit.toml"
    file.write_text(
        f"{text.replace('http://127.0.0.1:9000/mcp', url)}{more}\n"
        f'[tokens]\nmode = "required"\n[[tokens.issuers]]\n{tokens}'
    )
    return file


def who_calls(port: int) -> Callable[..., dict[str, Any]]:
    """The how-to's function."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, Any] = {}
    exec(text.replace("8484", str(port)), made)
    return made["who_calls"]


@pytest.mark.slow
async def test_a_server_tells_calls_through_the_gateway_from_all_others__whichever_worker_and_after_a_restart(
    tmp_path: Path,
) -> None:
    world = Tokened()

    async with RawServer(HonestServer()) as server:
        configured(tmp_path, world, server.url)
        published: set[bytes] = set()
        for workers in ("1", "2"):
            gateway = Serving("--workers", workers, folder=tmp_path)
            try:
                await asyncio.to_thread(gateway.__enter__)
                for _ in range(4):
                    async with RawClient(gateway.port) as client:
                        await client.ask("GET", KEYS)
                        published.add((await client.answer()).body)
                    asked = post(Era.MODERN, "tools/call", {"name": "list_inbox", "arguments": {}})
                    asked = asked.and_header("Authorization", f"Bearer {world.token()}")
                    async with RawClient(gateway.port) as client:
                        await client.ask("POST", "/mcp", asked.headers, asked.body)
                        assert (await client.answer()).status == 200
                read = who_calls(gateway.port)
                said = [
                    await asyncio.to_thread(read, dict(request.headers), server=server.url)
                    for request in server.requests
                ]
                assert {(told["iss"], told["sub"]) for told in said} == {("mail-gateway", "agent-7")}
                forged = jwt.encode({**said[0], "sub": "boss"}, make_token_key(), "ES256")
                for headers in ({}, {"accredit-identity": forged}):
                    with pytest.raises(jwt.PyJWTError):
                        await asyncio.to_thread(read, headers, server=server.url)
                with pytest.raises(jwt.InvalidAudienceError):
                    await asyncio.to_thread(read, dict(server.requests[0].headers))
            finally:
                gateway.__exit__(None, None, None)
        assert len(published) == 1
        assert len(server.requests) == 8
    assert stat.S_IMODE((tmp_path / "identity.key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('headers = { Accredit_Identity = "x" }', "upstream.headers holds"),
        ('identity_header = "Authorization"', "upstream.identity_header"),
        ('identity_header = "Mcp-Session-Id"', "upstream.identity_header"),
        ('identity_header = "X_Caller"', "upstream.identity_header"),
        ('identity_header = "X-Forwarded-User"', "upstream.identity_header"),
        ('identity_header = "X-A"\n[gateway]\nforward_headers = ["x-a"]', "gateway.forward_headers holds"),
        ('identity_header = "X-A"\nidentity = "meta"', 'upstream.identity is "meta"'),
        ('command = ["cat"]', "upstream.command reads none"),
    ],
)
def test_what_would_leave_the_server_without_a_word_or_with_another_s_is_no_configuration(
    more: str, words: str, tmp_path: Path
) -> None:
    text = configured(tmp_path, Tokened()).read_text()
    if "identity =" in more:
        text = text.replace('identity = "jwt"\n', "")
    if "command" in more:
        text = re.sub(r"^url = .*\n", "", text, flags=re.MULTILINE)
    if "[gateway]" in more:
        more, _, gateway = more.partition("\n[gateway]\n")
        text = text.replace("[gateway]\n", f"[gateway]\n{gateway}\n")
    (tmp_path / "accredit.toml").write_text(text.replace("[upstream]\n", f"[upstream]\n{more}\n"))
    done = accredit("config", "check", folder=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


def test_without_a_file_there_is_no_place_for_a_key_that_stays(tmp_path: Path) -> None:
    env = {"ACCREDIT_UPSTREAM__URL": "http://127.0.0.1:1/mcp", "ACCREDIT_UPSTREAM__IDENTITY": "jwt"}
    done = accredit("serve", "--port", "0", folder=tmp_path, env=env)
    assert done.returncode == 2
    assert "no configuration file" in done.stderr
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == "[]"
