"""Several servers behind one gateway: each as if it were the only one, and nothing of one is good at another."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import GATEWAY, Signed, Trust, challenge_in
from tests.world.calls import STREAM_HEAD, chunk, initialize, post
from tests.world.changing_server import ChangingServer, Listed, pins
from tests.world.many_servers import NAMES, Several
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, Connection
from tests.world.recorded import calls_of, records_at
from tests.world.routes import messages_of
from tests.world.running import ASGI, FAST, RunningGateway, by_road
from tests.world.sealed import FORMS, again
from tests.world.tasks_server import EXTENDED
from tests.world.tokened import Tokened

from accredit.app.http_request import HttpExchange, HttpRequest
from accredit.gateway import HttpUpstream, create_app
from accredit.gateway.recording import early_refusals
from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.methods import Era
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/server")

CALL: dict[str, Any] = {"name": "list_inbox", "arguments": {}}
SEND: dict[str, Any] = {"name": "send_email", "arguments": {"to": "bob"}}


def proved(
    trust: Trust, name: str, params: dict[str, Any], method: str = "tools/call", **signed: Any
) -> dict[str, Any]:
    proof = trust.proof(trust.chain(), method, params, Signed(gateway=f"{GATEWAY}/{name}", **signed))
    return {**params, "_meta": {"ratify_proof": proof}}


def modern(params: dict[str, Any], capabilities: Any = None) -> Any:
    return post(Era.MODERN, "tools/call", params, capabilities=capabilities)


def error_of(answer: RawAnswer) -> dict[str, Any]:
    return messages_of(answer)[-1]["error"]


# --- each as if it were the only one ----------------------------------------------------------------


@pytest.mark.parametrize("road", [FAST, ASGI])
@pytest.mark.parametrize("era", [Era.MODERN, Era.LEGACY])
async def test_the_bytes_at_a_servers_path_are_those_of_the_single_case(road: str, era: Era, trust: Trust) -> None:
    asked = [post(era, "tools/call", CALL), post(era, "tools/list", {}), initialize(), post(era, "nonsense", {})]
    asked += [asked[0].and_header("Origin", "https://evil.example"), asked[0].without_header("Content-Type")]

    async def answered(port: int, path: str, posted: Any) -> RawAnswer:
        async with RawClient(port) as client:
            await client.ask("POST", path, posted.headers, posted.body)
            return await client.answer()

    async with Several(trust, required=False) as several:
        single = create_app(trust.settings(HttpUpstream(several.url("mail")), required=False))
        with by_road(road):
            async with RunningGateway(single) as alone, RunningGateway(several.app()) as many:
                for each in asked:
                    one = await answered(alone.port, "/mcp", each)
                    other = await answered(many.port, "/mcp/mail", each)
                    assert (one.status, one.headers, one.body) == (other.status, other.headers, other.body)


NOBODY_S = ["/mcp", "/mcp/", "/mcp/other", "/mcp/other/", "/mcp/mail//", "/mcp//mail", "/mcp/mail/x"]


@pytest.mark.parametrize("path", [*NOBODY_S, "/sse", "/messages"])
async def test_there_is_nothing_at_another_path__nor_at_that_of_the_single_case(path: str, trust: Trust) -> None:
    async with Several(trust) as several, RawClient(several.port) as client:
        await client.ask("POST", path, modern(CALL).headers, modern(CALL).body)
        answer = await client.answer()
        assert (answer.status, several.calls("mail"), several.calls("files")) == (404, [], [])


async def test_http_sse_of_2024_has_its_two_paths_below_each_endpoint(trust: Trust) -> None:
    async def stream(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD + chunk(b"event: endpoint\ndata: /messages?id=1\n\n"))
        await connection.peer_closed()

    several = Several(trust, required=False, handlers={"mail": stream})
    async with several, RawClient(several.port) as client:
        await client.ask("GET", "/mcp/mail/sse", [("Accept", "text/event-stream")], b"")
        assert (await client.head())[0] == 200
        event = await client.event()
        assert event is not None
        assert (event.data or b"").startswith(b"/mcp/mail/messages?session_id=")
        session = (event.data or b"").decode().partition("?")[2]
        assert (await several.post(f"/mcp/files/messages?{session}", b"{}")).status == 404


async def test_plain_calls_take_the_fast_road_at_each_endpoint(trust: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    class Noted(HttpExchange):
        def __init__(self, request: HttpRequest, *surroundings: Any) -> None:
            taken.append(request.head.path)
            super().__init__(request, *surroundings)

    monkeypatch.setattr("accredit.app.http11.HttpExchange", Noted)

    async with Several(trust, required=False) as several:
        for name in NAMES:
            assert (await several.send(name, modern(CALL))).status == 200
    assert taken == ["/mcp/mail", "/mcp/files"]


# --- nothing of one is good at another --------------------------------------------------------------


async def test_a_bound_proof_for_one_server_is_worth_nothing_at_another(trust: Trust) -> None:
    async with Several(trust) as several:
        refused = await several.send("files", modern(proved(trust, "mail", CALL)))
        assert error_of(refused)["data"]["error"] == "ratify_invalid"
        assert several.calls("files") == []
        assert "result" in messages_of(await several.send("mail", modern(proved(trust, "mail", CALL))))[-1]
        assert len(several.calls("mail")) == 1


async def test_a_challenge_that_one_server_issued_is_not_good_at_another(trust: Trust) -> None:
    async with Several(trust) as several:
        challenge = challenge_in(error_of(await several.send("mail", modern(SEND))))
        for bound in (True, False):
            other = proved(trust, "files", SEND, challenge=challenge, bound=bound)
            assert error_of(await several.send("files", modern(other)))["code"] == -31002
        own = proved(trust, "mail", SEND, challenge=challenge)
        assert "result" in messages_of(await several.send("mail", modern(own)))[-1]
        assert (len(several.calls("mail")), several.calls("files")) == (1, [])


async def test_a_state_that_one_server_gave_does_not_open_at_another(trust: Trust) -> None:
    asks = {"name": "list_inbox", "arguments": {"gives": ["approved"]}}

    async with Several(trust, required=False, rounds=RoundsSettings(KeyRing([b"k" * 32]))) as several:
        first = messages_of(await several.send("mail", modern(asks, FORMS)))[-1]["result"]
        state = first["requestState"]
        before = len(several.calls("files"))
        crossed = error_of(await several.send("files", modern(again(asks, state), FORMS)))
        forged = error_of(await several.send("files", modern(again(asks, "forged"), FORMS)))
        assert crossed == forged == {"code": -32602, "message": "Invalid or expired requestState"}
        assert len(several.calls("files")) == before
        assert "result" in messages_of(await several.send("mail", modern(again(asks, state), FORMS)))[-1]


async def test_a_session_of_one_server_is_not_found_at_another(trust: Trust) -> None:
    rounds = RoundsSettings(KeyRing([b"k" * 32]), shared=True)

    async with Several(trust, required=False, rounds=rounds) as several:
        session = (await several.send("mail", initialize())).header("mcp-session-id") or ""
        assert session.startswith("a1.")
        asked = post(Era.LEGACY, "tools/call", CALL)
        crossed, forged = [await several.send("files", asked, session=each) for each in (session, "a1.forged")]
        assert (crossed.status, crossed.body) == (forged.status, forged.body)
        assert (crossed.status, several.calls("files")) == (404, [])
        assert (await several.send("mail", asked, session=session)).status == 200


async def test_a_task_of_one_server_is_unknown_at_another(trust: Trust) -> None:
    def asked(name: str, id: str) -> Any:
        params = proved(trust, name, {"taskId": id}, "tasks/get")
        return post(Era.MODERN, "tasks/get", params, capabilities=EXTENDED)

    async with Several(trust) as several:
        made = messages_of(await several.send("mail", modern(proved(trust, "mail", CALL), EXTENDED)))[-1]
        id = made["result"]["taskId"]
        crossed, unknown = [error_of(await several.send("files", asked("files", each))) for each in (id, "none")]
        assert crossed == unknown
        assert (crossed["code"], crossed["data"]["error"]) == (-32602, "unknown_task")
        assert [each for each in several.servers["files"].messages if each["method"] == "tasks/get"] == []
        own = messages_of(await several.send("mail", asked("mail", id)))[-1]
        assert own["result"]["taskId"] == id


@pytest.mark.holds("gateway/recording/early_refusals", "anonymous-budget")
async def test_strangers_have_no_more_records_for_there_being_more_servers(
    trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_refusals, "STRANGER_RECORDS", 2)
    monkeypatch.setattr(early_refusals, "STRANGER_RECORDS_PER_SECOND", 0.0)
    world, log = Tokened(), records_at(tmp_path / "log.db")

    kept: dict[str, Any] = {"key_sets": world.key_sets, "tokens": world.settings(), "records": log}
    async with Several(trust, required=False, merge=True, **kept) as several:
        for name in ("mail", "files", "", "files", "mail"):
            assert (await several.send(name, modern(CALL))).status == 401
        assert several.gateway.refused["denial_unrecorded"] == 3
        gateway, settings = several.gateway, [several.settings(name) for name in NAMES]
        gateway.swap(gateway.prepare(settings, gateway.routes.shared), 0)  # nor for reloads
        assert (await several.send("mail", modern(CALL))).status == 401
        assert several.gateway.refused["denial_unrecorded"] == 4
    assert len(calls_of(tmp_path / "log.db")) == 2


async def test_a_servers_401_is_about_the_gateway_where_clients_tokens_are_not_for_it(trust: Trust) -> None:
    async def refuse(connection: Connection) -> None:
        while await connection.request() is not None:
            head = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"
            await connection.send(head)

    world = Tokened()
    more: dict[str, Any] = {"key_sets": world.key_sets, "tokens": world.settings()}
    async with Several(trust, required=False, handlers={"mail": refuse}, **more) as several:
        answer = await several.send("mail", modern(CALL), token=world.token())
        assert (answer.status, answer.header("www-authenticate")) == (502, None)
        assert json.loads(answer.body)["error"]["message"] == "Upstream unavailable"
        assert (await several.send("files", modern(CALL), token=world.token())).status == 200
    async with Several(trust, required=False, handlers={"mail": refuse}) as several:  # its own, and so the client's
        assert (await several.send("mail", modern(CALL))).status == 401


async def test_a_token_is_for_all_servers_or_for_one__and_each_path_has_its_own_metadata(trust: Trust) -> None:
    world = Tokened()
    base = world.issuer.audience

    def tokens(name: str) -> Any:
        issuers = (type(world.issuer)(world.issuer.issuer, base, server_audience=f"{base}/{name}"),)
        settings = world.settings()
        return type(settings)(issuers, f"{base}/{name}")

    own = {name: {"tokens": tokens(name)} for name in NAMES}

    async with Several(trust, required=False, key_sets=world.key_sets, own=own) as several:
        of_all, of_mail = world.token(), world.token(aud=f"{base}/mail")
        assert [(await several.send(name, modern(CALL), token=of_all)).status for name in NAMES] == [200, 200]
        assert [(await several.send(name, modern(CALL), token=of_mail)).status for name in NAMES] == [200, 401]
        refused = await several.send("files", modern(CALL))
        metadata = "/.well-known/oauth-protected-resource/mcp/files"
        assert f'{metadata}"' in (refused.header("www-authenticate") or "")
        document = json.loads((await several.get(metadata)).body)
        assert document["resource"] == f"{base}/files"
        assert (await several.get("/.well-known/oauth-protected-resource")).status == 404
        for token, told in ((of_all, True), (of_mail, False)):
            body = json.loads((await several.get("/readyz", "GET", ("Authorization", f"Bearer {token}"))).body)
            assert ("refused" in body) == told


# --- what is known by name --------------------------------------------------------------------------


async def test_readiness_names_each_server__and_one_that_is_down_takes_nothing_from_the_others(trust: Trust) -> None:
    async with Several(trust) as several:
        up = await several.get("/readyz")
        assert (up.status, json.loads(up.body)["servers"]) == (200, {"mail": True, "files": True})
        await several.stop("files")
        async with asyncio.timeout(PATIENCE):
            while (down := await several.get("/readyz")).status == 200:
                await asyncio.sleep(0.05)
        assert (down.status, json.loads(down.body)["servers"]) == (503, {"mail": True, "files": False})
        alone = await several.get("/readyz?scope=gateway")
        assert (alone.status, "servers" in json.loads(alone.body)) == (200, False)
        assert (await several.send("files", modern(proved(trust, "files", CALL)))).status == 502
        assert "result" in messages_of(await several.send("mail", modern(proved(trust, "mail", CALL))))[-1]


async def test_a_server_that_says_with_each_answer_that_its_tools_have_changed_makes_nobody_look_at_another(
    trust: Trust, tmp_path: Path
) -> None:
    quiet, restless = Listed(tmp_path / "quiet.json"), Listed(tmp_path / "restless.json")
    restless.say(told=True)
    handlers = {"mail": ChangingServer(quiet.path), "files": ChangingServer(restless.path, sse=True)}
    own = {"mail": {"pins": pins()}}

    async with Several(trust, required=False, handlers=handlers, own=own) as several:
        for _ in range(3):
            for name in ("files", "mail"):
                assert "result" in messages_of(await several.send(name, modern(CALL)))[-1]
    came = [each["method"] for each in handlers["mail"].messages]
    assert came == ["tools/list", "tools/list", *["tools/call"] * 3]  # one look, of two pages


async def test_a_server_that_hangs__and_strangers_who_fill_it__keep_nobody_from_another(
    trust: Trust, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.gateway.room.MAX_CALLS", 8)
    came = asyncio.Event()
    left = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.request()
        came.set()
        await left.wait()

    async with Several(trust, required=False, handlers={"files": hang}) as several, asyncio.TaskGroup() as group:
        held = [group.create_task(several.send("files", modern(CALL))) for _ in range(4)]
        await came.wait()
        statuses = {(await several.send("mail", modern(CALL))).status for _ in range(8)}
        refused = await several.send("files", modern(CALL))
        left.set()
        assert (refused.status, error_of(refused)["message"]) == (503, "Too many calls")
        assert statuses == {200}
        assert {(await each).status for each in held} <= {502, 503}
