"""No bytes escape the error tree: whatever comes in, each decoder gives its result or the error that it promises."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.texts import messages, mutated, objects, spelled, values

from accredit.errors import AnswerError, FrameError, RequestError
from accredit.jsonrpc.encode import error_frame
from accredit.jsonrpc.era import DUPLICATED, check_agreement, decode_header, plain_header
from accredit.jsonrpc.frames import Failure, Notification, Request, decode_frame
from accredit.jsonrpc.input_required import check_input_required
from accredit.jsonrpc.methods import META_CAPABILITIES, META_VERSION, Era
from accredit.jsonrpc.objects import members
from accredit.jsonrpc.param_headers import check_param_headers, declared_headers, listed_schemas
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.text import check_text

pytestmark = [pytest.mark.slow, pytest.mark.holds("errors")]

ASKED = [Request(7, "tools/call", None, b""), Request("7", "tools/call", None, b"")]
DECODERS: dict[str, tuple[Callable[[bytes], object], type[FrameError]]] = {
    "frame": (decode_frame, FrameError),
    "request": (decode_request, RequestError),
    "batch": (lambda text: decode_request(text, batch_allowed=True), RequestError),
    "legacy_body": (lambda text: Expected(Era.LEGACY, ASKED[:1]).body(text), AnswerError),
    "modern_body": (lambda text: Expected(Era.MODERN, ASKED[:1]).body(text), AnswerError),
    "batch_body": (lambda text: Expected(Era.LEGACY, ASKED, batch=True).body(text), AnswerError),
    "legacy_event": (lambda text: Expected(Era.LEGACY, ASKED, batch=True).event(text), AnswerError),
    "modern_event": (lambda text: Expected(Era.MODERN, ASKED).event(text), AnswerError),
    "resumed_event": (lambda text: Expected(Era.LEGACY, resumed=True).event(text), AnswerError),
}
batches = st.lists(messages(), max_size=3).map(lambda texts: "[" + ",".join(texts) + "]")
texts = st.binary(max_size=200) | mutated(messages() | batches | values)


@pytest.mark.parametrize("name", DECODERS)
@given(text=texts)
@example(text=b"")
@example(text=b"[" * 100_000)
@example(text=b'{"a":' * 100_000)
@example(text=b'{"jsonrpc":"2.0","id":7,"result":{"a":' + b"9" * 5_000 + b"}}")
@example(text=b"\xff\xfe{\x00}\x00")
@example(text=b'{"jsonrpc":"2.0","id":"\\ud800","result":{}}')
def test_a_decoder_gives_a_result_or_its_own_error(name: str, text: bytes) -> None:
    decode, promised = DECODERS[name]
    error = error_of(lambda: decode(text))
    if error is not None:
        assert isinstance(error, promised)
        assert error.detail.isascii()
        assert len(error.detail) < 250


def error_of(call: Callable[[], object]) -> FrameError | None:
    """The refusal that a call ends with, if it does; anything else that it raises fails the test."""
    try:
        call()
    except FrameError as error:
        return error
    return None


_INPUT = objects(
    spelled("a"),
    objects(
        spelled("method") | spelled("params"),
        st.sampled_from(['"elicitation/create"', '"roots/list"', '"sampling/createMessage"', '{"mode":"url"}', "{}"])
        | values,
    ),
)
_RESULTS = objects(
    spelled("resultType") | spelled("inputRequests") | spelled("requestState"),
    st.sampled_from(['"input_required"', '"complete"', '"s"']) | _INPUT | values,
)
_CAPABILITIES = st.sampled_from(
    ['{"elicitation":{}}', '{"elicitation":{"url":{}},"roots":{},"sampling":{}}', "{}", "7"]
)


@given(mutated(_RESULTS), _CAPABILITIES)
def test_a_modern_result_is_judged_without_surprises(result: bytes, capabilities: str) -> None:
    asked = decode_request(modern_call(capabilities))
    assert isinstance(asked, Request)
    expected = Expected(Era.MODERN, [asked])
    text = b'{"jsonrpc":"2.0","id":7,"result":' + result + b"}"
    try:
        assert expected.body(text) is text
        assert expected.done
    except AnswerError:
        assert list(expected.open) == [7]  # still owed an answer
    if error_of(lambda: check_text(result)) is None:
        error_of(lambda: check_input_required(asked, members(result)))


def modern_call(capabilities: str) -> bytes:
    meta = f'{{"{META_VERSION}":"2026-07-28","{META_CAPABILITIES}":{capabilities}}}'
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"n","_meta":{meta}}}}}'.encode()


_VALUES = st.binary(max_size=30) | st.sampled_from(
    [
        b"2026-07-28",
        b"2025-11-25",
        b"tools/call",
        b"=?base64?bg==?=",
        b"=?base64?bh==?=",
        b"=?base64?/w==?=",
        b" n ",
        DUPLICATED,
    ]
)
HEADERS = st.dictionaries(
    st.sampled_from([b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"mcp-param-a"]), _VALUES, max_size=4
)


@given(mutated(messages()) | st.just(modern_call("{}")), HEADERS)
def test_header_checks_give_an_era_or_a_request_error(text: bytes, headers: dict[bytes, bytes]) -> None:
    try:
        frame = decode_request(text)
    except RequestError:
        return
    assert frame.era in Era
    if isinstance(frame, Batch) or not isinstance(frame, Request | Notification):
        return
    error = error_of(lambda: check_agreement(frame, headers))
    if error is not None:
        assert isinstance(error, RequestError)
        assert error.code in (-32020, -32602)
        assert error.status == 400
    error_of(lambda: frame.meta)


@given(_VALUES)
def test_a_header_value_has_a_text_or_none(value: bytes) -> None:
    assert isinstance(plain_header(value), str | None)
    assert isinstance(decode_header(value), str | None)


_SCHEMAS = objects(
    st.sampled_from(['"properties"', '"type"', '"x-mcp-header"', '"items"', '"allOf"', '"$defs"', '"a"']),
    st.sampled_from(['"string"', '"integer"', '"Region"', '"a"']) | values,
)
_NESTED = objects(st.sampled_from(['"properties"', '"a"', '"allOf"']), _SCHEMAS)


@given(mutated(_SCHEMAS | _NESTED) | st.binary(max_size=40), HEADERS, mutated(objects(spelled("a"), values)))
def test_schemas_and_lists_declare_headers_or_nothing(
    schema: bytes, headers: dict[bytes, bytes], arguments: bytes
) -> None:
    declared = declared_headers(schema)
    listed = listed_schemas(b'{"tools":[{"name":"a","inputSchema":' + schema + b"}]}")
    assert {name: declared_headers(found) for name, found in listed.items()} in ({}, {"a": declared})
    listed_schemas(schema)
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":' + arguments + b"}}"
    if error_of(lambda: decode_request(call)) is None:
        asked = decode_request(call)
        assert isinstance(asked, Request)
        error = error_of(lambda: check_param_headers(asked, declared, headers))
        assert error is None or (isinstance(error, RequestError) and error.code == -32020)


@given(
    st.none() | st.integers() | st.text(),
    st.integers(-(2**70), 2**70),
    st.text(),
    st.none() | st.dictionaries(st.text(), st.text()),
)
def test_an_error_frame_is_one_that_our_own_decoder_accepts(
    id: int | str | None, code: int, message: str, data: object
) -> None:
    frame = decode_frame(error_frame(id, code, message, data))
    assert isinstance(frame, Failure)
    assert (frame.id, frame.code, frame.message) == (id, code, message)
