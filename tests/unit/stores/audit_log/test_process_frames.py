"""What goes between a gateway and the process that writes its log arrives as it was."""

from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.records import ALLOW, DENY, NOW_MS, OK, decided, gateway

from accredit.attest import Call, CallDecision, Outcome, RecordedParams, in_short
from accredit.errors import AttestationError
from accredit.stores.audit_log.places import DatabaseLog, FileLog
from accredit.stores.audit_log.process import (
    LENGTH,
    WriterSetup,
    decode_opening,
    decode_request,
    encode_answer,
    encode_opening,
    encode_request,
)
from accredit.stores.audit_log.queue import encode_for_turn
from accredit.stores.audit_log.requests import (
    AnyRequest,
    AppendEvents,
    Begin,
    CheckWritable,
    CloseCalls,
    End,
    Event,
    Heartbeat,
    Sign,
)
from accredit.stores.postgres.address import DatabaseAddress, DatabaseHost

pytestmark = pytest.mark.holds("stores/audit_log/requests")

WRITER = "ab" * 16
TEXTS = st.text(max_size=30)
PARAMS = st.builds(RecordedParams, st.just("cd" * 32), st.none() | st.binary(max_size=30))
OUTCOMES = st.builds(Outcome, status=st.sampled_from(["ok", "error"]), detail=st.none() | TEXTS)


@st.composite
def events(draw: st.DrawFn) -> Event:
    decision = draw(st.just(ALLOW) | st.builds(partial(replace, DENY), reason=st.none() | TEXTS))
    call = decided(draw(TEXTS), decision, draw(st.binary(max_size=30)), params=draw(PARAMS))
    return Event(call, draw(st.integers(0, 2**45)), draw(st.none() | OUTCOMES))


def body_of(frame: bytes) -> bytes:
    (size,) = LENGTH.unpack_from(frame)
    assert len(frame) == LENGTH.size + size
    return frame[LENGTH.size :]


@pytest.mark.slow
@given(st.lists(events(), max_size=4), st.integers(1, 2**40), st.floats(allow_nan=False))
def test_a_turn_arrives_with_all_that_is_to_be_recorded(happened: list[Event], number: int, deadline: float) -> None:
    frame = encode_request(AppendEvents(WRITER, number, [encode_for_turn(event) for event in happened]), deadline)
    request, until = decode_request(body_of(frame))
    assert until == deadline
    assert isinstance(request, AppendEvents)
    assert (request.writer, request.number) == (WRITER, number)
    assert [msgspec.msgpack.decode(event, type=Event) for event in request.events] == happened


@pytest.mark.parametrize(
    "request_",
    [
        Begin(WRITER),
        Heartbeat(WRITER, ["ab" * 16]),
        CheckWritable(WRITER),
        CloseCalls(WRITER, "cd" * 16, 7, "ef" * 32, "ab" * 16),
        Sign(WRITER, "cd" * 16, 7),
        End(WRITER, "cd" * 16),
    ],
)
def test_each_request_arrives_as_itself(request_: AnyRequest) -> None:
    assert decode_request(body_of(encode_request(request_, 1.5))) == (request_, 1.5)


@given(TEXTS, st.integers(0, 29))
def test_a_lone_surrogate_is_found_where_a_record_is_queued__not_in_the_turn_of_others(text: str, at: int) -> None:
    broken = text[:at] + "\udc80" + text[at:]
    call = Call(id="ab" * 16, method="tools/call", target=broken)
    with pytest.raises(AttestationError):
        encode_for_turn(Event(decided(call=call), NOW_MS))
    with pytest.raises(AttestationError):
        encode_for_turn(Event(decided(call=call), NOW_MS, OK))


def test_texts_for_people_can_always_be_recorded() -> None:
    denied = decided(decision=replace(DENY, reason="a \udc80 b"))
    failed = Outcome(status="error", detail="a \udc80 b")
    event = msgspec.msgpack.decode(encode_for_turn(Event(denied, NOW_MS)), type=Event)
    assert event.decided.decision.reason == "a ? b"
    outcome = msgspec.msgpack.decode(encode_for_turn(Event(decided(), NOW_MS, failed)), type=Event).outcome
    assert outcome is not None
    assert outcome.detail == "a ? b"


def test_an_outcome_goes_without_arguments_and_certificates__they_may_be_long() -> None:
    call: CallDecision = in_short(decided(params=RecordedParams("cd" * 32, b"{}"), certificates=b"[]"))
    assert (call.params, call.certificates) == (RecordedParams("cd" * 32), None)


def test_the_opening_arrives__and_does_not_show_the_key() -> None:
    signer = gateway()[0]
    database = DatabaseAddress(
        (DatabaseHost("h", 1), DatabaseHost("::1", 2)),
        "db",
        "me",
        (("sslmode", "require"),),
        "required",
        password_file=Path("/p/\udcff"),
    )
    keys = (gateway()[1], gateway("other")[1])
    for place in (
        FileLog(Path("/a/\udcff.db"), "NORMAL", "gateway", keys),
        DatabaseLog(database, "gateway", "host", 60.0, keys),
    ):
        opening = WriterSetup(place, signer.id, signer.ed25519, signer.ml_dsa_65)
        assert decode_opening(body_of(encode_opening(opening))) == opening
        assert repr(signer.ed25519)[2:-1] not in repr(opening)
    assert repr(signer.ed25519)[2:-1] not in repr(signer)


def test_an_answer_says_that_it_is_one() -> None:
    assert body_of(encode_answer(["a", None])) == b"\0" + msgspec.msgpack.encode(["a", None])
