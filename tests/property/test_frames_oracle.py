"""What the decoders accept is what the rules accept: against the slow oracle, for texts in every spelling."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property import oracle
from tests.property.texts import messages, mutated, values

from accredit.errors import AnswerError, FrameError, RequestError
from accredit.jsonrpc.frames import Failure, Frame, Notification, Request, Success, decode_frame
from accredit.jsonrpc.methods import META_MEMBERS, Era
from accredit.jsonrpc.objects import check_no_duplicates
from accredit.jsonrpc.requests import PARAMS_MEMBERS, UNKNOWN_PARAMS, decode_request
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.text import check_text

pytestmark = pytest.mark.slow

KINDS = {Request: "request", Notification: "notification", Success: "success", Failure: "failure"}


def expected_kind(text: bytes) -> str | None:
    try:
        return oracle.message(oracle.parse(text))
    except oracle.Refused:
        return None


def expected_request_kind(text: bytes) -> str | None:
    try:
        value = oracle.parse(text)
        method = value.get("method") if isinstance(value, oracle.Members) and "method" in value.names() else None
        params = PARAMS_MEMBERS.get(method, UNKNOWN_PARAMS) if isinstance(method, str) else UNKNOWN_PARAMS
        return oracle.request(value, tuple(params.defined), META_MEMBERS)
    except oracle.Refused:
        return None


def kind_of(text: bytes) -> str | None:
    try:
        return KINDS[type(decode_frame(text))]
    except FrameError:
        return None


def request_kind_of(text: bytes) -> str | None:
    try:
        frame = decode_request(text)
    except RequestError:
        return None
    assert isinstance(frame, Frame)
    return KINDS[type(frame)]


@given(mutated(messages() | values))
@example(
    b'{"result":null,"result":":[' + b"1," * 3000 + b'1],","k":[' + b"1," * 3000 + b'1],"z":1,"jsonrpc":"2.0","id":1}'
)
@example(
    b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "%s", "data": "%s"}}' % (b"x" * 5000, b"x" * 5000)
)
def test_a_frame_is_what_the_rules_say(text: bytes) -> None:
    assert kind_of(text) == expected_kind(text)


@given(mutated(messages() | values))
def test_a_request_is_what_the_rules_say_at_every_depth(text: bytes) -> None:
    assert request_kind_of(text) == expected_request_kind(text)


@given(mutated(values))
def test_duplicates_are_found_at_every_depth(text: bytes) -> None:
    try:
        value = oracle.parse(text)
    except oracle.Refused:
        return
    check_text(text)
    try:
        oracle.no_duplicates(value)
        unique = True
    except oracle.Refused:
        unique = False
    try:
        check_no_duplicates(text)
        assert unique
    except FrameError:
        assert not unique


@given(mutated(messages()), st.sampled_from([7, "7"]))
def test_a_body_is_forwarded_when_it_is_a_response_to_this_request(text: bytes, id: int | str) -> None:
    asked = Request(id, "tools/call", None, b"")
    kind = expected_kind(text)
    named = oracle.parse(text) if kind in ("success", "failure") else None
    found = named.get("id") if isinstance(named, oracle.Members) else ...
    valid = kind in ("success", "failure") and (found is None or (type(found) is type(id) and found == id))
    try:
        forwarded = Expected(Era.LEGACY, [asked]).body(text)
    except AnswerError:
        assert not valid
        return
    assert valid
    assert found is None or forwarded is text
