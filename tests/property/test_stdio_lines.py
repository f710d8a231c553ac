"""Whatever a child writes: no line escapes the error tree, and no call is answered twice."""

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.running import run

from accredit.errors import FrameError
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.stdio import rewriting
from accredit.gateway.stdio.ledger import Answered, Call, Failed, Ledger, answered_ids, member_id
from accredit.gateway.tally import Tally
from accredit.jsonrpc.frames import Notification, Request, decode_frame
from accredit.jsonrpc.methods import Era

IDS = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1"]), st.none(), st.booleans(), st.floats())
NAMES = st.sampled_from(
    ["jsonrpc", "id", "method", "params", "result", "error", "code", "message", "_meta", "progressToken", "requestId"]
    + ["io.modelcontextprotocol/subscriptionId", "resultType", "x", ""]
)
VALUES = st.recursive(
    st.one_of(IDS, st.sampled_from(["2.0", "notifications/progress", "notifications/cancelled"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
MESSAGES = st.builds(lambda found, sure: found | sure, st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from(
    [{}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 1, "result": {}}]
    + [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}}]
))  # fmt: skip
LINES = st.one_of(
    st.binary(max_size=40),
    MESSAGES.map(lambda message: json.dumps(message).encode()),
    st.lists(MESSAGES, max_size=3).map(lambda batch: json.dumps(batch).encode()),
    st.builds(lambda message, cut: json.dumps(message).encode()[:cut], MESSAGES, st.integers(0, 60)),
)


def ledger(*, era: Era, enforce: bool) -> Ledger[Call]:
    settings = GatewaySettings(StdioUpstream(("x",)), enforce=enforce)
    made: Ledger[Call] = Ledger(era, settings, Tally(), lambda _: None)
    made.allow_batches()
    for id in (0, 1, "0", 2):
        request = decode_frame(json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call"}).encode())
        assert isinstance(request, Request)
        made.open(Call(request, request.id, 1 if id == 1 else None))
    return made


@settings(max_examples=150)
@given(st.lists(LINES, max_size=6), st.sampled_from(Era), st.booleans())
def test_no_line_escapes_and_no_call_is_answered_twice(lines: list[bytes], era: Era, enforce: bool) -> None:
    async def main() -> None:
        made = ledger(era=era, enforce=enforce)
        closed: list[Call] = []
        for line in lines:
            verdict = made.judge(line)
            if isinstance(verdict, Answered | Failed):
                closed += verdict.calls
        assert len(closed) == len({id(call) for call in closed})
        assert not {id(call) for call in closed} & {id(call) for call in made.calls.values()}
        assert len(closed) + len(made.calls) == 4
        for call in list(made.calls.values()):
            made.close(call)

    run(main())


@given(LINES)
def test_ids_are_ids(line: bytes) -> None:
    assert all(type(id) in (int, str) for id in answered_ids(line))


@given(MESSAGES)
def test_rewriting_raises_nothing_but_frame_errors(message: dict[str, Any]) -> None:
    with contextlib.suppress(FrameError):
        frame = decode_frame(json.dumps(message).encode())
        if isinstance(frame, Notification):
            member_id(frame, "progressToken")
            if rewriting.subscription_of(frame) is not None:
                assert json.loads(rewriting.subscribed(frame, "s"))["method"] == frame.method
        elif isinstance(frame, Request):
            assert json.loads(rewriting.numbered(frame, 5, token=True))["id"] == 5
        else:
            assert json.loads(rewriting.answered(frame.text, "a", subscription=True))["id"] == "a"
