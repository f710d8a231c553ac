"""Whatever a child writes: no line escapes the error tree, and no call is answered twice."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.running import run

from accredit.errors import FrameError
from accredit.gateway.counters import Counters
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.upstream.stdio import shared
from accredit.gateway.upstream.stdio.conversation import StreamCall
from accredit.gateway.upstream.stdio.pending_calls import Answered, Call, Failed, PendingCalls, answered_ids
from accredit.gateway.upstream.stdio.stream import Stream
from accredit.jsonrpc.frames import Notification, Request, decode_frame, member_id
from accredit.jsonrpc.methods import META_SUBSCRIPTION, Era

pytestmark = pytest.mark.slow

Message = dict[str, Any]
IDS = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1"]), st.none(), st.booleans(), st.floats())
ENVELOPE = ("jsonrpc", "id", "method", "params", "result", "error", "code", "message", "x")
INSIDE = ("_meta", "progressToken", "requestId", "resultType", "io.modelcontextprotocol/subscriptionId")
NAMES = st.sampled_from([*ENVELOPE, *INSIDE])
VALUES = st.recursive(
    st.one_of(IDS, st.sampled_from(["2.0", "notifications/progress", "notifications/cancelled"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
BEGINNINGS: list[Message] = [
    {},
    {"jsonrpc": "2.0"},
    {"jsonrpc": "2.0", "id": 1},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}},
]


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """An object that looks like a message, more or less."""
    return draw(st.dictionaries(NAMES, VALUES, max_size=5)) | draw(st.sampled_from(BEGINNINGS))


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """A line: a message, a batch, or anything; perhaps cut off."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=40))
    text = json.dumps(draw(st.one_of(messages(), st.lists(messages(), max_size=3)))).encode()
    return text[: draw(st.integers(0, 60))] if draw(st.booleans()) else text


def ledger(*, era: Era, enforce: bool) -> PendingCalls[Call]:
    settings = GatewaySettings(StdioUpstream(("x",)), enforce=enforce)
    made: PendingCalls[Call] = PendingCalls(era, settings, Counters(), lambda _: None)
    made.allow_batches()
    for id in (0, 1, "0", 2):
        params: Message = {"_meta": {"progressToken": 1}} if id == 1 else {}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        request = decode_frame(json.dumps(message).encode())
        assert isinstance(request, Request)
        made.open(StreamCall(request, Stream(due=1)))
    return made


@settings(max_examples=150)
@given(st.lists(written(), max_size=6), st.sampled_from(Era), st.booleans())
def test_no_line_escapes_and_no_call_is_answered_twice(lines: list[bytes], era: Era, enforce: bool) -> None:
    async def main() -> None:
        made = ledger(era=era, enforce=enforce)
        closed: list[Call] = []
        for line in lines:
            verdict = await made.judge(line)
            if isinstance(verdict, Answered | Failed):
                closed += verdict.calls
        assert len(closed) == len({id(call) for call in closed})
        assert not {id(call) for call in closed} & {id(call) for call in made.calls.values()}
        assert len(closed) + len(made.calls) == 4
        for call in list(made.calls.values()):
            made.close(call)

    run(main())


@given(written())
def test_ids_are_ids(line: bytes) -> None:
    assert all(type(id) in (int, str) for id in answered_ids(line))


@given(messages())
def test_rewriting_raises_nothing_but_frame_errors(message: Message) -> None:
    with contextlib.suppress(FrameError):
        frame = decode_frame(json.dumps(message).encode())
        if isinstance(frame, Notification):
            member_id(frame, "progressToken")
            if frame.in_meta(META_SUBSCRIPTION) is not None:
                assert json.loads(shared.tag_subscription(frame, "s"))["method"] == frame.method
        elif isinstance(frame, Request):
            assert json.loads(shared.number_request(frame, 5, token=True))["id"] == 5
        else:
            assert json.loads(shared.restore_client_id(frame.text, "a", subscription=True))["id"] == "a"
