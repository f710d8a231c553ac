"""The ways into the gateway that are not the usual ones: none leads around the decision."""

import asyncio
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.world.asgi import Told
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import LAST_CHUNK, STREAM_HEAD, chunk, compact, event, http, post
from tests.world.command import environment
from tests.world.honest_server import HonestServer, answer_to
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer
from tests.world.routes import ROUTES, Route
from tests.world.running import RunningGateway, run
from tests.world.stores import FailsAt
from tests.world.wrap_host import WrapHost

from accredit.errors import ChallengesFull, RequestError
from accredit.gateway import create_app
from accredit.gateway.settings import HttpUpstream
from accredit.jsonrpc.methods import Era
from accredit.keys import write_key
from accredit.policy.passing import AUTHORIZATION
from accredit.ports import Spending
from accredit.stores import MemoryStore, RevocationLists, SqliteStore
from accredit.stores.sqlite import store as sqlite_store

INBOX = {"name": "list_inbox", "arguments": {}}
SEND = {"name": "send_email", "arguments": {}}
CONFIGURATION = """
[gateway]
id = "{id}"
[upstream]
{upstream}
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.list_inbox]
scope = "email:read"
[tools.send_email]
scope = "email:send"
sensitive = true
[tools.pay]
scope = "payments:send"
[store]
url = "sqlite:///accredit.db"
"""


def proved(trust: Trust, session: str = "", params: dict[str, Any] = INBOX, **signed: Any) -> dict[str, Any]:
    proof = trust.proof(trust.chain(), "tools/call", params, Signed(session=session, **signed))
    return {**params, "_meta": {"ratify_proof": proof}}


# --- a store that does not answer -------------------------------------------------------------------


class BrokenStore(FailsAt, MemoryStore):
    """Fails at one of its questions."""


@pytest.mark.parametrize("broken", ["look", "spend", "issue"])
async def test_without_an_answer_of_the_store_nothing_is_forwarded(broken: str, trust: Trust, tmp_path: Path) -> None:
    store = BrokenStore("" if broken == "" else broken)
    async with Route("http-modern", trust, tmp_path, store=store) as route:
        params = SEND if broken == "issue" else proved(trust)
        error = (await route.ask("tools/call", params))["error"]
        assert (error["code"], error["data"]["error"]) == (-31003, "ratify_invalid")
        assert error["data"]["reason"] == "store_unavailable: the decision could not be made"
        assert "secret-place" not in json.dumps(error)
        assert route.received("tools/call") == []


async def test_while_the_database_is_locked_nothing_is_forwarded(
    trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "accredit.db"
    async with Route("http-modern", trust, tmp_path, store=SqliteStore(file)) as route:
        assert "result" in await route.ask("tools/call", proved(trust))
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with monkeypatch.context() as impatient:
            impatient.setattr(sqlite_store, "STORE_LOCK_SECONDS", 0.2)
            error = (await route.ask("tools/call", proved(trust)))["error"]
        assert error["data"]["reason"] == "store_unavailable: the decision could not be made"
        other.execute("ROLLBACK")
        other.close()
        assert "result" in await route.ask("tools/call", proved(trust))
        assert len(route.received("tools/call")) == 2


@pytest.mark.parametrize("name", ROUTES)
async def test_a_challenge_survives_a_restart_in_the_database__and_so_does_that_it_is_spent(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    file = tmp_path / "accredit.db"
    params = proved(trust, bound=False)
    async with Route(name, trust, tmp_path, store=SqliteStore(file)) as route:
        assert "result" in await route.ask("tools/call", params)
    async with Route(name, trust, tmp_path, store=SqliteStore(file)) as route:
        error = (await route.ask("tools/call", params))["error"]
        assert error["data"]["error"] == "ratify_replayed"
        assert len(route.received("tools/call")) == (1 if name.startswith("stdio") else 0)


class FullStore(MemoryStore):
    """Has no room for one more."""

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        raise ChallengesFull("full")


async def test_too_many_challenges_are_an_answer_of_their_own(trust: Trust, tmp_path: Path) -> None:
    async with Route("http-modern", trust, tmp_path, store=FullStore()) as route:
        error = (await route.ask("tools/call", proved(trust)))["error"]
        assert (error["code"], error["data"]["error"]) == (-31007, "too_many_challenges")
        assert error["data"]["retry_after_seconds"] == 60
        asked_for = (await route.ask("tools/call", SEND))["error"]["data"]
        assert asked_for["error"] == "ratify_challenge_required"
        assert route.received("tools/call") == []


PATIENT = """
import sys
from accredit import limits
limits.STORE_LOCK_SECONDS, limits.STORE_WAIT_SECONDS = 30.0, 40.0  # where a stall of the machine is no refusal
from accredit.cli import main
sys.exit(main())
"""
"""The command, with a store that may take its time."""


@pytest.mark.slow
async def test_four_workers_on_one_database_accept_a_proof_once(trust: Trust, tmp_path: Path) -> None:
    write_key(tmp_path / "owner.key", trust.owner)

    server = HonestServer()
    async with RawServer(server) as raw:
        settings = CONFIGURATION.format(id=GATEWAY, upstream=f'url = "{raw.url}"')
        (tmp_path / "accredit.toml").write_text(settings, "utf-8")
        command = [sys.executable, "-c", PATIENT, "serve", "--port", "0", "--workers", "4"]
        command += ["--config", str(tmp_path / "accredit.toml")]
        process = await asyncio.create_subprocess_exec(
            *command, env=environment({}), stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
        )
        assert process.stderr is not None
        try:
            port = 0
            while not port:
                line = (await process.stderr.readline()).decode()
                found = re.search(r"listening on http://127.0.0.1:([0-9]+)", line)
                port = int(found[1]) if found else 0
            drain = asyncio.create_task(process.stderr.read())
            for number in range(4):
                params = proved(trust, bound=number % 2 == 0)

                async def ask(params: dict[str, Any], id: int) -> bytes:
                    posted = post(Era.MODERN, "tools/call", params, id=id)
                    async with RawClient(port) as client:
                        await client.ask("POST", "/mcp", posted.headers, posted.body)
                        return (await client.answer()).body

                answers = await asyncio.gather(*(ask(params, id) for id in range(32)))
                assert sum(b'"result"' in answer for answer in answers) == 1
                assert sum(b"ratify_replayed" in answer for answer in answers) == 31
                assert len(server.messages) == number + 1
        finally:
            process.terminate()
            await process.wait()
        await drain


# --- resumed streams --------------------------------------------------------------------------------


@pytest.mark.holds("gateway/admission/gate", "edits")
async def test_a_list_that_comes_on_a_resumed_stream_is_edited_too__a_client_could_ask_for_it_there(
    trust: Trust,
) -> None:
    lists = answer_to({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"cursor": "2"}})
    prompts = answer_to({"jsonrpc": "2.0", "id": 10, "method": "prompts/list"})

    async def handler(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(
                STREAM_HEAD, chunk(event(compact(lists), id="2")), chunk(event(compact(prompts))), LAST_CHUNK
            )

    async with RawServer(handler) as server:
        settings = trust.settings(HttpUpstream(server.url))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", "s"), ("Last-Event-ID", "1")]
            await client.ask("GET", "/mcp", headers)
            assert (await client.head())[0] == 200
            came = await client.event()
            assert came is not None
            assert came.data is not None
            tools = json.loads(came.data)["result"]["tools"]
            assert [(tool["name"], tool["_meta"]["ratify_scope"]) for tool in tools] == [("pay", "payments:send")]
            came = await client.event()
            assert came is not None
            assert came.data is not None
            (prompt,) = json.loads(came.data)["result"]["prompts"]
            assert prompt["_meta"]["ratify_scope"] == "mcp:prompt"


# --- HTTP+SSE of 2024-11-05 -------------------------------------------------------------------------


async def test_http_sse_of_2024_is_decided__and_a_refusal_comes_on_the_stream(trust: Trust) -> None:
    streams: list[Connection] = []
    came: list[Any] = []

    async def handler(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method == "GET":
                streams.append(connection)
                await connection.send(STREAM_HEAD, chunk(b"event: endpoint\ndata: /messages?sid=1\n\n"))
                await connection.peer_closed()
                return
            message = json.loads(request.body)
            came.append(message)
            await connection.send(http(b"Accepted", "text/plain", status="202 Accepted"))
            await streams[0].send(chunk(event(compact(answer_to(message)))))

    async with RawServer(handler) as server:
        settings = trust.settings(HttpUpstream(server.url.replace("/mcp", "/sse")))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as stream:
            await stream.ask("GET", "/sse", [("Accept", "text/event-stream")])
            assert (await stream.head())[0] == 200
            opened = await stream.event()
            assert opened is not None
            assert opened.data is not None
            target = opened.data.decode()

            async def ask(id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
                body = compact({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
                async with RawClient(gateway.port) as client:
                    await client.ask("POST", target, [("Content-Type", "application/json")], body)
                    assert (await client.answer()).status == 202
                told = await stream.event()
                assert told is not None
                assert told.data is not None
                answer = json.loads(told.data)
                assert answer["id"] == id
                return answer

            assert (await ask(1, "tools/call", INBOX))["error"]["code"] == -31001
            params = proved(trust)
            assert "result" in await ask(2, "tools/call", params)
            assert (await ask(3, "tools/call", params))["error"]["code"] == -31005
            tools = (await ask(4, "tools/list", {"cursor": "2"}))["result"]["tools"]
            assert [tool["name"] for tool in tools] == ["pay"]
            for id, method in ((5, "vendor/run"), (6, "Tools/Call"), (7, "server/discover")):
                assert (await ask(id, method, proved(trust)))["error"]["code"] == -32601
            assert [message["id"] for message in came] == [2, 4]


# --- wrap -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", list(Era))
def test_wrap_decides_as_the_gateway_does(era: Era, trust: Trust, tmp_path: Path) -> None:
    with WrapHost(tmp_path, trust, era) as host:
        assert host.ask("tools/call", INBOX)["error"]["data"]["error"] == "missing_ratify_proof"
        params = proved(trust)
        assert "result" in host.ask("tools/call", params)
        assert host.ask("tools/call", params)["error"]["data"]["error"] == "ratify_replayed"
        assert host.ask("tools/call", SEND)["error"]["data"]["error"] == "ratify_challenge_required"
        tools = host.ask("tools/list", {"cursor": "2"})["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["pay"]
        assert host.told == []
        (came,) = [message for message in host.received() if message["method"] == "tools/call"]
        assert came["params"]["_meta"][AUTHORIZATION]["agent_id"] == trust.agent.id


# --- whatever is in `_meta` -------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["ratify_proof", "ratify_proof ", "Ratify_Proof", AUTHORIZATION, "progressToken"])


@pytest.mark.slow
@given(meta=st.dictionaries(NAMES | st.text(max_size=10), ANYTHING, max_size=5) | ANYTHING, data=st.data())
@examples(max_examples=150)
def test_no_random_meta_crashes_the_gateway_or_passes(meta: object, data: st.DataObject) -> None:
    trust = _trust()
    params: dict[str, Any] = {**INBOX, "_meta": meta}
    if isinstance(meta, dict) and data.draw(st.booleans()):
        proof: dict[str, Any] = trust.proof(_CHAIN[0], "tools/call", INBOX)
        name = data.draw(st.sampled_from(sorted(proof)))
        proof[name] = data.draw(ANYTHING)
        meta["ratify_proof"] = proof
    asked = post(Era.LEGACY, "tools/call", params)

    async def main() -> None:
        server = HonestServer()
        settings = trust.settings(HttpUpstream("http://127.0.0.1:9/never"))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        headers = [(name.lower().encode(), value.encode()) for name, value in asked.headers]
        told = Told("POST", [(b"host", b"127.0.0.1"), *headers], asked.body)
        try:
            await app(told.scope, told.receive, told.send)
        except RequestError:
            raise AssertionError("an exception left the gateway") from None
        finally:
            await app.aclose()
        answer = json.loads(told.body)
        assert answer["error"]["code"] != -32000, "it went to the upstream"
        assert server.messages == []

    run(main())


_TRUST: list[Trust] = []
_CHAIN: list[Any] = []


def _trust() -> Trust:
    if not _TRUST:
        _TRUST.append(Trust())
        _CHAIN.append(_TRUST[0].chain())
    return _TRUST[0]
