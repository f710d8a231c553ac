"""Whether an answer answers *this* request."""

import pytest
from tests.world.calls import ERAS, post
from tests.world.hostile_frames import ANY_ERA, CALLS, MODERN_RESULTS

from accredit.base.steps import Steps
from accredit.errors import AnswerError, FrameError
from accredit.jsonrpc.frames import Failure, Notification, Request, Success
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import MAX_BATCH_MEMBERS
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.responses import Expected

OK = b'{"jsonrpc":"2.0","id":7,"result":{}}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'
ASKED = b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}'
NAMELESS = b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "m", "data": 1.50}}'


def request(id: int | str = 7, method: str = "tools/call") -> Request:
    return Request(id, method, None, b"")


def expected(*ids: int | str, era: Era = Era.LEGACY, batch: bool = False) -> Expected:
    return Expected(era, [request(id) for id in ids], batch=batch)


def refused(exchange: Expected, text: bytes) -> str:
    before = dict(exchange.open)
    with pytest.raises(AnswerError) as body:
        exchange.body(text)
    assert exchange.open == before  # a request whose answer is refused is still owed one
    with pytest.raises(AnswerError) as event:
        exchange.event(text)
    assert exchange.open == before
    assert body.value.detail == event.value.detail
    return body.value.detail


def test_an_answer_to_the_request_is_forwarded_byte_for_byte() -> None:
    exchange = expected(7)
    text = b' { "jsonrpc":"2.0", "id":7, "result":{"a":1.50} }\n'
    assert exchange.waiting
    assert not exchange.done
    assert exchange.body(text) is text
    assert exchange.done


def test_an_answer_in_a_stream_is_forwarded_byte_for_byte() -> None:
    exchange = expected("a")
    text = b'{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}'
    forwarded, frame = exchange.event(text)
    assert forwarded is text
    assert isinstance(frame, Failure)
    assert exchange.done


@pytest.mark.holds("jsonrpc/responses", "unasked")
@pytest.mark.parametrize("id", [b"8", b'"7"', b'""', b"-7", b"70"])
def test_an_answer_to_another_id_is_refused__it_would_be_taken_for_the_answer_of_another_call(id: bytes) -> None:
    text = b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}'
    assert refused(expected(7), text) == "a response to an id that was not asked for"


@pytest.mark.holds("jsonrpc/responses", "unasked")
def test_a_string_is_not_answered_by_a_number() -> None:
    assert refused(expected("7"), OK) == "a response to an id that was not asked for"


@pytest.mark.holds("jsonrpc/responses", "unasked")
def test_a_second_answer_is_refused__the_client_would_take_it_for_the_answer_of_a_later_call() -> None:
    exchange = expected(7)
    exchange.body(OK)
    assert refused(exchange, OK) == "a response to an id that was not asked for"


@pytest.mark.holds("jsonrpc/responses", "frame")
@pytest.mark.parametrize(
    "text", [b"", b"{}", b"null", OK + OK, b'{"jsonrpc":"2.0","id":7.0,"result":{}}', b"[" + OK + b"]"]
)
def test_what_is_no_valid_frame_is_refused(text: bytes) -> None:
    assert refused(expected(7), text)


def test_a_refusal_for_a_bound_says_so__it_holds_in_observe_mode_too() -> None:
    with pytest.raises(AnswerError) as error:
        expected(7).body(b"[" * 200)
    assert error.value.bound
    with pytest.raises(AnswerError) as error:
        expected(7).event(b"{}")
    assert not error.value.bound


@pytest.mark.holds("jsonrpc/responses", "request-here")
@pytest.mark.parametrize("text", [NOTE, ASKED])
def test_a_call_in_a_json_body_is_refused__the_client_waits_for_an_answer(text: bytes) -> None:
    with pytest.raises(AnswerError, match="a call where a response was due"):
        expected(7).body(text)


def test_notifications_pass_in_a_stream_of_either_era() -> None:
    for era in Era:
        exchange = expected(7, era=era)
        text, frame = exchange.event(NOTE)
        assert text is NOTE
        assert isinstance(frame, Notification)
        assert not exchange.done


@pytest.mark.holds("jsonrpc/responses", "request-here")
def test_a_request_from_the_upstream_passes_in_the_legacy_era_only__modern_clients_do_not_answer_any() -> None:
    text, frame = expected(7).event(ASKED)
    assert text is ASKED
    assert isinstance(frame, Request)
    with pytest.raises(AnswerError, match="a request from the upstream"):
        expected(7, era=Era.MODERN).event(ASKED)


def test_an_error_without_an_id_gets_the_one_that_is_open__some_clients_wait_for_ever_otherwise() -> None:
    for forwarded in (expected("a\u00e9").body(NAMELESS), expected("a\u00e9").event(NAMELESS)[0]):
        text = '{"jsonrpc":"2.0","id":"a\u00e9","error":{"code": 1, "message": "m", "data": 1.50}}'
        assert forwarded == text.encode()
    exchange = expected(7)
    exchange.body(NAMELESS)
    assert exchange.done


def test_an_error_without_an_id_is_refused_where_it_could_mean_two_requests_or_none() -> None:
    assert refused(expected(1, 2), NAMELESS) == "an error without an id"
    assert refused(expected(), NAMELESS) == "an error without an id"


def test_an_error_without_an_id_is_refused_as_often_as_it_could_be_about_something_told() -> None:
    exchange = expected(7)
    exchange.told = 2  # `refused` asks twice
    assert refused(exchange, NAMELESS) == "an error without an id, after a notification or a response"
    exchange.body(NAMELESS)
    assert exchange.done


def test_a_standing_stream_is_never_done_and_answers_nothing() -> None:
    exchange = expected()
    assert not exchange.waiting
    assert not exchange.done
    assert refused(exchange, OK) == "a response to an id that was not asked for"


def test_a_resumed_stream_may_answer_what_was_asked_in_another() -> None:
    exchange = Expected(Era.LEGACY, resumed=True)
    text, frame = exchange.event(OK)
    assert text is OK
    assert isinstance(frame, Success)
    assert not exchange.done


def test_a_standing_stream_answers_what_was_asked_of_it() -> None:
    exchange = expected()
    exchange.ask(request(7))
    with pytest.raises(FrameError, match="still open"):
        exchange.ask(request(7))
    assert exchange.event(OK)[0] is OK
    exchange.ask(request(7))


# --- batches ----------------------------------------------------------------------------------------


def batch(*texts: bytes) -> bytes:
    return b"[" + b",".join(texts) + b"]"


def answer(id: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}'


def test_a_batch_is_answered_by_a_batch() -> None:
    exchange = expected(7, "7", batch=True)
    text = b" " + batch(answer(b'"7"'), answer(b"7"))
    assert exchange.body(text) is text
    assert exchange.done


def test_a_batch_may_be_answered_in_parts_in_a_stream() -> None:
    exchange = expected(1, 2, 3, batch=True)
    text = batch(answer(b"1"), answer(b"2"))
    assert exchange.event(text) == (text, None)
    assert exchange.event(answer(b"3"))[0] == answer(b"3")
    assert exchange.done


@pytest.mark.holds("jsonrpc/responses", "batch")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "1 to 100 messages"),
        (batch(*[answer(b"1")] * (MAX_BATCH_MEMBERS + 1)), "1 to 100 messages"),
        (batch(answer(b"1"), answer(b"1")), "not asked for"),
        (batch(answer(b"1"), answer(b"3")), "not asked for"),
        (batch(answer(b"1"), b"1"), "not a JSON object"),
        (batch(answer(b"1"), b'{"jsonrpc":"2.0","id":2,"Result":{},"result":{}}'), "differs only by case"),
        (batch(answer(b"1"), b'{"jsonrpc":"2.0","id":2,"result":{},"result":{}}'), "a duplicate member"),
        (batch(answer(b"1"), NAMELESS), "answers no request"),
        (batch(answer(b"1"), NOTE), "answers no request"),
        (batch(ASKED), "answers no request"),
        (batch(answer(b"1")) + b"]", "not valid JSON"),
        (b"[" * 200, "nested"),
    ],
    ids=[
        "empty",
        "many",
        "twice",
        "foreign",
        "number",
        "case",
        "duplicate",
        "nameless",
        "note",
        "request",
        "json",
        "deep",
    ],
)
def test_a_batch_with_a_member_that_answers_nothing_is_refused_whole(text: bytes, why: str) -> None:
    assert why in refused(expected(1, 2, batch=True), text)


@pytest.mark.holds("jsonrpc/responses", "batch")
def test_a_batch_is_refused_where_none_was_sent__clients_of_other_revisions_crash_on_an_array() -> None:
    assert refused(expected(7), batch(OK)) == "not a JSON object"


def test_a_batch_of_one_may_be_answered_by_one_message() -> None:
    assert expected(7, batch=True).body(OK) is OK


# --- the modern era ---------------------------------------------------------------------------------


def call(capabilities: str = "{}") -> Request:
    meta = f'{{"io.modelcontextprotocol/clientCapabilities":{capabilities}}}'
    frame = decode_request(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"_meta":{meta}}}}}'.encode())
    assert isinstance(frame, Request)
    return frame


def result(text: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"result":' + text + b"}"


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"resultType":"complete","a":1}',
        b'{"a":1,"resultType":"complete"}',
        b'{"a":1,"a":2,"resultType":"complete"}',
        b'{"resultType":"input_required","requestState":"s"}',
    ],
    ids=["absent", "first", "last", "other_duplicates", "input_required"],
)
def test_a_modern_result_passes(text: bytes) -> None:
    assert Expected(Era.MODERN, [call()]).body(result(text)) == result(text)


@pytest.mark.holds("jsonrpc/responses", "modern-result")
@pytest.mark.parametrize("text", [b"null", b"[]", b'"x"', b"1"])
def test_a_modern_result_that_is_no_object_is_refused(text: bytes) -> None:
    assert refused(Expected(Era.MODERN, [call()]), result(text)) == '"result" is not an object'


@pytest.mark.holds("jsonrpc/responses", "modern-result")
@pytest.mark.parametrize("kind", [b"null", b"1", b'["complete"]'])
def test_a_result_type_that_is_no_string_is_refused__clients_branch_on_it(kind: bytes) -> None:
    text = result(b'{"resultType":' + kind + b"}")
    assert refused(Expected(Era.MODERN, [call()]), text) == '"resultType" is not a string'


@pytest.mark.parametrize(
    "text",
    [
        b'{"resultType":"complete","resultType":"input_required","requestState":"s"}',
        b'{"resultType":"input_required","requestState":"s","result\\u0054ype":"complete"}',
        b'{"resultType":"input_required","requestState":"s","requestState":"t"}',
        b'{"resultType":"complete","resulttype":"input_required"}',
        b'{"resultType":"complete","InputRequests":{}}',
    ],
    ids=["twice", "escaped", "state", "case", "case_of_another"],
)
def test_what_decides_about_input_is_said_once__else_a_client_could_ask_a_person_what_nobody_judged(
    text: bytes,
) -> None:
    assert refused(Expected(Era.MODERN, [call()]), result(text))


def test_an_input_required_result_is_judged_by_what_the_request_declared() -> None:
    text = result(b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}')
    assert "did not declare" in refused(Expected(Era.MODERN, [call()]), text)
    assert Expected(Era.MODERN, [call('{"roots":{}}')]).body(text) is text


def test_a_legacy_result_is_not_judged_by_modern_rules() -> None:
    text = result(b'{"resultType":7,"resultType":"input_required"}')
    assert expected(7).body(text) is text


def test_a_modern_error_is_no_result() -> None:
    text = b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}'
    assert Expected(Era.MODERN, [call()]).body(text) is text


def test_an_edit_goes_by_the_id_that_the_server_knows__a_shared_server_knows_another_than_the_client() -> None:
    def edit(response: Success) -> Steps[bytes]:
        yield
        return response.text.replace(b"{}", b"[]")

    shared = Expected(Era.LEGACY)
    shared.open[1001] = request(7, "tools/list")
    shared.edits[1001] = edit
    assert shared.event(b'{"jsonrpc":"2.0","id":1001,"result":{}}')[0].endswith(b"[]}")
    assert shared.edits == {}


def of_client(era: Era) -> Expected:
    """What a client's call is owed that declared forms alone."""
    asked = decode_request(post(era, capabilities={"elicitation": {}}).body)
    assert isinstance(asked, Request)
    return Expected(era, [asked])


@pytest.mark.parametrize("era", ERAS)
def test_each_frame_that_a_client_would_crash_on_or_take_for_an_answer_is_refused_with_its_fault(era: Era) -> None:
    for name, text, detail in ANY_ERA + (MODERN_RESULTS if era is Era.MODERN else []):
        assert refused(of_client(era), text) == detail, name
    for name, text, detail in CALLS:
        with pytest.raises(AnswerError) as error:
            of_client(era).body(text)
        assert error.value.detail == detail, name
