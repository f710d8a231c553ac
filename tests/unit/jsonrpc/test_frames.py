"""One JSON-RPC message: what it is, and everything that makes it none."""

import pytest

from accredit.errors import FrameError
from accredit.jsonrpc.frames import (
    Failure,
    Notification,
    Request,
    Success,
    decode_error,
    decode_frame,
)
from accredit.jsonrpc.text import MAX_ANSWER_STRUCTURES


def refused(text: bytes) -> str:
    with pytest.raises(FrameError) as error:
        decode_frame(text)
    return error.value.detail


def test_a_request_keeps_its_bytes() -> None:
    text = b' {"jsonrpc": "2.0", "method": "tools/call", "id": 7, "params": {"a": [1.50]}, "other": 1}\n'
    frame = decode_frame(text)
    assert isinstance(frame, Request)
    assert (frame.id, frame.method) == (7, "tools/call")
    assert frame.params is not None
    assert bytes(frame.params) == b'{"a": [1.50]}'
    assert frame.text is text


def test_a_request_needs_no_params() -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":"a\\u0062","method":"ping"}')
    assert isinstance(frame, Request)
    assert (frame.id, frame.params) == ("ab", None)


def test_a_notification_has_no_id() -> None:
    text = b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}'
    frame = decode_frame(text)
    assert isinstance(frame, Notification)
    assert frame.method == "notifications/initialized"
    assert frame.text is text


@pytest.mark.parametrize("result", [b"{}", b"null", b"[]", b'"x"', b"1e5", b"false"])
def test_any_result_counts_also_null__a_member_that_is_present_counts(result: bytes) -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":7,"result":' + result + b"}")
    assert isinstance(frame, Success)
    assert (frame.id, bytes(frame.result)) == (7, result)


def test_an_error_has_a_code_and_a_message_and_perhaps_data() -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":"7","error":{"code":-32000,"message":"m","data":[1]}}')
    assert isinstance(frame, Failure)
    assert (frame.id, frame.code, frame.message) == ("7", -32000, "m")


def test_an_error_may_have_a_null_id__its_sender_could_not_read_the_request() -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}')
    assert isinstance(frame, Failure)
    assert frame.id is None


@pytest.mark.holds("jsonrpc/frames", "version")
@pytest.mark.parametrize("version", [b'"1.0"', b"2.0", b'"2"', b"null", b'["2.0"]', b'" 2.0"'])
def test_another_version_is_refused__a_strict_client_drops_it_without_a_word(version: bytes) -> None:
    assert refused(b'{"jsonrpc":' + version + b',"id":7,"result":{}}') == '"jsonrpc" is not "2.0"'


def test_no_version_is_refused() -> None:
    assert refused(b'{"id":7,"result":{}}') == '"jsonrpc" is not "2.0"'


@pytest.mark.parametrize("id", [b"1.0", b"1.5", b"1e0", b"true", b"null", b"[1]", b"{}"])
def test_an_id_that_is_no_string_or_integer_is_refused__clients_match_ids_in_different_ways(id: bytes) -> None:
    assert refused(b'{"jsonrpc":"2.0","id":' + id + b',"result":{}}') == '"id" is neither a string nor an integer'
    assert refused(b'{"jsonrpc":"2.0","id":' + id + b',"method":"x"}') == '"id" is neither a string nor an integer'


def test_an_error_with_a_bad_id_is_refused() -> None:
    text = b'{"jsonrpc":"2.0","id":1.0,"error":{"code":1,"message":""}}'
    assert refused(text) == '"id" is neither a string nor an integer'


@pytest.mark.holds("jsonrpc/frames", "response")
def test_a_response_without_an_id_is_refused__nobody_can_tell_what_it_answers() -> None:
    assert refused(b'{"jsonrpc":"2.0","result":{}}') == "neither a method nor an id"
    assert refused(b'{"jsonrpc":"2.0","error":{"code":1,"message":""}}') == "neither a method nor an id"


@pytest.mark.holds("jsonrpc/frames", "response")
def test_both_a_result_and_an_error_are_refused__one_client_would_see_success_and_one_failure() -> None:
    error = b'"error":{"code":1,"message":""}'
    assert refused(b'{"jsonrpc":"2.0","id":7,"result":{},' + error + b"}") == "both a result and an error"
    assert refused(b'{"jsonrpc":"2.0","id":7,"result":null,"error":null}') == "both a result and an error"


def test_neither_a_result_nor_an_error_is_refused__clients_would_wait_or_crash() -> None:
    assert refused(b'{"jsonrpc":"2.0","id":7}') == "neither a result nor an error"


@pytest.mark.holds("jsonrpc/frames", "call")
@pytest.mark.parametrize("member", [b'"result":{}', b'"error":{"code":1,"message":""}', b'"result":null'])
def test_a_call_with_a_result_or_error_is_refused__it_could_be_taken_for_either(member: bytes) -> None:
    text = b'{"jsonrpc":"2.0","id":7,"method":"x",' + member + b"}"
    assert refused(text) == "a message with both a method and a result or error"


@pytest.mark.parametrize("method", [b"null", b"1", b'["x"]'])
def test_a_method_that_is_no_string_is_refused(method: bytes) -> None:
    assert refused(b'{"jsonrpc":"2.0","id":7,"method":' + method + b"}") == '"method" is not a string'


@pytest.mark.parametrize("params", [b"null", b"[]", b'"x"'])
def test_params_that_are_no_object_are_refused__mcp_has_no_positional_params(params: bytes) -> None:
    assert refused(b'{"jsonrpc":"2.0","method":"x","params":' + params + b"}") == '"params" is not an object'


@pytest.mark.holds("jsonrpc/frames", "error")
@pytest.mark.parametrize("code", [b"1.5", b"1.0", b"true", b'"1"', b"null"])
def test_an_error_code_that_is_no_integer_is_refused__typed_clients_fail_to_read_it(code: bytes) -> None:
    text = b'{"jsonrpc":"2.0","id":7,"error":{"code":' + code + b',"message":""}}'
    assert refused(text) == '"error.code" is not an integer'


@pytest.mark.parametrize("members", [b'"code":1', b'"code":1,"message":null', b'"code":1,"message":["m"]'])
def test_an_error_message_that_is_no_string_is_refused(members: bytes) -> None:
    assert refused(b'{"jsonrpc":"2.0","id":7,"error":{' + members + b"}}") == '"error.message" is not a string'


def test_an_error_without_a_code_is_refused() -> None:
    assert refused(b'{"jsonrpc":"2.0","id":7,"error":{"message":"m"}}') == '"error.code" is not an integer'


@pytest.mark.parametrize("error", [b"null", b'"m"', b"[]", b"1"])
def test_an_error_that_is_no_object_is_refused(error: bytes) -> None:
    assert refused(b'{"jsonrpc":"2.0","id":7,"error":' + error + b"}") == '"error" is not an object'


@pytest.mark.holds("jsonrpc/frames", "text")
@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"a":1},"result":{"a":2}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"a":1},"resul\\u0074":{"a":2}}',
        b'{"jsonrpc":"2.0","id":7,"id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"x":1,"x":2}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"a","message":"b"}}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"cod\\u0065":2,"message":"a"}}',
    ],
    ids=["plain", "escaped", "same_value", "unknown_name", "in_error", "escaped_in_error"],
)
def test_a_duplicate_member_is_refused__two_readers_would_see_two_answers(text: bytes) -> None:
    assert refused(text).startswith("a duplicate member: ")


@pytest.mark.holds("jsonrpc/frames", "text")
@pytest.mark.parametrize(
    "name", ["Result", "RESULT", "ID", "JsonRPC", "Error", "re\u017fult", "Method", "PARAMS"], ids=ascii
)
def test_a_member_in_another_case_is_refused__go_reads_it_as_the_defined_one(name: str) -> None:
    text = b'{"jsonrpc":"2.0","id":7,"result":{},"' + name.encode() + b'":1}'
    assert refused(text).startswith("a member differs only by case from a defined one: ")


@pytest.mark.holds("jsonrpc/frames", "error")
@pytest.mark.parametrize("name", ["Code", "MESSAGE", "me\u017fsage", "Data"], ids=ascii)
def test_a_member_of_an_error_in_another_case_is_refused(name: str) -> None:
    text = b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"a","' + name.encode() + b'":1}}'
    assert refused(text).startswith("a member differs only by case from a defined one: ")


def test_duplicates_deeper_in_an_answer_pass__they_are_for_the_client_to_judge() -> None:
    assert isinstance(decode_frame(b'{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":{"b":1,"b":2}}}'), Success)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"1", b'"x"', b"null", b"[" * 100_000, b'{"jsonrpc":"2.0","id":7,"result":{}}}']
)
def test_what_is_no_object_is_no_message(text: bytes) -> None:
    assert refused(text)


def test_an_error_status_may_carry_an_error_without_an_id__the_specification_lets_it() -> None:
    failure = decode_error(b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}')
    assert (failure.id, failure.code) == (None, -32001)


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","method":"x"}',
        b'{"error":"invalid_token"}',
        b'{"jsonrpc":"2.0","error":{"code":"1","message":"x"}}',
    ],
)
def test_an_error_status_carries_nothing_else__a_client_would_take_it_for_an_answer(text: bytes) -> None:
    with pytest.raises(FrameError):
        decode_error(text)


CROWDED = {
    "a result": b'"id":1,"result":%b',
    "an error": b'"id":1,"error":{"code":1,"message":"","data":%b}',
    "a notification": b'"method":"a","params":{"_meta":{"a":%b}}',
}


@pytest.mark.slow
@pytest.mark.holds("jsonrpc/frames", "text")
@pytest.mark.parametrize("name", CROWDED)
def test_a_message_that_is_all_brackets_is_refused_unread__fifteen_mib_of_them_held_the_loop_for_a_second(
    name: str,
) -> None:
    many = b"[" + b"[{},[]]," * (MAX_ANSWER_STRUCTURES // 3 + 1) + b"0]"
    text = b'{"jsonrpc":"2.0",' + CROWDED[name] % many + b"}"
    for read in (decode_frame, decode_error):
        with pytest.raises(FrameError, match="more than 1048576 arrays and objects") as error:
            read(text)
        assert error.value.bound
