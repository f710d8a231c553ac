"""Tokens with the real command: the first token of a local agent, and a configuration that changed since."""

import asyncio
import base64
import json
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.world.asgi import Told
from tests.world.calls import compact, post
from tests.world.command import Serving, accredit
from tests.world.honest_server import HonestServer
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer

from accredit.errors import RequestError
from accredit.gateway.front.bootstrap import MAX_BOOTSTRAP_AGENT_CHARS, MAX_BOOTSTRAP_ATTEMPTS, Bootstrap
from accredit.gateway.settings import BootstrapSettings
from accredit.jsonrpc.methods import Era
from accredit.keys import make_token_key

pytestmark = pytest.mark.holds("config/tokens")

CALL = post(Era.MODERN, "tools/call", {"name": "list_inbox", "arguments": {}})
TOKENS = """
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "accredit"
audience = "mail-gateway"
public_key_file = "tokens.key.pub"
"""
BOOTSTRAP = '[tokens.bootstrap]\nkey_file = "tokens.key"\nsecret_file = "first.secret"\n'
DATABASE = """
[store]
url = "postgresql://u@/db?host=/nowhere"
replicas = "none"
[cluster]
keys_file = "cluster.keys"
"""


def write(folder: Path, upstream: str, text: str) -> None:
    (folder / "accredit.toml").write_text(f'[upstream]\nurl = "{upstream}"\n{text}', "utf-8")


async def send(port: int, path: str, headers: list[tuple[str, str]], body: bytes) -> RawAnswer:
    async with RawClient(port) as client:
        await client.ask("POST", path, headers, body)
        return await client.answer()


async def called(port: int, token: str) -> int:
    return (await send(port, "/mcp", [*CALL.headers, ("Authorization", f"Bearer {token}")], CALL.body)).status


@pytest.mark.slow
@pytest.mark.holds("gateway/front/bootstrap", "attempts")
@pytest.mark.holds("gateway/admission/bearer", "verification")
async def test_a_local_agent_gets_one_token_for_the_secret_in_the_file(tmp_path: Path) -> None:
    async with RawServer(HonestServer()) as upstream:
        assert accredit("token", "keygen", "tokens.key", folder=tmp_path).returncode == 0
        write(tmp_path, upstream.url, TOKENS + BOOTSTRAP)
        with await asyncio.to_thread(Serving(folder=tmp_path).__enter__) as gateway:
            file = tmp_path / "first.secret"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            secret = file.read_text("ascii").strip()
            wrong = await send(gateway.port, "/token", [], compact({"secret": "x", "agent": "agent-7"}))
            assert wrong.status == 403
            nameless = await send(gateway.port, "/token", [], compact({"secret": secret, "agent": ""}))
            assert nameless.status == 400
            asked = compact({"secret": secret, "agent": "agent-7"})
            given = await send(gateway.port, "/token", [], asked)
            assert (given.status, given.header("cache-control")) == (200, "no-store")
            token = json.loads(given.body)["access_token"]
            assert await called(gateway.port, token) == 200
            assert (await send(gateway.port, "/token", [], asked)).status == 410
            assert not file.exists()
            assert secret not in gateway.stderr
            assert token not in gateway.stderr
        write(tmp_path, upstream.url, TOKENS + BOOTSTRAP + "# changed\n")
        with await asyncio.to_thread(Serving(folder=tmp_path).__enter__) as gateway:
            assert await called(gateway.port, token) == 401


def test_two_workers_would_give_two_tokens(tmp_path: Path) -> None:
    assert accredit("token", "keygen", "tokens.key", folder=tmp_path).returncode == 0
    write(tmp_path, "http://127.0.0.1:1/mcp", TOKENS + BOOTSTRAP)
    done = accredit("serve", "--workers", "2", folder=tmp_path)
    assert (done.returncode, "tokens.bootstrap" in done.stderr) == (2, True)
    assert not (tmp_path / "first.secret").exists()


@pytest.mark.skipif(find_spec("asyncpg") is None, reason="asyncpg is not installed")
def test_so_would_two_gateways_with_one_database(tmp_path: Path) -> None:
    assert accredit("token", "keygen", "tokens.key", folder=tmp_path).returncode == 0
    (tmp_path / "cluster.keys").write_bytes(base64.b64encode(bytes(32)))
    (tmp_path / "cluster.keys").chmod(0o600)
    write(tmp_path, "http://127.0.0.1:1/mcp", TOKENS + BOOTSTRAP + DATABASE)
    done = accredit("serve", folder=tmp_path)
    assert (done.returncode, "tokens.bootstrap gives one token" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "first.secret").exists()


@pytest.mark.parametrize(
    ("secret_file", "told"),
    [
        ("tokens.key", "written over"),
        ("../{0.name}/tokens.key", "written over"),
        ("accredit.toml", "written over"),
        ("nowhere/secret", "there is no folder"),
    ],
)
def test_the_secret_is_written_over_nothing_that_the_gateway_needs(secret_file: str, told: str, tmp_path: Path) -> None:
    assert accredit("token", "keygen", "tokens.key", folder=tmp_path).returncode == 0
    write(tmp_path, "http://127.0.0.1:1/mcp", TOKENS + BOOTSTRAP.replace("first.secret", secret_file.format(tmp_path)))
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    for command in (("serve",), ("config", "check")):
        done = accredit(*command, folder=tmp_path)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_a_key_that_the_issuer_does_not_know_stops_the_start(tmp_path: Path) -> None:
    for name in ("tokens.key", "other.key"):
        assert accredit("token", "keygen", name, folder=tmp_path).returncode == 0
    write(tmp_path, "http://127.0.0.1:1/mcp", TOKENS + BOOTSTRAP.replace("tokens.key", "other.key"))
    done = accredit("config", "check", folder=tmp_path)
    assert (done.returncode, "would not be good here" in done.stderr) == (2, True)


def bootstrap(before: Bootstrap | None = None, secret: str = "s3cret") -> Bootstrap:
    terms = BootstrapSettings(secret, Path("unused"), make_token_key(), "accredit", "gate", 60, "", lambda: None)
    assert secret not in repr(terms)
    return Bootstrap(terms, before)


def asked(first: Bootstrap, body: Any, peer: str = "127.0.0.1", client: str = "127.0.0.1") -> int:
    told = Told("POST", [], compact(body))
    told.exchange.address, told.exchange.client = peer, client
    try:
        asyncio.run(first.serve(told.exchange))
    except RequestError as error:
        return error.status
    return 200


@pytest.mark.holds("gateway/front/bootstrap", "loopback")
@pytest.mark.parametrize("peer", ["10.0.0.1", "", "localhost", "::ffff:10.0.0.1"])
def test_nobody_elsewhere_gets_a_token(peer: str) -> None:
    """Whether they come themselves, or by a proxy on this machine that says so; and whatever a proxy elsewhere says."""
    for place in ({"peer": peer}, {"client": peer}, {"peer": peer, "client": peer}):
        assert asked(bootstrap(), {"secret": "s3cret", "agent": "a"}, **place) == 403


@pytest.mark.holds("gateway/front/bootstrap", "attempts", "secret")
def test_who_guesses_too_often_gets_none_with_the_right_secret_either() -> None:
    first = bootstrap()
    guesses = [asked(first, {"secret": f"{number}", "agent": "a"}) for number in range(MAX_BOOTSTRAP_ATTEMPTS)]
    assert set(guesses) == {403}
    assert asked(first, {"secret": "s3cret", "agent": "a"}) == 410


@pytest.mark.holds("gateway/front/bootstrap", "attempts", "secret")
def test_a_reload_gives_no_second_token_and_no_more_guesses() -> None:
    """The secret that was written down at the start stays the one, though settings are made with another."""
    used, guessed = bootstrap(), bootstrap()
    assert asked(used, {"secret": "s3cret", "agent": "a"}) == 200
    for _ in range(MAX_BOOTSTRAP_ATTEMPTS - 1):
        assert asked(guessed, {"secret": "wrong", "agent": "a"}) == 403
    for secret in ("s3cret", "of-the-reload"):
        assert asked(bootstrap(used, "of-the-reload"), {"secret": secret, "agent": "a"}) == 410
    again = bootstrap(guessed, "of-the-reload")
    assert asked(again, {"secret": "of-the-reload", "agent": "a"}) == 403
    assert asked(again, {"secret": "s3cret", "agent": "a"}) == 410


@pytest.mark.holds("gateway/front/bootstrap", "body")
@pytest.mark.parametrize("body", [[], {}, {"secret": 1, "agent": "a"}, {"secret": "s3cret", "agent": "a", "x": 1}])
def test_a_body_that_is_something_else_uses_nothing_up(body: Any) -> None:
    first = bootstrap()
    assert asked(first, body) == 400
    assert asked(first, {"secret": "s3cret", "agent": "a"}) == 200


@pytest.mark.holds("gateway/front/bootstrap", "name")
@pytest.mark.parametrize("agent", ["", "a\nb", "a" * (MAX_BOOTSTRAP_AGENT_CHARS + 1)])
def test_a_name_that_no_token_can_hold_gets_none_and_leaves_the_secret_unused(agent: str) -> None:
    first = bootstrap()
    assert asked(first, {"secret": "s3cret", "agent": agent}) == 400
    assert asked(first, {"secret": "s3cret", "agent": "a"}) == 200
