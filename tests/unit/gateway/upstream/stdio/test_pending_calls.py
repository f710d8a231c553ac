"""Who is owed what, and what each line of a child is."""

import asyncio
import json
import logging
from typing import Any, Self

import pytest
from tests.world.calls import meta
from tests.world.virtual_time import VirtualTimeLoop

from accredit.base.steps import Steps
from accredit.errors import AnswerError, FrameError, LineTooLong, RequestError
from accredit.gateway.counters import Counters
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.upstream.stdio.conversation import StreamCall
from accredit.gateway.upstream.stdio.pending_calls import (
    MAX_ENVELOPE_BYTES,
    REFUSED_LINES_PER_SECOND,
    Answered,
    Call,
    Failed,
    Notified,
    PendingCalls,
    UnexpectedAnswer,
    Verdict,
    answered_ids,
)
from accredit.gateway.upstream.stdio.stream import Stream
from accredit.jsonrpc.frames import Request, Success, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.text import MAX_ANSWER_STRUCTURES
from accredit.limits import MAX_OPEN_REQUESTS, SHORT_MESSAGE_BYTES

UPSTREAM = StdioUpstream(("server",))


def call(id: int | str, method: str = "tools/call", params: dict[str, Any] | None = None) -> Call:
    text = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}).encode()
    request = decode_request(text)
    assert isinstance(request, Request)
    return StreamCall(request, Stream(due=1))


class World:
    """A ledger with some open calls."""

    def __init__(self, *ids: int | str, era: Era = Era.LEGACY, enforce: bool = True, patience: float = 60) -> None:
        self.counters = Counters()
        self.late: list[Call] = []
        settings = GatewaySettings(UPSTREAM, enforce=enforce, upstream_timeout_seconds=patience)
        self.ledger: PendingCalls[Call] = PendingCalls(era, settings, self.counters, self._is_late)
        self.calls = [call(id) for id in ids]
        for each in self.calls:
            self.ledger.open(each)

    def judge(self, line: str | FrameError) -> Verdict[Call]:
        """What a short line is, which nothing has to wait for."""
        try:
            self.ledger.judge(line if isinstance(line, FrameError) else line.encode()).send(None)
        except StopIteration as judged:
            return judged.value
        raise AssertionError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in list(self.ledger.calls.values()):
            self.ledger.close(each)

    def _is_late(self, late: Call) -> None:
        self.late.append(late)
        self.ledger.abandon(late)


@pytest.fixture(autouse=True)
def loop_factory() -> type[VirtualTimeLoop]:
    return VirtualTimeLoop


SOUND = '{"jsonrpc":"2.0","id":1,"result":{}}'
BAD_ANSWERS = {
    "batch": '[{"jsonrpc":"2.0","id":1,"result":{}}]',
    "both": '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}',
    "duplicate": '{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
    "error_code": '{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}',
    "nan": '{"jsonrpc":"2.0","id":1,"result":NaN}',
    "no_result": '{"jsonrpc":"2.0","id":1}',
    "old_version": '{"jsonrpc":"1.0","id":1,"result":{}}',
    "trailing": '{"jsonrpc":"2.0","id":1,"result":{}}]',
}
NOBODYS = {
    "chatter": "Server started",
    "another_value": "[1]",
    "number": "7",
    "other_id": '{"jsonrpc":"2.0","id":2,"result":{}}',
    "other_spelling": '{"jsonrpc":"2.0","id":"01","result":{}}',
    "true_id": '{"jsonrpc":"1.0","id":true,"result":{}',
    "request_without_version": '{"id":1,"method":"x"}',
    "broken_request": '{"id":1,"method":"x"',
    "deep": "[" * 100_000,
}


async def test_a_sound_answer_closes_its_call() -> None:
    with World(1, "1", 5) as world:
        verdict = world.judge(SOUND)
        assert isinstance(verdict, Answered)
        assert verdict.calls == [world.calls[0]]
        assert verdict.text == SOUND.encode()
        assert list(world.ledger.calls) == ["1", 5]


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "fails-request")
@pytest.mark.parametrize("line", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_a_bad_answer_fails_its_call__who_asked_must_not_wait_for_ever(line: str) -> None:
    with World(1, 5) as world:
        verdict = world.judge(line)
        assert isinstance(verdict, Failed)
        assert verdict.calls == [world.calls[0]]
        assert list(world.ledger.calls) == [5]
        assert world.counters.counts == {"answer_refused": 1}


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "fails-request")
@pytest.mark.parametrize(("id", "said"), [(1, '"1"'), (1, "1.0"), ("1", "1"), (-7, '"-7"')])
async def test_an_answer_under_an_id_of_another_type_fails_the_one_request_it_could_be(
    id: int | str, said: str
) -> None:
    with World(id, 5) as world:
        verdict = world.judge('{"jsonrpc":"2.0","id":' + said + ',"result":{}}')
        assert isinstance(verdict, Failed)
        assert verdict.calls == [world.calls[0]]
        assert "id" in str(verdict.error)


async def test_an_id_of_another_type_that_is_open_itself_is_that_requests() -> None:
    with World(1, "1") as world:
        verdict = world.judge('{"jsonrpc":"2.0","id":"1","result":{}}')
        assert isinstance(verdict, Answered)
        assert verdict.calls == [world.calls[1]]


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "other")
@pytest.mark.parametrize("line", NOBODYS.values(), ids=NOBODYS)
async def test_a_line_that_is_nobodys_is_dropped_and_counted(line: str) -> None:
    with World(1, 5) as world:
        assert await world.ledger.judge(line.encode()) is None
        assert list(world.ledger.calls) == [1, 5]
        assert world.counters.counts == {"answer_refused": 1}


async def test_a_server_that_prints_a_lot_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "accredit.gateway")
    with World(1) as world:
        for _ in range(1_000):
            assert world.judge("chatter") is None
        assert world.counters.counts == {"answer_refused": 1_000}
        assert len(caplog.records) == REFUSED_LINES_PER_SECOND


async def test_a_second_answer_is_nobodys() -> None:
    with World(1, 2) as world:
        world.judge(SOUND)
        assert world.judge(SOUND) is None


NAMELESS = '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}'


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "nameless")
async def test_an_error_about_a_notification_answers_no_call_that_is_open__nor_is_its_own_answer_then_lost() -> None:
    with World() as world:
        world.ledger.told()  # notifications/initialized
        world.ledger.open(asked := call(1))
        assert world.judge(NAMELESS) is None
        verdict = world.judge(SOUND)
        assert isinstance(verdict, Answered)
        assert verdict.calls == [asked]


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "nameless")
async def test_each_notification_is_answered_once__what_comes_after_is_for_the_call() -> None:
    with World() as world:
        world.ledger.told(2)
        world.judge(NAMELESS)  # while nothing is open
        world.ledger.open(call(1))
        assert world.judge(NAMELESS) is None
        assert isinstance(world.judge(NAMELESS), Answered)
    with World(1) as world:
        world.ledger.told()
        assert world.judge(NAMELESS) is None
        assert isinstance(world.judge(NAMELESS), Answered)


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "nameless")
async def test_a_server_that_has_answered_a_later_call_says_nothing_more_of_a_notification() -> None:
    with World() as world:
        world.ledger.told()
        world.ledger.open(call(1))
        world.judge(SOUND)
        world.ledger.open(call("a"))
        assert isinstance(world.judge(NAMELESS), Answered)
    with World(1, "a") as world:
        world.ledger.told()
        world.judge(SOUND)
        assert world.judge(NAMELESS) is None
        assert isinstance(world.judge(NAMELESS), Answered)


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "nameless")
async def test_what_the_child_asked_for_counts_as_a_notification__servers_answer_that_too() -> None:
    with World(1) as world:
        world.judge('{"jsonrpc":"2.0","id":"q","method":"roots/list"}')
        answer = decode_frame(b'{"jsonrpc":"2.0","id":"q","result":{}}')
        assert world.ledger.settles(answer)  # type: ignore[arg-type]
        assert world.judge(NAMELESS) is None
    with World(1) as world:
        assert world.judge(LineTooLong("too long", id="q", kind="call", is_message=True)) is not None
        assert world.judge(NAMELESS) is None
    with World(1) as world:
        world.judge('{"jsonrpc":"2.0","id":"q","method":"roots/list"}')
        assert world.ledger.unanswered(LineTooLong("too long", id="q", kind="response", is_message=True)) == ["q"]
        assert world.judge(NAMELESS) is None


async def test_an_error_without_an_id_is_for_the_one_call_that_is_open() -> None:
    line = '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}'
    with World("a") as world:
        verdict = world.judge(line)
        assert isinstance(verdict, Answered)
        assert json.loads(verdict.text)["id"] == "a"
        assert verdict.calls == world.calls
        assert not world.ledger.calls
    with World(1, 2) as world:
        assert world.judge(line) is None
        assert len(world.ledger.calls) == 2


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "long-line")
def test_a_request_that_goes_to_nobody_is_answered__its_server_would_wait_for_ever() -> None:
    world = World()
    line = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}'
    asked = world.judge(line)
    assert isinstance(asked, Request)
    refused = json.loads(world.ledger.refusal(asked, AnswerError("no room")))
    assert (refused["id"], refused["error"]["message"]) == ("q", "Invalid Request: no room")
    assert isinstance(world.judge(line), Request)  # so it may ask again, with the same id


async def test_a_line_too_long_to_be_read_is_for_the_one_call_that_is_open() -> None:
    too_long = FrameError("a line longer than 5 bytes", bound=True)
    broken = '{"jsonrpc":"2.0","result":{"x":"' + "x" * MAX_ENVELOPE_BYTES
    with World(1) as world:
        assert isinstance(world.judge(too_long), Failed)
        assert not world.ledger.calls
    with World(1) as world:
        assert isinstance(await world.ledger.judge(broken.encode()), Failed)
    with World(1, 2) as world:
        assert world.judge(too_long) is None
        assert await world.ledger.judge(broken.encode()) is None
        assert len(world.ledger.calls) == 2


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "long-line")
async def test_a_line_too_long_to_be_read_fails_the_request_that_its_ends_name__or_each_that_it_could_answer() -> None:
    with World(1, 2) as world:
        verdict = world.judge(LineTooLong("too long", id=2, kind="response", is_message=True))
        assert isinstance(verdict, Failed)
        assert verdict.calls == world.calls[1:]
        assert list(world.ledger.calls) == [1]
    with World(1, 2) as world:
        verdict = world.judge(LineTooLong("too long", is_message=True))
        assert isinstance(verdict, Failed)
        assert verdict.calls == world.calls
        assert not world.ledger.calls


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "long-line")
@pytest.mark.parametrize("named", [True, False])
async def test_a_bad_line_of_millions_of_brackets_is_not_opened_for_its_id__which_its_ends_show(named: bool) -> None:
    many = b"[" + b"[]," * (MAX_ANSWER_STRUCTURES + 1) + b"0]"
    line = b'{"jsonrpc":"2.0",%b"result":%b,"result":{},"x":{}}' % (b'"id":2,' if named else b"", many)

    with World(1, 2) as world:
        verdict = await world.ledger.judge(line)
        assert isinstance(verdict, Failed)
        assert verdict.calls == (world.calls[1:] if named else world.calls)
        assert "arrays and objects" in verdict.error.detail


async def test_a_modern_result_is_judged_by_its_request() -> None:
    result = '{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}'
    line = '{"jsonrpc":"2.0","id":1,"result":' + result + "}"

    with World(era=Era.MODERN) as world:
        undeclared = call(1, params={"name": "x", "_meta": meta()})
        world.ledger.open(undeclared)
        assert isinstance(world.judge(line), Failed)
        declared = call(1, params={"name": "x", "_meta": meta(roots={})})
        world.ledger.open(declared)
        assert isinstance(world.judge(line), Answered)


async def test_a_request_of_the_child_is_the_legacy_eras_only() -> None:
    line = '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
    with World() as world:
        assert isinstance(world.judge(line), Request)
    with World(era=Era.MODERN) as world:
        assert world.judge(line) is None


async def test_the_client_answers_only_what_the_child_asked__and_once() -> None:
    answer = decode_frame(b'{"jsonrpc":"2.0","id":"q","result":{}}')
    other = decode_frame(b'{"jsonrpc":"2.0","id":7,"result":{}}')
    nameless = decode_frame(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}')

    with World(1) as world:
        world.judge('{"jsonrpc":"2.0","id":"q","method":"roots/list"}')
        assert world.judge('{"jsonrpc":"2.0","id":"q","method":"roots/list"}') is None  # the same id again
        settled = [world.ledger.settles(frame) for frame in (other, nameless, answer, answer)]  # type: ignore[arg-type]
        assert settled == [False, False, True, False]


async def test_a_request_that_the_child_took_back_is_not_answered() -> None:
    with World() as world:
        world.judge('{"jsonrpc":"2.0","id":0,"method":"roots/list"}')
        world.judge('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}')
        world.judge('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}')
        world.judge('{"jsonrpc":"2.0","method":"notifications/cancelled"}')
        answer = decode_frame(b'{"jsonrpc":"2.0","id":0,"result":{}}')
        assert not world.ledger.settles(answer)  # type: ignore[arg-type]


async def test_the_child_can_not_ask_for_more_than_there_is_room_for() -> None:
    with World() as world:
        for number in range(MAX_OPEN_REQUESTS):
            assert world.judge(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"})) is not None
        assert world.judge('{"jsonrpc":"2.0","id":"more","method":"ping"}') is None


@pytest.mark.holds("gateway/upstream/stdio/session", "progress")
@pytest.mark.parametrize("token", [0, "t", 7])
async def test_progress_belongs_to_the_call_that_gave_its_token(token: int | str) -> None:
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token}})

    with World(1) as world:
        asked = call(9, params={"_meta": {"progressToken": token}})
        world.ledger.open(asked)
        verdict = world.judge(line)
        assert isinstance(verdict, Notified)
        assert verdict.call is asked
        world.ledger.close(asked)
        verdict = world.judge(line)
        assert isinstance(verdict, Notified)
        assert verdict.call is None


def test_a_token_that_is_none_is_none() -> None:
    tokens = [call(1, params={"_meta": value}).token for value in ({"progressToken": 1.5}, {}, 7)]
    assert tokens == [None, None, None]


async def test_an_id_that_is_open_is_refused() -> None:
    with World(1) as world:
        with pytest.raises(RequestError) as refused:
            world.ledger.open(call(1))
        assert (refused.value.code, refused.value.id) == (-32600, 1)
        world.ledger.open(call("1"))


async def test_too_many_open_calls_are_refused() -> None:
    with World() as world:
        for number in range(MAX_OPEN_REQUESTS):
            world.ledger.open(call(number))
        with pytest.raises(RequestError) as refused:
            world.ledger.open(call("more"))
        assert refused.value.status == 503


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "late")
async def test_the_late_answer_to_a_call_that_was_given_up_is_dropped_in_silence() -> None:
    with World(1, 2) as world:
        world.ledger.abandon(world.calls[0])
        assert world.judge(SOUND) is None
        assert not world.counters.counts
        assert world.judge(SOUND) is None
        assert world.counters.counts == {"answer_refused": 1}


async def test_the_id_of_a_call_that_was_given_up_may_be_used_again__its_answer_may_never_come() -> None:
    with World(1) as world:
        world.ledger.abandon(world.calls[0])
        world.ledger.open(call(1))
        assert isinstance(world.judge(SOUND), Answered)


async def test_what_was_given_up_is_forgotten_in_the_end__memory_is_bounded() -> None:
    with World() as world:
        for number in range(MAX_OPEN_REQUESTS + 1):
            asked = call(number)
            world.ledger.open(asked)
            world.ledger.abandon(asked)
        world.ledger.abandon(call("never opened"))
        for number, counted in ((0, 1), (1, 1)):  # the first is forgotten, the second is not
            world.judge(json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}))
            assert world.counters.counts["answer_refused"] == counted


async def test_a_batch_is_taken_apart_where_one_was_sent() -> None:
    line = '[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]'

    with World(1, 2, 3) as world:
        world.ledger.allow_batches()
        verdict = world.judge(line)
        assert isinstance(verdict, Answered)
        assert verdict.calls == world.calls[:2]
        assert list(world.ledger.calls) == [3]


async def test_a_bad_batch_fails_the_calls_that_it_answered() -> None:
    one = '{"jsonrpc":"2.0","id":1,"result":{}}'
    two = '{"jsonrpc":"2.0","id":2,"result":{}}'
    line = f"[{one},{two},{one}]"

    with World(1, 2, 3) as world:
        world.ledger.allow_batches()
        verdict = world.judge(line)
        assert isinstance(verdict, Failed)
        assert verdict.calls == world.calls[:2]


@pytest.mark.parametrize("line", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_observed_a_bad_answer_is_forwarded_as_it_is(line: str) -> None:
    with World(1, enforce=False) as world:
        verdict = world.judge(line)
        assert isinstance(verdict, Answered)
        assert (verdict.text, verdict.calls) == (line.encode(), world.calls)
        assert world.counters.counts == {"answer_refused_observed": 1}


async def test_observed_nobodys_line_is_a_stray__but_bounds_hold() -> None:
    with World(1, 2, enforce=False) as world:
        assert world.judge("Server started") == UnexpectedAnswer(b"Server started")
        assert world.judge("[" * 129 + "]" * 129) is None
        assert world.judge(FrameError("too long", bound=True)) is None
        assert world.counters.counts == {"answer_refused_observed": 1, "answer_refused": 2}


async def test_a_call_about_which_nothing_is_heard_is_late__unless_the_client_is_waited_for() -> None:
    world = World(1, patience=20)
    world.judge('{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}')
    await asyncio.sleep(70)
    assert not world.late
    answer = decode_frame(b'{"jsonrpc":"2.0","id":"q","result":{}}')
    assert world.ledger.settles(answer)  # type: ignore[arg-type]
    await asyncio.sleep(21)
    assert world.late == world.calls


async def test_the_log_names_the_method_of_what_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "accredit.gateway")
    with World(1) as world:
        world.judge(BAD_ANSWERS["both"])
    assert caplog.records[0].__dict__["accredit_fields"]["method"] == "tools/call"


def test_ids_are_found_in_what_is_no_valid_answer() -> None:
    assert answered_ids(b'{"id":"a"} trailing') == ["a"]
    assert answered_ids(b'{"id":7,"id":8}') == [8]
    assert answered_ids(b'{"result":{"id":3}}') == []
    assert answered_ids(b'{"id":5,"x":' + b"9" * 5_000 + b"}") == [5]
    assert answered_ids(b'{"id":5,"x":NaN' + b" " * MAX_ENVELOPE_BYTES + b"}") == []
    assert answered_ids(b'[{"jsonrpc":1,"id":1},{"jsonrpc":1,"id":2},{"jsonrpc":1,"id":1}]') == [1, 2]
    assert answered_ids(b"[1]") == []


async def test_the_error_is_what_a_client_is_told() -> None:
    with World(1) as world:
        verdict = world.judge(BAD_ANSWERS["both"])
        assert isinstance(verdict, Failed)
        assert isinstance(verdict.error, AnswerError)
        assert verdict.error.detail == "both a result and an error"


LONG = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * SHORT_MESSAGE_BYTES}}).encode()


def slow(response: Success) -> Steps[bytes]:
    yield
    return response.text


@pytest.mark.parametrize("line", [LONG, b"[" + LONG + b"]"])
@pytest.mark.parametrize("again", [False, True])
async def test_a_call_that_is_given_up_while_its_answer_is_read_gets_none__and_nothing_else_breaks(
    line: bytes, again: bool
) -> None:
    with World() as world:
        world.ledger.allow_batches()
        first, second = call(1), call(1)
        first.edit = slow
        world.ledger.open(first)
        judging = asyncio.create_task(world.ledger.judge(line))
        await asyncio.sleep(0)
        world.ledger.abandon(first)
        if again:
            world.ledger.open(second)
        verdict = await judging
        assert [each.id for each in world.ledger.calls.values()] == []
        if again:
            assert isinstance(verdict, Answered | Failed)
            assert verdict.calls == [second]
        else:
            assert verdict is None
