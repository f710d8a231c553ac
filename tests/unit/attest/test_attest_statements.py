"""Statements are in-toto's, say what the reference page says, and are read strictly."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.records import DENY, NOW_MS, OK, SECRET, Chained, decided
from tests.world.signed_calls import signed_call

from accredit.attest import (
    Call,
    CallRecord,
    Outcome,
    Place,
    RecordedAuthority,
    RecordedDecision,
    RecordedToken,
    Times,
    decided_again,
    decision_payload,
    decode_statement,
    encode_statement,
    outcome_payload,
    recorded_params,
    timestamp,
)
from accredit.attest.statements import CALL_TYPE, PolicyDigest
from accredit.errors import AttestationError

pytestmark = pytest.mark.holds("attest/records")

SCHEMA, SCHEMA_V3 = (
    json.loads(files("accredit.attest").joinpath(f"tool-call.v{version}.schema.json").read_text("utf-8"))
    for version in (2, 3)
)
VERSION_3 = encode_statement(signed_call().decision)
PLACE = Place(writer="ab" * 16, sequence=7, previous="cd" * 32)


def payloads() -> list[bytes]:
    chain, call = Chained(), decided()
    told = replace(call.call, definition="ef" * 32, trace="0a" * 16, server="mail")
    asked = RecordedDecision(verdict="challenge", error="ratify_challenge_required")
    full = decided(params=recorded_params(b'{"name": "x", "arguments": {"n": 1e400}}'.replace(b"1e400", b"12"),
                                          token_argument=True, full=True))  # fmt: skip
    records = [
        chain.decision(call),
        chain.outcome(call, Outcome(status="upstream_invalid", detail="no id")),
        chain.decision(decided(decision=DENY, authority=None, token=None)),
        chain.decision(full),
        chain.outcome(full, OK),
        chain.decision(decided(decision=asked, authority=None)),
        chain.decision(decided(call=told, decision=replace(DENY, enforced=False))),
        chain.outcome(decided(call=told), Outcome(status="task")),
    ]
    return [record.payload for record in records]


@pytest.mark.parametrize("payload", payloads())
def test_a_record_is_a_statement_of_in_toto_with_the_published_predicate(payload: bytes) -> None:
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == CALL_TYPE == SCHEMA_V3["$id"]
    assert [subject["name"] for subject in statement["subject"]] == ["tools/call/send_email"]
    assert set(statement["subject"][0]["digest"]) == {"sha256"}
    jsonschema.Draft202012Validator(SCHEMA_V3).validate(statement["predicate"])


@pytest.mark.parametrize("payload", payloads())
def test_what_is_read_is_what_was_written(payload: bytes) -> None:
    assert encode_statement(decode_statement(payload)) == payload


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        ("call", Call), ("decision", RecordedDecision), ("authority", RecordedAuthority), ("token", RecordedToken),
        ("outcome", Outcome), ("times", Times), ("log", Place), ("policy", PolicyDigest), (None, CallRecord),
    ],
)  # fmt: skip
def test_the_schema_has_every_member_that_a_record_may_have(member: str | None, kind: type[msgspec.Struct]) -> None:
    schema = SCHEMA_V3["properties"][member] if member else SCHEMA_V3
    fields = msgspec.structs.fields(kind)
    assert set(schema["properties"]) == {field.encode_name for field in fields}
    always = {"decision": {"enforced"}, None: {"policy"}, "authority": {"proof", "proof_sha256"}}.get(member, set())
    assert set(schema["required"]) == {field.encode_name for field in fields if field.required} | always


def test_no_secret_of_a_call_is_in_its_records() -> None:
    assert all(SECRET.encode() not in payload and b"bob" not in payload for payload in payloads())


def test_full_arguments_are_there_where_they_were_asked_for() -> None:
    record = decode_statement(payloads()[3]).predicate
    assert isinstance(record, CallRecord)
    assert bytes(record.call.params) == b'{"arguments":{"n":12},"name":"x"}'


def change(payload: bytes, path: str, value: object) -> bytes:
    tree = json.loads(payload)
    *parents, last = path.split(".")
    place: Any = tree
    for name in parents:
        place = place[int(name)] if name.isdigit() else place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(tree).encode()


@pytest.mark.holds("attest/statements", "predicate", "phase")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("_type", "https://in-toto.io/Statement/v0.1"),
        ("predicateType", "urn:accredit:tool-call:v1"),
        ("predicateType", "urn:accredit:tool-call:v4"),
        ("predicateType", "urn:accredit:log-checkpoint:v1"),
        ("extra", 1),
        ("subject", []),
        ("subject.0.name", "tools/call/other"),
        ("subject.0.digest", {"sha1": "ab"}),
        ("subject.0.digest.sha256", "AB" * 32),
        ("predicate.extra", 1),
        ("predicate.phase", "both"),
        ("predicate.phase", "outcome"),
        ("predicate.decision", ...),
        ("predicate.decision.verdict", "maybe"),
        ("predicate.decision.enforced", ...),
        ("predicate.decision.enforced", "yes"),
        ("predicate.policy", ...),
        ("predicate.policy.digest", "short"),
        ("predicate.policy.version", 1),
        ("predicate.call.trace", "0A" * 16),
        ("predicate.call.definition", ""),
        ("predicate.outcome", {"status": "ok"}),
        ("predicate.call.id", "short"),
        ("predicate.call.round", 0),
        ("predicate.log.sequence", 0),
        ("predicate.log.previous", ""),
        ("predicate.times.recorded", "2026-08-01"),
        ("predicate.token.secret", "x"),
    ],
)
def test_a_statement_that_is_not_one_of_ours_is_refused(path: str, value: object) -> None:
    with pytest.raises(AttestationError):
        decode_statement(change(payloads()[0], path, value))


def test_a_record_of_version_3_is_read_as_it_was_written() -> None:
    statement = json.loads(VERSION_3)
    assert statement["predicateType"] == SCHEMA_V3["$id"] == "urn:accredit:tool-call:v3"
    jsonschema.Draft202012Validator(SCHEMA_V3).validate(statement["predicate"])
    assert encode_statement(decode_statement(VERSION_3)) == VERSION_3


@pytest.mark.holds("attest/statements", "predicate", "phase")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("predicateType", "urn:accredit:tool-call:v1"),
        ("predicateType", "urn:accredit:tool-call:v2"),
        ("predicate.authority.proof", ...),
        ("predicate.authority.proof", "gone"),
        ("predicate.authority.proof_sha256", ...),
        ("predicate.authority.verifier_id", ...),
        ("predicate.authority.request_sha256", ...),
        ("predicate.authority.bound", False),
    ],
)
def test_a_record_of_version_3_has_what_it_says_of_its_proof__and_no_earlier_one_has(path: str, value: object) -> None:
    with pytest.raises(AttestationError):
        decode_statement(change(VERSION_3, path, value))
    if path != "predicateType":
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA_V3).validate(json.loads(change(VERSION_3, path, value))["predicate"])


@pytest.mark.holds("attest/statements", "statement")
@pytest.mark.parametrize("payload", [b"", b"{}", b"null", b"\xff", b"[" * 3000])
def test_what_is_no_statement_is_refused(payload: bytes) -> None:
    with pytest.raises(AttestationError):
        decode_statement(payload)


def test_texts_for_people_are_clipped_and_can_always_be_written() -> None:
    call = decided(decision=RecordedDecision(verdict="deny", reason="\ud800" + "x" * 5_000))
    record = decode_statement(decision_payload(call, PLACE, NOW_MS)).predicate
    assert isinstance(record, CallRecord)
    assert record.decision is not None
    assert record.decision.reason == "?" + "x" * 999


def test_a_name_that_can_not_be_written_is_refused__the_call_with_it() -> None:
    with pytest.raises(AttestationError, match="surrogate"):
        decision_payload(decided(call=Call(id="ab" * 16, method="tools/call", target="\ud800")), PLACE, NOW_MS)


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_800_000_000_123, "2027-01-15T08:00:00.123Z"),
        (-5, "1970-01-01T00:00:00.000Z"),
        (10**18, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_rfc_3339_with_milliseconds(at_ms: int, text: str) -> None:
    assert timestamp(at_ms) == text


@given(received_ms=st.integers(min_value=0, max_value=253_402_300_799_999))
@settings(max_examples=60)
def test_the_outcome_of_a_call_that_another_writer_has_begun_is_the_same_record(received_ms: int) -> None:
    params = recorded_params(b'{"name": "x", "arguments": {"n": 12}}', token_argument=True, full=True)
    call = decided(params=params, received_ms=received_ms, resume=b"r" * 32)
    again = decided_again(decision_payload(call, PLACE, NOW_MS), "ee" * 32)
    assert outcome_payload(again, OK, PLACE, NOW_MS) == outcome_payload(call, OK, PLACE, NOW_MS)


@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff", payloads()[1]])
def test_what_is_no_decision_begins_no_call(payload: bytes) -> None:
    with pytest.raises(AttestationError):
        decided_again(payload, "ee" * 32)


def test_what_a_call_is_claimed_by_is_in_no_record() -> None:
    call = decided()
    assert decision_payload(replace(call, resume=b"r" * 32), PLACE, NOW_MS) == decision_payload(call, PLACE, NOW_MS)
