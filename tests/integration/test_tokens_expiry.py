"""Tokens whose time is over: between check and call, while a stream stands, and in a process's environment."""

import json
import sys
from pathlib import Path

import pytest
from tests.integration.test_wrap import wrapped
from tests.world.calls import http, post, response
from tests.world.issuer import IssuerKey, claims, key_set_text
from tests.world.patient_stores import IMPORTS
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer, until
from tests.world.running import RunningGateway
from tests.world.tokened import ISSUER, Tokened

from accredit.base.clock import unix_seconds
from accredit.errors import InvalidToken
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.jsonrpc.methods import Era
from accredit.tokens.verify import TOKEN_LEEWAY_SECONDS

CALL = post(Era.MODERN, "tools/call", {"name": "list_inbox", "arguments": {}})


def ends(seconds: int) -> int:
    """The `exp` of a token that is refused from so many seconds on."""
    return unix_seconds() + seconds - TOKEN_LEEWAY_SECONDS


def over(exp: int) -> bool:
    return unix_seconds() >= exp + TOKEN_LEEWAY_SECONDS


@pytest.mark.slow
async def test_a_call_goes_on_when_its_token_was_good_as_it_came__and_the_next_one_does_not() -> None:
    world = Tokened()
    exp = 0

    async def slow(connection: Connection) -> None:
        while await connection.request():
            assert not over(exp)
            await until(lambda: over(exp))
            await connection.send(http(response()))

    async with RawServer(slow) as server:
        settings = GatewaySettings(HttpUpstream(server.url), tokens=world.settings())
        app = create_app(settings, key_sets=world.key_sets)
        async with RunningGateway(app) as running, RawClient(running.port) as client:
            exp = ends(4)  # from now on: it is good until the call has come, however busy the machine is
            sent = CALL.and_header("Authorization", f"Bearer {world.token(exp=exp)}")
            await client.ask("POST", "/mcp", sent.headers, sent.body)
            assert (await client.answer()).status == 200
            await client.ask("POST", "/mcp", sent.headers, sent.body)
            late = await client.answer()
            assert late.status == 401
            assert 'error="invalid_token"' in (late.header("www-authenticate") or "")
            assert len(server.requests) == 1


@pytest.mark.slow
async def test_the_token_of_an_environment_expires_while_the_process_runs() -> None:
    world = Tokened()

    settings, key_sets, exp = world.settings(), world.key_sets, ends(3)
    bearer = Bearer(settings, key_sets, ToolDirectory(), world.token(exp=exp))
    assert await bearer.of_environment() is not None
    await until(lambda: over(exp))
    with pytest.raises(InvalidToken, match="expired"):
        await bearer.of_environment()


def test_wrap_refuses_calls_when_the_token_of_its_environment_has_expired(tmp_path: Path) -> None:
    key, exp = IssuerKey(), ends(3_600)
    command = (sys.executable, "-m", "tests.world.told_clock", str(tmp_path / "ahead"))
    (tmp_path / "keys.json").write_bytes(key_set_text(key))
    (tmp_path / "accredit.toml").write_text(
        f'[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "{ISSUER}"\naudience = "gate"\n'
        'jwks_file = "keys.json"\n',
        "utf-8",
    )
    token = key.sign(claims(ISSUER, unix_seconds() - 60, aud="gate", exp=exp))
    with wrapped(tmp_path, command=command, ACCREDIT_TOKEN=token, PYTHONPATH=IMPORTS["PYTHONPATH"]) as host:
        host.initialize()
        assert "result" in host.call("echo")
        (tmp_path / "ahead").write_text("3600", "ascii")
        host.tool("echo", "late")
        assert host.message()["error"]["code"] == -31010
    assert token.rpartition(".")[2] not in host.stderr


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ("AUTHORIZATION: Bearer {good}\r\n", 200),
        ("authorization:\tbEARER {good}\r\n", 200),
        ("Authorization: Bearer {bad}\r\naUTHORIZATION: Bearer {good}\r\n", 400),
        ("Authorization: Bearer {good}, Bearer {good}\r\n", 401),
        ("Authorization: Bearer\r\n {good}\r\n", 400),
        ("Authorization : Bearer {good}\r\n", 400),
        ("Authorization: Basic YTpi\r\n Bearer {good}\r\n", 400),
        ("X-Authorization: Bearer {good}\r\nConnection: authorization\r\n", 401),
        ("Proxy-Authorization: Bearer {good}\r\n", 401),
    ],
)
async def test_no_other_spelling_of_the_header_lets_anybody_in(fields: str, status: int) -> None:
    world = Tokened()

    async def answering(connection: Connection) -> None:
        while await connection.request():
            await connection.send(http(response()))

    async with RawServer(answering) as server:
        settings = GatewaySettings(HttpUpstream(server.url), tokens=world.settings())
        app = create_app(settings, key_sets=world.key_sets)
        async with RunningGateway(app) as running, RawClient(running.port) as client:
            given = "".join(f"{name}: {value}\r\n" for name, value in CALL.headers)
            given += fields.format(good=world.token(), bad=world.token(exp=7))
            head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{given}Content-Length: {len(CALL.body)}\r\n\r\n"
            await client.send(head.encode(), CALL.body)
            answer = await client.answer()
            assert answer.status == status, answer
            assert len(server.requests) == (status == 200)
            for request in server.requests:
                assert world.mark(world.token()) not in str(request.headers).encode()
                assert "authorization" not in json.dumps(str(request.headers))
