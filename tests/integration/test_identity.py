"""`[upstream] identity = "jwt"`: the server learns who calls from a token, which nobody but the gateway can make."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.integration.test_transparent_legacy_sse import JSON, Upstream
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import Posted, compact, http, initialize, notification, post, response
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer
from tests.world.recorded import calls_of, records_at
from tests.world.routes import Route, messages_of
from tests.world.running import RunningGateway
from tests.world.tokened import ISSUER, Tokened

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.settings import IdentitySettings
from accredit.jsonrpc.methods import Era
from accredit.keys import make_token_key
from accredit.policy.catalog import Catalog, Entry
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.holds("tokens/issued")

KEY = make_token_key()
CALL = {"name": "list_inbox", "arguments": {}}
WAYS = ["http-legacy", "http-modern", "sse-legacy", "sse-modern"]


@pytest.fixture(scope="module")
def world() -> Tokened:
    return Tokened()


def on(name: str, trust: Trust, folder: Path, header: str = "", **more: Any) -> Route:
    identity = IdentitySettings(KEY, GATEWAY, header or "Accredit-Identity")
    return Route(name, trust, folder, identity=identity, tells_identity=False, **more)


def claims(text: str, way: Route) -> dict[str, Any]:
    """What the server learns, verified by another library, with the key that the gateway publishes."""
    return jwt.decode(text, KEY.public_key(), ["ES256"], audience=way.url, issuer=GATEWAY)


def proved(way: Route, trust: Trust, method: str = "tools/call", **params: Any) -> Posted:
    params = params or CALL
    proof = trust.proof(trust.chain("email:read"), method, params, Signed(session=way.session))
    return post(way.era, method, {**params, "_meta": {"ratify_proof": proof}})


@pytest.mark.holds("gateway/admission/identity", "fresh", "call-id")
@pytest.mark.parametrize("name", WAYS)
async def test_the_server_learns_who_calls_from_a_token_that_is_good_for_it_alone_and_for_60_seconds(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with on(name, trust, tmp_path) as way:
        for _ in range(2):
            assert "result" in messages_of(await way.send(proved(way, trust)))[-1]
        first, second = (claims(text, way) for text in way.headers_received("accredit-identity"))
        assert first["jti"] != second["jti"]
        assert first["call_id"] != second["call_id"]
        assert first["exp"] - first["iat"] == 60
        assert abs(first["iat"] - time.time()) < 30
        assert {name: first[name] for name in ("iss", "sub", "act", "principal", "scope")} == {
            "iss": GATEWAY,
            "sub": trust.agent.id,
            "act": {"sub": GATEWAY},
            "principal": trust.owner.id,
            "scope": "email:read",
        }
        text = way.headers_received("accredit-identity")[0]
        with pytest.raises(jwt.InvalidAudienceError):
            jwt.decode(text, KEY.public_key(), ["ES256"], audience="http://127.0.0.1:1/mcp")
        assert "dev.accredit/authorization" not in json.dumps(way.received())


@pytest.mark.holds("gateway/admission/identity", "whose")
@pytest.mark.parametrize("name", WAYS)
async def test_no_request_that_nobody_authorized_says_who_calls(name: str, trust: Trust, tmp_path: Path) -> None:
    async with on(name, trust, tmp_path) as way:
        await way.send(post(way.era, "tools/call", CALL))  # refused, and not forwarded
        for asked in (post(way.era, "tools/list", {}), notification(way.era)):
            await way.send(asked)
        if way.session:
            for method in ("GET", "DELETE"):
                async with RawClient(way.port) as client:
                    await client.ask(method, "/mcp", [("Accept", "text/event-stream"), ("Mcp-Session-Id", way.session)])
                    await client.head()
        assert len(way.received()) >= 2
        assert way.headers_received("accredit-identity") == []
        await way.send(proved(way, trust))
        assert len(way.headers_received("accredit-identity")) == 1


@pytest.mark.parametrize("header", ["", "X-Caller"])
@pytest.mark.parametrize("required", [True, False])
async def test_what_a_client_says_of_itself_in_that_header_never_arrives(
    required: bool, header: str, trust: Trust, tmp_path: Path
) -> None:
    async with on("http-legacy", trust, tmp_path, header, required=required, passthrough=("/elsewhere",)) as way:
        name = header or "Accredit-Identity"
        for spelled in (name, name.upper(), name.replace("-", "_"), name.replace("-", ".")):
            for asked in (post(way.era, "tools/list", {}), post(way.era, "ping", {})):
                await way.send(asked.and_header(spelled, "forged"))
            async with RawClient(way.port) as client:
                await client.ask("GET", "/elsewhere", [(spelled, "forged")])
                await client.answer()
            await way.send(proved(way, trust).and_header(spelled, "forged"))
        assert b"forged" not in way.bytes_received()
        assert b"/elsewhere" in way.bytes_received()
        assert len(way.headers_received(name.lower())) == (4 if required else 0)


@pytest.mark.parametrize("required", [True, False])
async def test_a_server_that_echoes_what_the_gateway_tells_it_tells_no_client(
    required: bool, trust: Trust, tmp_path: Path
) -> None:
    """... neither who calls nor the gateway's own key for the server."""

    async def echo(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            came = [(name, value) for name, value in request.headers if name in ("x-caller", "x-api-key")]
            spelled = [(name.replace("-", "_"), value) for name, value in came]
            echoed = (*came, *spelled, ("accredit-identity", "e30"), ("x-passes", "1"))
            await connection.send(
                http(response(json.loads(request.body)["id"]) if request.body else b"", headers=echoed)
            )

    async with RawServer(echo) as server:
        upstream = HttpUpstream(server.url, {"X-Api-Key": "hidden"})
        identity = IdentitySettings(KEY, GATEWAY, "X-Caller")
        more: dict[str, Any] = {
            "required": required,
            "identity": identity,
            "tells_identity": False,
            "passthrough": ("/elsewhere",),
        }
        app = create_app(trust.settings(upstream, **more), store=MemoryStore(), revocations=RevocationLists((), {}))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            proof = trust.proof(trust.chain("email:read"), "tools/call", CALL, Signed())
            posted = post(Era.MODERN, "tools/call", {**CALL, "_meta": {"ratify_proof": proof}})
            for method, path, headers, body in (
                ("POST", "/mcp", posted.headers, posted.body),
                ("GET", "/elsewhere", [], b""),
            ):
                await client.ask(method, path, headers, body)
                answer = await client.answer()
                assert answer.status == 200
                names = {name.replace("_", "-") for name, _ in answer.headers}
                assert names.isdisjoint({"x-caller", "x-api-key", "accredit-identity"}), answer.headers
                assert ("x-passes" in names) is not required
        called, unread = server.requests
        assert (called.header("x-api-key"), unread.header("x-api-key")) == ("hidden", "hidden")
        assert bool(called.header("x-caller")) is required


async def test_a_header_of_that_name_never_arrives_where_the_server_is_told_nothing_in_it(
    trust: Trust, tmp_path: Path
) -> None:
    async with Route("http-modern", trust, tmp_path, required=False) as way:
        for spelled in ("Accredit-Identity", "ACCREDIT_IDENTITY", "accredit.identity"):
            await way.send(post(way.era, "tools/call", CALL).and_header(spelled, "forged"))
        assert len(way.received("tools/call")) == 3
        assert b"forged" not in way.bytes_received()


@pytest.mark.parametrize("name", WAYS)
async def test_with_proofs_off_it_is_the_token_s_subject__whose_issuer_is_named(
    name: str, trust: Trust, world: Tokened, tmp_path: Path
) -> None:
    token = world.token(sub="agent-7", scope="mail:send mail:read")

    more: dict[str, Any] = {"tokens": world.settings(), "key_sets": world.key_sets, "token": token}
    async with on(name, trust, tmp_path, required=False, **more) as way:
        await way.send(post(way.era, "tools/list", {}), token=token)
        assert way.headers_received("accredit-identity") == []
        await way.send(post(way.era, "tools/call", CALL), token=token)
        (text,) = way.headers_received("accredit-identity")
        told = claims(text, way)
        assert (told["sub"], told["scope"], told["token_issuer"]) == ("agent-7", "mail:read mail:send", ISSUER)
        assert "principal" not in told
        assert world.mark(token) not in way.bytes_received()


@pytest.mark.holds("gateway/admission/identity", "one-caller")
async def test_a_batch_is_refused__one_header_can_t_say_whose_each_call_is(trust: Trust, tmp_path: Path) -> None:
    async with on("http-legacy", trust, tmp_path) as way:
        asked = proved(way, trust)
        headers = [(name, "2025-03-26" if name == "MCP-Protocol-Version" else value) for name, value in asked.headers]
        call = json.loads(asked.body)
        for members in ([call], [call, {**call, "id": 8}], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]):
            answer = await way.send(Posted(headers, compact(members)))
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)
        assert [each["method"] for each in way.received()] == ["initialize"]
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        assert (await way.send(Posted(headers, compact([told])))).status == 202
        assert way.headers_received("accredit-identity") == []


async def test_more_than_a_header_can_say_is_refused__and_not_cut(trust: Trust, tmp_path: Path) -> None:
    scopes = [f"custom:{'x' * 240}{number}" for number in range(100)]
    policy = {"catalog": Catalog(tools={"list_inbox": Entry(scope=scopes[0])})}

    async with on("http-modern", trust, tmp_path, policy=policy) as way:
        proof = trust.proof(trust.chain(*scopes), "tools/call", CALL, Signed(scope=scopes[0]))
        answer = await way.send(post(way.era, "tools/call", {**CALL, "_meta": {"ratify_proof": proof}}))
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)
        assert not way.received("tools/call")


@pytest.mark.holds("gateway/admission/identity", "call-id")
async def test_it_names_the_call_as_the_record_does(trust: Trust, tmp_path: Path) -> None:
    async with on("http-modern", trust, tmp_path, records=records_at(tmp_path / "log.db")) as way:
        await way.send(proved(way, trust))
        (text,) = way.headers_received("accredit-identity")
        assert [call["record"].call.id for call in calls_of(way.log)] == [claims(text, way)["call_id"]]


async def test_over_http_sse_the_server_learns_it_too__of_calls_alone(world: Tokened) -> None:
    upstream = Upstream()

    async with upstream.server as server:
        url = server.url.replace("/mcp", "/sse")
        identity = IdentitySettings(KEY, GATEWAY)
        settings = GatewaySettings(HttpUpstream(url), tokens=world.settings(), identity=identity)
        fields = [("Authorization", f"Bearer {world.token()}"), ("Accredit-Identity", "forged")]
        running = RunningGateway(create_app(settings, key_sets=world.key_sets))
        async with running as gateway, RawClient(gateway.port) as client:
            await client.ask("GET", "/sse", fields)
            assert (await client.head())[0] == 200
            named = await client.event()
            target = ((named and named.data) or b"").decode()
            for method in ("ping", "tools/call"):
                body = compact({"jsonrpc": "2.0", "id": method, "method": method, "params": CALL})
                async with RawClient(gateway.port) as other:
                    await other.ask("POST", target, [JSON, *fields], body)
                    assert (await other.answer()).status == 202
        told = [request.header("accredit-identity") for request in server.requests]
        assert told[:2] == [None, None]
        assert jwt.decode(told[2] or "", KEY.public_key(), ["ES256"], audience=url)["sub"] == "agent-7"


async def test_the_public_key_is_for_everybody_at_an_allowed_host__and_the_private_one_for_nobody(
    trust: Trust, tmp_path: Path
) -> None:
    path = "/.well-known/accredit/jwks.json"

    async with on("http-modern", trust, tmp_path, passthrough=("/.well-known/*",)) as way:

        async def asked(method: str, *headers: tuple[str, str]) -> Any:
            async with RawClient(way.port) as client:
                await client.ask(method, path, headers)
                return await client.answer()

        answer = await asked("GET")
        (key,) = json.loads(answer.body)["keys"]
        assert (answer.status, answer.header("content-type")) == (200, "application/json")
        assert "d" not in key
        assert jwt.PyJWK(key).key.public_numbers() == KEY.public_key().public_numbers()
        assert (await asked("POST")).status == 405
        assert (await asked("GET", ("Origin", "https://evil.example"))).status == 403
        assert not way.received(path)


async def test_nobody_is_told_a_key_where_the_server_is_told_nothing(trust: Trust, tmp_path: Path) -> None:
    async with Route("http-modern", trust, tmp_path) as way, RawClient(way.port) as client:
        await client.ask("GET", "/.well-known/accredit/jwks.json", [])
        assert (await client.answer()).status == 404


async def test_an_initialize_says_nothing_of_who_calls(trust: Trust, world: Tokened, tmp_path: Path) -> None:
    more: dict[str, Any] = {"tokens": world.settings(), "key_sets": world.key_sets, "token": world.token()}
    async with on("http-legacy", trust, tmp_path, required=False, **more) as way:
        way.session = ""
        await way.send(initialize(), token=world.token())
        assert way.headers_received("accredit-identity") == []
