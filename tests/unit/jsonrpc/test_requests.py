"""What a client sends is read strictly: the upstream must see the request that the gateway judged."""

import pytest

from accredit.errors import FrameError, RequestError
from accredit.jsonrpc.encode import INVALID_REQUEST, PARSE_ERROR
from accredit.jsonrpc.frames import Notification, Request, Success, decode_frame
from accredit.jsonrpc.objects import MAX_BATCH_MEMBERS
from accredit.jsonrpc.requests import (
    MAX_ID_CHARS,
    MAX_META_NAME_CHARS,
    MAX_METHOD_CHARS,
    MAX_PARAMS_MEMBERS,
    Batch,
    decode_request,
)
from accredit.jsonrpc.text import MAX_STRUCTURES
from accredit.limits import MAX_META_MEMBERS, MAX_VALUES

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n","arguments":{}}}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def refused(text: bytes, *, batch_allowed: bool = False) -> RequestError:
    with pytest.raises(RequestError) as error:
        decode_request(text, batch_allowed=batch_allowed)
    assert error.value.status == 400
    return error.value


def in_params(members: bytes, method: bytes = b"tools/call") -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"method":"' + method + b'","params":{' + members + b"}}"


def test_a_message_is_read() -> None:
    assert isinstance(decode_request(CALL), Request)
    assert isinstance(decode_request(NOTE), Notification)
    assert isinstance(decode_request(b'{"jsonrpc":"2.0","id":7,"result":{}}'), Success)


@pytest.mark.holds("jsonrpc/requests", "strict-json")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        CALL + b"}",
        CALL + CALL,
        b'{"a":NaN}',
        b"\xef\xbb\xbf" + CALL,
        b'{"a":"\xff"}',
        b'{"a":1e999}',
        b"[" * 100_000,
    ],
    ids=["empty", "cut", "brace", "two", "nan", "bom", "utf8", "huge_number", "deep"],
)
def test_what_is_no_strict_json_is_a_parse_error(text: bytes) -> None:
    error = refused(text)
    assert (error.code, error.id) == (-32700, None)


@pytest.mark.holds("jsonrpc/requests", "message")
@pytest.mark.parametrize(
    "text", [b"1", b'"x"', b"null", b"{}", b'{"jsonrpc":"2.0","id":7}', b'{"jsonrpc":"2.0","method":1}']
)
def test_what_is_no_message_is_an_invalid_request(text: bytes) -> None:
    assert refused(text).code == -32600


def test_a_refusal_names_the_request_where_its_id_can_be_read() -> None:
    assert refused(b'{"jsonrpc":"1.0","id":"a","method":"x"}').id == "a"
    assert refused(b'{"jsonrpc":"2.0","id":1.5,"method":"x"}').id is None
    assert refused(b'{"jsonrpc":"2.0","id":7,"id":8,"method":"x"}').id is None


@pytest.mark.holds("jsonrpc/requests", "repeated-members")
@pytest.mark.parametrize(
    "members",
    [
        b'"name":"a","name":"b"',
        b'"name":"a","nam\\u0065":"b"',
        b'"arguments":{"a":{"b":1,"b":2}}',
        b'"arguments":{"a":[{"b":1, "\\u0062":2}]}',
    ],
    ids=["params", "escaped", "deep", "deep_escaped"],
)
def test_a_duplicate_at_any_depth_is_refused__the_gateway_would_judge_one_and_the_server_run_the_other(
    members: bytes,
) -> None:
    error = refused(in_params(members))
    assert (error.code, error.id) == (-32600, 7)
    assert "a duplicate member" in error.detail


@pytest.mark.holds("jsonrpc/requests", "spelling")
@pytest.mark.parametrize(
    "members",
    [
        b'"Name":"b"',
        b'"name":"a","NAME":"b"',
        b'"ARGUMENTS":{}',
        b'"_META":{}',
        b'"RequestState":""',
        '"argument\u017f":{}'.encode(),
        '"tas\u212a":{}'.encode(),
    ],
    ids=["instead", "beside", "arguments", "meta", "state", "long_s", "kelvin_sign"],
)
def test_a_param_in_another_case_is_refused__a_go_server_reads_it_as_the_real_one(members: bytes) -> None:
    assert "differs only by case" in refused(in_params(members)).detail


@pytest.mark.holds("jsonrpc/requests", "spelling")
@pytest.mark.parametrize(
    "name",
    [b"PROGRESSTOKEN", b"io.modelcontextprotocol/protocolversion", b"Traceparent", "progressTo\u212aen".encode()],
)
def test_a_meta_member_in_another_case_is_refused(name: bytes) -> None:
    assert "differs only by case" in refused(in_params(b'"_meta":{"' + name + b'":1}')).detail


def test_case_matters_only_where_mcp_defines_a_name() -> None:
    assert decode_request(in_params(b'"name":"a","arguments":{"Name":1,"name":2},"x":1,"X":2'))
    assert decode_request(in_params(b'"Name":"a","name":"b"', b"vendor/method"))
    assert decode_request(in_params(b'"_meta":{"vendor/a":1,"Vendor/a":2}'))
    assert "differs only by case" in refused(in_params(b'"_Meta":{}', b"vendor/method")).detail


def test_the_names_of_each_method_are_its_own() -> None:
    assert decode_request(in_params(b'"URI":"x"', b"tools/call"))
    assert "differs only by case" in refused(in_params(b'"URI":"x"', b"resources/read")).detail


@pytest.mark.holds("jsonrpc/requests", "message")
def test_a_batch_is_refused_where_the_revision_has_none__a_server_could_run_what_nobody_judged() -> None:
    error = refused(b"[" + CALL + b"]")
    assert (error.code, error.detail) == (-32600, "Invalid Request: a batch is valid in revision 2025-03-26 only")


def test_a_batch_is_read_where_the_revision_has_it() -> None:
    text = b" \n[ " + CALL + b", " + NOTE + b" ]"
    batch = decode_request(text, batch_allowed=True)
    assert isinstance(batch, Batch)
    assert [type(frame) for frame in batch.frames] == [Request, Notification]
    assert [frame.text for frame in batch.frames] == [CALL, NOTE]
    assert batch.text is text


def test_a_batch_may_hold_answers_to_the_server() -> None:
    batch = decode_request(b'[{"jsonrpc":"2.0","id":7,"result":{}}]', batch_allowed=True)
    assert isinstance(batch, Batch)
    assert isinstance(batch.frames[0], Success)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "1 to 100 messages"),
        (b"[" + b",".join([NOTE] * (MAX_BATCH_MEMBERS + 1)) + b"]", "1 to 100 messages"),
        (b"[1]", "not a JSON object"),
        (b"[[" + CALL + b"]]", "not a JSON object"),
        (b"[" + CALL + b',{"jsonrpc":"2.0","id":"x"}]', "neither a result nor an error"),
        (b"[" + CALL + b"," + CALL + b"]", "the same id"),
        (b"[" + in_params(b'"Name":"b"') + b"]", "differs only by case"),
        (b"[" + in_params(b'"arguments":{"a":1,"a":2}') + b"]", "a duplicate member"),
        (b'[{"jsonrpc":"2.0","ID":1,"method":"x"}]', "differs only by case"),
    ],
    ids=[
        "empty",
        "too_many",
        "number",
        "nested",
        "bad_member",
        "same_id",
        "param_case",
        "deep_duplicate",
        "member_case",
    ],
)
def test_each_member_of_a_batch_is_judged(text: bytes, why: str) -> None:
    error = refused(text, batch_allowed=True)
    assert error.code == -32600
    assert why in error.detail


def test_a_batch_that_is_no_json_is_a_parse_error() -> None:
    assert refused(b"[" + CALL, batch_allowed=True).code == -32700


def test_ids_of_two_types_are_two_ids() -> None:
    text = b'[{"jsonrpc":"2.0","id":7,"method":"x"},{"jsonrpc":"2.0","id":"7","method":"x"}]'
    assert isinstance(decode_request(text, batch_allowed=True), Batch)


def params_of(text: bytes) -> Request:
    frame = decode_frame(text)
    assert isinstance(frame, Request)
    return frame


def test_meta_is_read_where_there_is_one() -> None:
    assert list(params_of(in_params(b'"_meta":{"a":1}')).meta) == ["a"]
    assert params_of(in_params(b"")).meta == {}
    assert Request(1, "ping", None, b"").meta == {}


def test_meta_that_is_no_object_is_said_to_be_none() -> None:
    with pytest.raises(FrameError, match="_meta"):
        _ = params_of(in_params(b'"_meta":[]')).meta
    assert decode_request(in_params(b'"_meta":[]'))  # what to say about it is the upstream's business


MARKS = "\u0301\u0316"


@pytest.mark.holds("jsonrpc/requests", "lengths")
@pytest.mark.parametrize("kind", ["request", "notification"])
def test_names_have_lengths__what_is_done_to_a_longer_one_could_take_half_a_minute(kind: str) -> None:
    head = '{"jsonrpc":"2.0",' + ('"id":7,' if kind == "request" else "")
    for over, rest in (
        (MAX_METHOD_CHARS, '"method":"%s"}'),
        (MAX_META_NAME_CHARS, '"method":"x","params":{"_meta":{"%s":1}}}'),
    ):
        for text in ("a" * over, MARKS * (over // 2), "\\u0061" * over):
            assert not isinstance(decode_request((head + rest % text).encode()), Batch)
            error = refused((head + rest % (text + "b")).encode())
            assert (error.code, error.status, error.id) == (INVALID_REQUEST, 400, 7 if kind == "request" else None)
            assert f"more than {over} characters" in str(error)


@pytest.mark.holds("jsonrpc/requests", "lengths")
def test_an_id_has_a_length__and_one_that_is_longer_is_not_sent_back() -> None:
    for rest in ('"method":"ping"}', '"result":{}}', '"error":{"code":1,"message":""}}'):
        decode_request(('{"jsonrpc":"2.0","id":"%s",' % ("a" * MAX_ID_CHARS) + rest).encode())
        error = refused(('{"jsonrpc":"2.0","id":"%s",' % ("a" * (MAX_ID_CHARS + 1)) + rest).encode())
        assert (error.code, error.id) == (INVALID_REQUEST, None)
        assert f"an id of more than {MAX_ID_CHARS} characters" in str(error)


@pytest.mark.parametrize(
    ("holder", "most"), [('{"_meta":{%s}}', MAX_META_MEMBERS), ("{%s}", MAX_PARAMS_MEMBERS)], ids=["_meta", "params"]
)
def test_the_names_that_are_read_at_every_step_are_counted_first(holder: str, most: int) -> None:
    def message(count: int) -> bytes:
        members = ",".join(f'"a{index}":0' for index in range(count))
        return ('{"jsonrpc":"2.0","id":1,"method":"x","params":' + holder % members + "}").encode()

    decode_request(message(most))
    assert f"more than {most} members" in str(refused(message(most + 1)))


@pytest.mark.holds("jsonrpc/requests", "amount")
def test_values_are_counted_before_anything_is_made_of_them() -> None:
    def message(inner: str) -> bytes:
        return b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + inner.encode() + b"0]}}"

    text = '"' + r"[{:,\\\"" * 60_000 + '",'
    for inner in ("0," * (MAX_VALUES - 20), "[]," * (MAX_STRUCTURES - 10), '{"":0},' * (MAX_STRUCTURES // 2 - 5), text):
        decode_request(message(inner))
    for inner in ("0," * MAX_VALUES, "[]," * MAX_STRUCTURES, '{"":0},' * (MAX_STRUCTURES // 2), "[" * 100 * 700):
        assert refused(message(inner)).code in (INVALID_REQUEST, PARSE_ERROR)
    assert "nested more than" in str(refused(b"[" * MAX_VALUES))
