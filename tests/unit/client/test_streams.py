"""Proofs in a transport of the official SDK: what is written, what is read, and what neither side gets to see."""

import base64
import fcntl
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from tests.world.authorization import GATEWAY, Trust
from tests.world.raw_server import PATIENCE

from accredit.client import ProofPresenter
from accredit.client.proving import Prover
from accredit.client.streams import ProvingTransport
from accredit.keys import SigningKey
from accredit.limits import MAX_DIALOGS

ACCEPTED = {"content": []}
BUFFERED = 8
"""Messages that wait on their way, in each direction."""


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


class Ends:
    """Both ends: `host` sends and reads as a session does, `gateway` as a server does."""

    def __init__(self, host: Any, gateway_reads: Any, gateway_writes: Any) -> None:
        self._read, self._write = host
        self._gateway_reads = gateway_reads
        self._gateway_writes = gateway_writes

    async def host_sends(self, message: JSONRPCMessage, headers: dict[str, str] | None = None) -> None:
        await self._write.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))

    async def host_reads(self) -> Any:
        return (await self._read.receive()).message

    async def gateway_reads(self) -> Any:
        self.last = await self._gateway_reads.receive()
        return self.last.message

    async def gateway_sends(self, message: JSONRPCMessage) -> None:
        await self._gateway_writes.send(SessionMessage(message))


@asynccontextmanager
async def between(
    trust: Trust, *, gateway_id: str = GATEWAY, proves: bool = True, uncovered: Any = None, **more: Any
) -> AsyncGenerator[Ends]:
    to_gateway, gateway_reads = anyio.create_memory_object_stream[Any](BUFFERED)
    gateway_writes, from_gateway = anyio.create_memory_object_stream[Any](BUFFERED)

    @asynccontextmanager
    async def inner() -> AsyncGenerator[Any]:
        async with to_gateway, gateway_reads, gateway_writes, from_gateway:
            yield from_gateway, to_gateway

    key = SigningKey(trust.agent.public(), trust.agent.signer())
    presenter = ProofPresenter(key, [trust.chain()], gateway_id=gateway_id)
    prover = Prover(presenter, uncovered=uncovered) if proves else None
    async with ProvingTransport(inner(), prover, **more).open() as host:
        yield Ends(host, gateway_reads, gateway_writes)


@pytest.mark.holds("client/pins", "first-use")
async def test_while_another_process_has_the_file_of_known_gateways_others_have_their_turn(
    trust: Trust, tmp_path: Path
) -> None:
    key = SigningKey(trust.agent.public(), trust.agent.signer())
    known = tmp_path / "known.json"
    prover = Prover(ProofPresenter(key, [trust.chain()], known_gateways=known), "http://gateway.example/mcp")
    transport = ProvingTransport(None, prover)  # pyright: ignore[reportArgumentType]
    refused = {"error": "missing_ratify_proof", "required_scope": "mcp:resource", "_meta": {"ratify_verifier": GATEWAY}}
    answer = SessionMessage(JSONRPCError(jsonrpc="2.0", id=7, error=ErrorData(code=-31001, message="no", data=refused)))

    async with anyio.create_task_group() as tasks:
        transport._tasks = tasks
        transport._write = Written()  # pyright: ignore[reportAttributeAccessIssue]
        with (tmp_path / ".known.json.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            transport._sent(SessionMessage(read()))
            told: Any = await transport._answered(answer)
            assert (told.message.id, "another process holds" in told.message.error.message) == (7, True)
            transport._sent(SessionMessage(read()))
            turns = 0

            async def let_go() -> None:
                nonlocal turns
                for turns in range(1, 4):  # noqa: B007
                    await anyio.sleep(0)
                fcntl.flock(lock, fcntl.LOCK_UN)

            tasks.start_soon(let_go)
            assert await transport._answered(answer) is None  # it is sent again, with a proof
            assert turns == 3
    assert GATEWAY in known.read_text("utf-8")


class Written:
    """Takes what is written."""

    async def send(self, item: SessionMessage) -> None: ...


def request(method: str, params: dict[str, Any] | None = None, *, id: int | str = 7) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=params)


def read(uri: str = "a", *, id: int | str = 7) -> JSONRPCRequest:
    return request("resources/read", {"uri": uri, "_meta": {"progressToken": id}}, id=id)


def answer(id: Any, result: dict[str, Any] | None = None) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=id, result=ACCEPTED if result is None else result)


def refusal(id: Any, code: int, **data: object) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message="no", data=data))


def corrected(id: Any) -> JSONRPCError:
    return refusal(id, -31003, error="ratify_invalid", required_scope="email:read")


def proof_in(message: Any) -> Any:
    return message.params["_meta"]["ratify_proof"]


@pytest.mark.holds("client/streams", "proof")
async def test_a_guarded_call_gets_a_proof_and_keeps_all_else(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(read(), {"mcp-name": "a"})
        written = await ends.gateway_reads()
        assert (written.id, written.params["uri"], written.params["_meta"]["progressToken"]) == (7, "a", 7)
        assert proof_in(written)["agent_id"] == trust.agent.id
        assert ends.last.metadata.headers == {"mcp-name": "a"}
        await ends.gateway_sends(answer(7))
        assert await ends.host_reads() == answer(7)


@pytest.mark.parametrize(
    "message",
    [
        request("ping"),
        request("tools/call"),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled"),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": "unknown"}),
        answer(3),
    ],
)
async def test_what_needs_no_proof_is_written_as_it_is(message: JSONRPCMessage, trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(message)
        assert await ends.gateway_reads() is message


@pytest.mark.parametrize(
    "message",
    [
        answer(99),
        refusal(99, -31002),
        refusal(None, -32700),
        request("elicitation/create", {}),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={}),
    ],
)
async def test_what_answers_nothing_of_ours_is_read_as_it_is(message: JSONRPCMessage, trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.gateway_sends(message)
        assert await ends.host_reads() is message


@pytest.mark.holds("client/streams", "challenge")
async def test_a_request_that_is_sent_again_has_a_new_id_on_the_wire_and_its_own_for_the_host(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(read(), {"mcp-name": "a"})
        first = await ends.gateway_reads()
        await ends.gateway_sends(corrected(7))
        told: list[Any] = []

        async def host() -> None:
            told.append(await ends.host_reads())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            second = await ends.gateway_reads()
            assert second.id not in (7, "7")
            assert proof_in(second)["challenge"] != proof_in(first)["challenge"]
            assert second.params["_meta"]["progressToken"] == 7
            assert ends.last.metadata.headers == {"mcp-name": "a"}
            await ends.gateway_sends(answer(second.id))
        assert told == [answer(7)]


async def test_a_refusal_that_stands_reaches_the_host_under_its_own_id(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(read())
        await ends.gateway_reads()
        await ends.gateway_sends(corrected(7))
        told: list[Any] = []

        async def host() -> None:
            told.append(await ends.host_reads())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            second = await ends.gateway_reads()
            await ends.gateway_sends(refusal(second.id, -31005))
        assert told == [refusal(7, -31005)]


async def test_a_cancellation_names_the_request_that_is_on_the_wire(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(read())
        await ends.gateway_reads()
        await ends.gateway_sends(corrected(7))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ends.host_reads)
            second = await ends.gateway_reads()
            params = {"requestId": 7, "reason": "bored"}
            await ends.host_sends(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))
            told = await ends.gateway_reads()
            assert told.params == {"requestId": second.id, "reason": "bored"}
            await ends.gateway_sends(request("ping"))


async def test_a_cancelled_call_is_not_sent_again(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(read())
        await ends.gateway_reads()
        await ends.host_sends(
            JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 7})
        )
        await ends.gateway_reads()
        await ends.gateway_sends(corrected(7))
        assert await ends.host_reads() == corrected(7)


async def test_for_another_gateway_nothing_is_signed__the_host_gets_an_error_that_names_both(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(request("tools/list"))
        await ends.gateway_reads()
        tools = [{"name": "x", "_meta": {"ratify_scope": "a:b", "ratify_verifier": "evil"}}]
        await ends.gateway_sends(answer(7, {"tools": tools}))
        told = await ends.host_reads()
        assert told.id == 7
        assert told.error.data == {"error": "gateway_changed", "pinned": GATEWAY, "found": "evil"}


def call(name: str = "send", *, id: int = 7, **meta: Any) -> JSONRPCRequest:
    return request("tools/call", {"name": name, "arguments": {}, **({"_meta": meta} if meta else {})}, id=id)


def observed(name: str) -> dict[str, Any]:
    return {"name": name, "_meta": {"ratify_verifier": GATEWAY, "dev.accredit/observed": True}}


MODERN: Any = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 7}


@pytest.mark.holds("client/streams", "list-first")
@pytest.mark.holds("client/proving", "list-first")
async def test_a_call_of_nothing_known_waits_for_one_list__and_is_signed_where_calls_are_only_observed(
    trust: Trust,
) -> None:
    async with between(trust) as ends:
        await ends.host_sends(call(**MODERN), {"mcp-method": "tools/call", "mcp-name": "send"})
        await ends.host_sends(call("other", id=8))
        listed = await ends.gateway_reads()
        assert (listed.method, listed.params) == (
            "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}},
        )  # fmt: skip
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
        assert {name.lower(): value for name, value in ends.last.metadata.headers.items()} == headers
        await ends.gateway_sends(answer(listed.id, {"tools": [observed("send")]}))
        written = sorted([await ends.gateway_reads(), await ends.gateway_reads()], key=lambda each: each.id)
        assert [each.id for each in written] == [7, 8], "also of a tool that the page does not name"
        assert [proof_in(each)["agent_id"] for each in written] == [trust.agent.id] * 2
        await ends.gateway_sends(answer(7))
        assert await ends.host_reads() == answer(7)


@pytest.mark.holds("client/streams", "list-first")
async def test_if_the_list_is_refused_the_call_goes_as_it_is__and_no_list_is_asked_for_again(trust: Trust) -> None:
    async with between(trust) as ends:
        for id in (7, 8):
            await ends.host_sends(call(id=id))
            written = await ends.gateway_reads()
            if id == 7:
                assert written.method == "tools/list"
                await ends.gateway_sends(refusal(written.id, -32601))
                written = await ends.gateway_reads()
            assert (written.id, written.params) == (id, {"name": "send", "arguments": {}})


@pytest.mark.holds("client/proving", "list-retry")
async def test_a_list_that_comes_although_the_delegation_was_revoked_is_no_sign_that_all_is_well(
    trust: Trust, caplog: pytest.LogCaptureFixture
) -> None:
    """A host showed its tools as before, and nothing said why each call of them fails."""
    error = ErrorData(
        code=-31003, message="ratify_revoked: the delegation was revoked", data={"error": "ratify_revoked"}
    )
    async with between(trust) as ends:
        for id in (7, 8):
            await ends.host_sends(request("tools/list", id=id))
            shown = await ends.gateway_reads()
            await ends.gateway_sends(JSONRPCError(jsonrpc="2.0", id=shown.id, error=error))
            again = await ends.gateway_reads()
            await ends.gateway_sends(answer(again.id, {"tools": []}))
            assert (await ends.host_reads()).result == {"tools": []}
    (told,) = [each.getMessage() for each in caplog.records]
    assert told.startswith("ratify_revoked: the delegation was revoked; ")
    assert told.endswith("each answer says what to do")


async def test_a_call_that_is_cancelled_while_the_list_is_under_way_is_never_made(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(call())
        listed = await ends.gateway_reads()
        await ends.host_sends(
            JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 7})
        )
        await ends.gateway_reads()
        await ends.gateway_sends(answer(listed.id, {"tools": [observed("send")]}))
        await ends.host_sends(request("ping", id=9))
        assert (await ends.gateway_reads()).id == 9


async def test_what_is_known_needs_no_list(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(request("tools/list"))
        await ends.gateway_reads()
        await ends.gateway_sends(answer(7, {"tools": TOOLS}))
        await ends.host_reads()
        await ends.host_sends(call("mine", id=8))
        assert (await ends.gateway_reads()).id == 8
        await ends.host_sends(call("unknown", id=9))
        assert (await ends.gateway_reads()).id == 9


TOOLS = [
    {"name": "free"},
    {"name": "mine", "_meta": {"ratify_scope": "email:read"}},
    {"name": "other", "_meta": {"ratify_scope": "files:write"}},
]


@pytest.mark.holds("client/streams", "lists")
async def test_tools_that_no_delegation_covers_are_left_out__and_no_cache_may_share_that_list(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(request("tools/list", {"cursor": "2"}))
        assert (await ends.gateway_reads()).params["cursor"] == "2"
        await ends.gateway_sends(answer(7, {"tools": TOOLS, "nextCursor": "3", "cacheScope": "public"}))
        told = (await ends.host_reads()).result
        assert told == {"tools": TOOLS[:2], "nextCursor": "3", "cacheScope": "private"}


async def test_they_are_marked_where_all_is_to_be_shown(trust: Trust) -> None:
    def marked(tool: dict[str, object]) -> dict[str, object]:
        return {**tool, "description": "not yours"}

    async with between(trust, uncovered=marked) as ends:
        await ends.host_sends(request("tools/list"))
        await ends.gateway_reads()
        await ends.gateway_sends(answer(7, {"tools": TOOLS}))
        told = (await ends.host_reads()).result
        assert told == {"tools": [*TOOLS[:2], {**TOOLS[2], "description": "not yours"}]}


@pytest.mark.holds("client/streams", "proof")
@pytest.mark.parametrize(
    ("method", "carries"),
    [("tools/call", True), ("prompts/list", True), ("subscriptions/listen", True), ("ping", False)],
)
async def test_a_token_goes_where_one_is_asked_for(method: str, carries: bool, trust: Trust) -> None:
    async with between(trust, proves=False, token="marked-secret") as ends:
        await ends.host_sends(request(method, {"name": "x"}))
        written = await ends.gateway_reads()
        assert written.params == {"name": "x"} | ({"_meta": {"token": "marked-secret"}} if carries else {})


async def test_when_the_gateway_goes_the_host_reads_the_end(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends._gateway_writes.aclose()
        with pytest.raises(anyio.EndOfStream):
            await ends.host_reads()
        assert [item async for item in ends._read] == []


@pytest.mark.holds("client/streams", "challenge")
async def test_what_a_challenged_subscription_tells_is_of_the_one_that_the_host_made(trust: Trust) -> None:
    async with between(trust) as ends:
        await ends.host_sends(request("subscriptions/listen", {"notifications": {"taskIds": ["t"]}}))
        await ends.gateway_reads()
        again = refusal(7, -31002, error="ratify_challenge_required", required_scope="", **challenged())
        await ends.gateway_sends(again)
        told: list[Any] = []

        async def host() -> None:
            told.append(await ends.host_reads())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host)
            second = await ends.gateway_reads()
            assert second.id != 7
            await ends.gateway_sends(of_subscription(second.id))
        await ends.gateway_sends(of_subscription("another"))
        assert [*told, await ends.host_reads()] == [of_subscription(7), of_subscription("another")]


async def test_who_gives_a_call_up_is_not_kept_waiting_by_a_server_that_reads_nothing(trust: Trust) -> None:
    async with between(trust) as ends:
        for id in range(BUFFERED):
            await ends.host_sends(JSONRPCRequest(jsonrpc="2.0", id=id, method="ping"))
        with anyio.fail_after(PATIENCE):
            await ends.host_sends(cancelled := of_cancellation(0))
        assert [await ends.gateway_reads() for _ in range(BUFFERED + 1)][-1] == cancelled


async def test_who_gives_a_call_up_when_all_is_closed_is_told_so__and_no_task_of_the_host_s_is_cancelled(
    trust: Trust,
) -> None:
    async with between(trust) as ends:
        await ends.host_sends(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))
    with pytest.raises(anyio.ClosedResourceError):
        await ends.host_sends(of_cancellation(1))


@pytest.mark.holds("client/streams", "dialogs")
async def test_a_server_that_asks_and_reads_no_answers_has_the_host_keep_few(trust: Trust) -> None:
    async with between(trust) as ends:
        taken = 0

        async def asks() -> None:
            for id in range(10 * MAX_DIALOGS):
                await ends.gateway_sends(JSONRPCRequest(jsonrpc="2.0", id=id, method="ping"))

        async def hears() -> None:
            nonlocal taken
            for _ in range(10 * MAX_DIALOGS):
                request = await ends.host_reads()
                taken += 1
                tasks.start_soon(ends.host_sends, JSONRPCResponse(jsonrpc="2.0", id=request.id, result={}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asks)
            tasks.start_soon(hears)
            await anyio.wait_all_tasks_blocked()
            assert BUFFERED < taken < BUFFERED + 2 * MAX_DIALOGS
            answered = [(await ends.gateway_reads()).id for _ in range(10 * MAX_DIALOGS)]
            assert answered == [*range(10 * MAX_DIALOGS)]


def challenged() -> dict[str, Any]:
    """What a gateway says when it wants its own challenge answered."""
    text = base64.b64encode(bytes(32)).decode()
    issued = {"challenge": text, "expires_at": int(time.time()) + 60, "verifier_id": GATEWAY, "binding": "required"}
    return {"_meta": {"ratify_challenge": issued}}


def of_cancellation(id: int) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": id})


def of_subscription(id: int | str) -> JSONRPCNotification:
    meta = {"io.modelcontextprotocol/subscriptionId": id}
    return JSONRPCNotification(
        jsonrpc="2.0", method="notifications/subscriptions/acknowledged", params={"_meta": meta, "notifications": {}}
    )


@pytest.mark.holds("client/streams", "unwritable")
@pytest.mark.parametrize("proves", [True, False])
async def test_a_text_that_has_no_form_in_utf_8_ends_one_request_and_no_other(trust: Trust, proves: bool) -> None:
    half = "\ud83d"
    async with between(trust, proves=proves) as ends:
        call: dict[str, Any] = {"name": "t", "arguments": {"text": half}}
        await ends.host_sends(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=call))
        refused = await ends.host_reads()
        assert (refused.id, refused.error.code) == (1, -32602)
        told = JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={"message": half})
        await ends.host_sends(told)
        await ends.host_sends(JSONRPCResponse(jsonrpc="2.0", id=7, result={"content": {"text": half}}))
        answer = await ends.gateway_reads()
        assert (answer.id, answer.error.code) == (7, -32602)
