"""What is said of a call's end, and that it is said once, whoever asks and whoever is cancelled."""

import asyncio
import json

import pytest
from msgspec.structs import replace
from tests.world.recorded import FailingRecords

from accredit.attest import CallDecision, Outcome
from accredit.errors import (
    AnswerError,
    ClientGone,
    ProofRefused,
    RequestError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import OpenCall, OpenCalls, outcome_of, outcome_of_end
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.frames import Failure, Request, Success, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.responses import Expected
from accredit.policy.decision import Authority, Decision
from accredit.policy.guarded_call import guarded_call_of

pytestmark = pytest.mark.holds("gateway/recording/open_calls")

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"send","arguments":{"to":"bob"}}}'
RESPONSE = b'{"jsonrpc":"2.0","id":7,"result":{"content":[]}}'


class SlowRecords(FailingRecords):
    """A log in memory that takes outcomes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def write(self) -> None:
        await self.gate.wait()


def decoded(text: bytes) -> Request:
    message = decode_request(text)
    assert isinstance(message, Request)
    return message


def request() -> Request:
    return decoded(CALL)


async def opened(records: FailingRecords) -> tuple[Recorder, OpenCall]:
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    call = await recorder.begin(request(), Call(session="session", revision="2025-11-25"))
    assert call is not None
    return recorder, call


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ("{}", "ok"),
        ('{"isError":false}', "ok"),
        ('{"isError":true}', "tool_error"),
        ('{"resultType":"input_required","inputRequests":{}}', "input_required"),
        ('{"resultType":7}', "ok"),
        ("7", "ok"),
        ('{"a":1,"a":2}', "ok"),
    ],
)
def test_a_result_says_how_it_went(result: str, status: str) -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":7,"result":%s}' % result.encode())
    assert isinstance(frame, Success | Failure)
    found = asyncio.run(outcome_of(frame))
    assert found.status == status
    assert found.result


def test_of_an_error_only_the_code_is_kept() -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":7,"error":{"code":-5,"message":"no mail to bob"}}')
    assert isinstance(frame, Failure)
    assert asyncio.run(outcome_of(frame)) == Outcome(status="error", detail="JSON-RPC error -5")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "unknown"),
        (ClientGone(), "cancelled"),
        (AnswerError("why"), "upstream_invalid"),
        (UpstreamTimeout("why"), "timeout"),
        (UpstreamUnavailable("why"), "unknown"),
        (RequestError(-32600, "a secret argument"), "error"),
        (asyncio.CancelledError(), "unknown"),
        (ValueError("a secret argument"), "unknown"),
    ],
)
def test_an_end_without_an_answer_says_why(error: BaseException | None, status: str) -> None:
    found = outcome_of_end(error)
    assert found.status == status
    assert "secret" not in (found.detail or "")


@pytest.mark.holds("gateway/recording/recorder", "settled")
async def test_what_is_settled_once_is_not_settled_again__and_a_cancelled_client_changes_nothing() -> None:
    records = SlowRecords()
    recorder, call = await opened(records)
    first = asyncio.create_task(call.settle(Outcome(status="ok")))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    records.gate.set()
    assert await call.settle(Outcome(status="cancelled")) is None
    await recorder.drain()
    assert [outcome.status for outcome in records.outcomes] == ["ok"]


@pytest.mark.holds("gateway/recording/recorder", "settled")
async def test_an_exchange_that_ends_settles_what_is_left__and_nothing_twice() -> None:
    records = SlowRecords()
    records.gate.set()
    _, call = await opened(records)
    calls = OpenCalls({call.id: call})
    with pytest.raises(UpstreamTimeout):
        async with calls:
            raise UpstreamTimeout("late")
    assert [outcome.status for outcome in records.outcomes] == ["timeout"]
    assert not calls


async def test_an_error_whose_outcome_is_not_on_record_becomes_another() -> None:
    _, call = await opened(FailingRecords())
    with pytest.raises(RequestError) as raised:
        async with OpenCalls({call.id: call}):
            raise AnswerError("the upstream's words")
    assert (raised.value.code, raised.value.id, raised.value.status) == (-31006, 7, 200)
    _, call = await opened(FailingRecords())
    with pytest.raises(ClientGone):
        async with OpenCalls({call.id: call}):
            raise ClientGone


@pytest.mark.holds("gateway/recording/recorder", "outcome-first")
async def test_an_answer_whose_outcome_is_not_on_record_is_withheld() -> None:
    records = FailingRecords()
    _, call = await opened(records)
    expected = Expected(Era.LEGACY, [request()])
    expected.body(RESPONSE)
    told = json.loads(await OpenCalls({call.id: call}).withhold(expected.answers) or b"")
    assert (told["id"], told["error"]["code"], "result" in told) == (7, -31006, False)


@pytest.mark.holds("gateway/recording/recorder", "decision-first")
async def test_a_refusal_is_not_open_and_without_a_record_there_is_no_call() -> None:
    recorder = Recorder(FailingRecords(decisions=False), RecordSettings("gate"), Counters())
    with pytest.raises(ProofRefused) as raised:
        await recorder.begin(request(), Call())
    assert (raised.value.code, raised.value.data["forwarded"]) == (-31006, False)


async def test_a_call_came_when_its_proof_was_judged__it_may_end_or_the_clock_go_back_before_it_is_recorded() -> None:
    records = FailingRecords()
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    call = guarded_call_of(request())
    assert call is not None
    nobody = Authority(principal_id="p", principal_name="", agent_id="a", granted_scope=(), cert_ids=(), bound=False)
    for judged_at in (1_000, 2**40, None):
        proved = replace(nobody, judged_at=judged_at)
        await recorder.begin(request(), Call(decision=Decision(call, None, proved, proved=proved)))
    long_ago, set_back, unsaid = (each.received_ms for each in records.begun)
    assert long_ago == 1_000_999 < unsaid < set_back == 2**40 * 1_000


async def test_a_client_that_goes_while_its_decision_is_recorded_leaves_no_call_open() -> None:
    class Slow(FailingRecords):
        async def begin(self, decided: CallDecision) -> None:
            await super().begin(decided)
            await asyncio.Event().wait()

        async def write(self) -> None:
            pass

    records = Slow()
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    beginning = asyncio.create_task(recorder.begin(request(), Call(session="session", revision="2025-11-25")))
    await asyncio.sleep(0)
    beginning.cancel()
    await asyncio.wait([beginning])
    await recorder.drain()
    assert beginning.cancelled()
    assert [outcome.status for outcome in records.outcomes] == ["cancelled"]


async def test_a_name_of_any_length_takes_a_bounded_place() -> None:
    records = FailingRecords()
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    message = decode_request(CALL.replace(b'"send"', b'"%s"' % (b"x" * 100_000)))
    assert isinstance(message, Request)
    await recorder.begin(message, Call(session="s" * 60_000, revision="r" * 60_000))
    call = records.begun[0].call
    assert (call.target, call.session, call.revision) == ("x" * 2_048, "s" * 1_000, "r" * 1_000)


async def test_the_calls_of_a_session_whose_id_is_long_are_forgotten_when_they_are_settled__memory_would_fill_up() -> (
    None
):
    records = SlowRecords()
    records.gate.set()
    recorder = Recorder(records, RecordSettings("gate"), Counters())
    for session in ("s" * 60_000, "t"):
        call = await recorder.begin(request(), Call(session=session))
        assert call is not None
        assert recorder.in_session(session).get(call.id) is call
        await call.settle(Outcome(status="ok"))
        assert recorder.in_session(session).get(call.id) is None


async def test_of_two_calls_with_one_id_the_end_of_the_first_leaves_the_second_open() -> None:
    records = SlowRecords()
    records.gate.set()
    recorder, first = await opened(records)
    second = await recorder.begin(request(), Call(session="session"))
    await first.settle(Outcome(status="ok"))
    assert second is not None
    assert recorder.in_session("session").take(second.id) is second


async def test_of_a_batch_all_calls_are_settled__though_whoever_waits_for_that_is_cancelled_at_once() -> None:
    records = SlowRecords()
    records.gate.set()
    recorder, first = await opened(records)
    second = await recorder.begin(decoded(CALL.replace(b'"id":7', b'"id":8')), Call())
    assert second is not None
    ending = asyncio.create_task(OpenCalls({first.id: first, second.id: second}).fail(Outcome(status="unknown")))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert [outcome.status for outcome in records.outcomes] == ["unknown"] * 2
