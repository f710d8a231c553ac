"""Properties of the Ratify core: reading is total, writing is canonical, and no fact that is none allows anything."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from tests.unit.ratify.world import CONTEXT, NOW, STREAM, answering, certificate, chain, constraint, proof

from accredit.errors import WireError
from accredit.ratify import (
    DelegationCert,
    Extension,
    ProofBundle,
    RevocationList,
    VerifierContext,
    VerifyResult,
    decode_proof_bundle,
    delegation_sign_bytes,
    verify_bundle,
)
from accredit.ratify.canonical import canonical, number
from accredit.ratify.constraints import evaluate, path_fault, path_is_below, read_constraint
from accredit.ratify.extras.sessions import SessionToken
from accredit.ratify.extras.statements import KeyRotationStatement, VerificationReceipt, WitnessEntry
from accredit.ratify.extras.transactions import TransactionReceipt
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature
from accredit.ratify.revocation import RevocationPush
from accredit.ratify.wire import WireObject

pytestmark = pytest.mark.slow

KINDS: list[type[WireObject]] = [
    ProofBundle,
    DelegationCert,
    RevocationList,
    RevocationPush,
    KeyRotationStatement,
    WitnessEntry,
    SessionToken,
    VerificationReceipt,
    TransactionReceipt,
]
SAFE = st.integers(-(2**53 - 1), 2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats(-(2**53 - 1), 2**53 - 1, allow_nan=False).filter(lambda x: x or math.copysign(1, x) > 0) | SAFE
PARAMS = st.dictionaries(
    TEXT,
    st.recursive(
        st.none() | st.booleans() | SAFE | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
BUILT_IN = st.one_of(
    st.fixed_dictionaries({"type": st.just("geo_circle"), "lat": NUMBERS, "lon": NUMBERS, "radius_m": NUMBERS}),
    st.fixed_dictionaries(
        {"type": st.just("geo_polygon"), "points": st.lists(st.tuples(NUMBERS, NUMBERS).map(list), max_size=4)}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("geo_bbox"),
            **dict.fromkeys(("min_lat", "max_lat", "min_lon", "max_lon", "min_alt_m", "max_alt_m"), NUMBERS),
        }
    ),
    st.fixed_dictionaries({"type": st.just("time_window"), "start": TEXT, "end": TEXT, "tz": TEXT}),
    st.fixed_dictionaries({"type": st.just("max_speed_mps"), "max_mps": NUMBERS}),
    st.fixed_dictionaries({"type": st.just("max_amount"), "currency": TEXT, "max_amount": NUMBERS}),
    st.fixed_dictionaries({"type": st.just("max_rate"), "count": SAFE, "window_s": SAFE}),
    st.fixed_dictionaries(
        {"type": st.just("resource_path"), "resource_id": TEXT.filter(bool)},
        optional={"path_prefix": TEXT.filter(bool)},
    ),
)
CONSTRAINTS = BUILT_IN | st.fixed_dictionaries(
    {"type": TEXT.map(lambda name: f"x.{name}")}, optional={"params": PARAMS}
)
KEYS = st.builds(HybridPublicKey, st.binary(min_size=32, max_size=32), st.just(bytes(1952)))
SIGNATURES = st.builds(HybridSignature, st.just(bytes(64)), st.just(b"\xff" * 3309))
CERTS = st.builds(
    DelegationCert,
    cert_id=TEXT,
    version=SAFE,
    issuer_id=TEXT,
    issuer_pub_key=KEYS,
    subject_id=TEXT,
    subject_pub_key=KEYS,
    scope=st.lists(TEXT, max_size=3).map(tuple),
    constraints=st.lists(CONSTRAINTS.map(read_constraint), max_size=3).map(tuple),
    issued_at=SAFE,
    expires_at=SAFE,
    signature=SIGNATURES,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def read(kind: type[WireObject], text: bytes | str) -> WireObject | None:
    try:
        return kind.decode(text)
    except WireError as error:
        said, reason = str(error), error.reason
    assert said.startswith("wire: ")
    assert said.isascii()
    assert len(reason) < 1000
    return None


@given(st.sampled_from(KINDS), st.binary() | st.text() | JSON.map(json.dumps))
@example(ProofBundle, b"")
@example(ProofBundle, "\ud800")
@example(ProofBundle, b"[" * 100_000)
@example(ProofBundle, b'{"a":' * 15_000 + b"1" + b"}" * 15_000)
def test_any_text_is_an_object_or_one_error(kind: type[WireObject], text: bytes | str) -> None:
    assert read(kind, text) is None


@given(st.sampled_from(KINDS), JSON)
def test_any_value_is_an_object_or_one_error(kind: type[WireObject], value: Any) -> None:
    try:
        kind.from_dict(value)
    except WireError:
        return
    raise AssertionError("no such value is an object")


SAMPLE = proof().encode()


@settings(max_examples=300)
@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 6), st.binary(max_size=6))
def test_a_text_with_a_few_bytes_changed(at: int, cut: int, instead: bytes) -> None:
    found = read(ProofBundle, SAMPLE[:at] + instead + SAMPLE[at + cut :])
    if found is not None:
        assert ProofBundle.decode(found.encode()) == found


PLAIN = [
    proof(chain(2)).encode(),
    proof(session_context=CONTEXT, stream_id=STREAM, stream_seq=1).encode(),
    proof([certificate(constraints=(constraint(type="max_amount", currency="a:b", max_amount=5),))]).encode(),
    json.dumps(proof([certificate(scope=("custom:a:b",), cert_id=":=:")]).to_dict(), indent=1).encode(),
]
MARKS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"=", b'="', b'"agent_id":', b'"cert_id":', b'"scope":[', b"180000"]
PIECES = st.sampled_from(
    [
        b"",
        b" ",
        b'"agent_id":"a",',
        b'"cert_id":"x:y",',
        b'"version":1,',
        b'"scope":[],',
        b'"ed25519":"",',
        b'"note":1,',
        b"-0",
        b"0",
        b"1.0",
        b"1e3",
        b"9007199254740992",
        b"B",
        b"=",
        b"\\u0041",
        b"\\/",
        b"\\ud800",
        b"\xff",
        b"null",
        b"{}",
        b"[]",
        b",",
        b":",
    ]
)


@pytest.mark.slow
@settings(max_examples=400)
@given(
    st.sampled_from(PLAIN), st.sampled_from(MARKS), st.integers(0, 40), st.integers(0, 12), st.integers(-1, 1), PIECES
)
@example(PLAIN[0], b'"agent_id":', 0, 0, 0, b'"agent_id":"a",')
@example(PLAIN[0], b'"cert_id":', 1, 0, 0, b'"cert_id":"x",')
def test_what_is_read_quickly_is_what_is_read_strictly(
    text: bytes, mark: bytes, nth: int, cut: int, offset: int, piece: bytes
) -> None:
    at = text.find(mark)
    for _ in range(nth):
        at = text.find(mark, at + 1) if at >= 0 else at
    at = max(at + offset, 0)
    spoilt = text[:at] + piece + text[at + cut :]
    for data in (spoilt, text, text, text, spoilt):
        assert attempt(decode_proof_bundle, data) == attempt(ProofBundle.decode, data)


def attempt(decode: Callable[[bytes], ProofBundle], data: bytes) -> tuple[ProofBundle, list[bytes]] | str:
    try:
        found = decode(data)
    except WireError as error:
        return str(error)
    return found, [cert.digest for cert in found.delegations]


@settings(max_examples=50)
@given(CERTS, st.randoms(), st.sampled_from([None, 1]), st.booleans())
def test_what_is_written_is_read_back_however_it_is_spelled(
    cert: DelegationCert, shuffle: Any, indent: int | None, escape: bool
) -> None:
    text = cert.encode()
    assert DelegationCert.decode(text) == cert
    members = list(json.loads(text).items())
    shuffle.shuffle(members)
    respelled = DelegationCert.decode(json.dumps(dict(members), indent=indent, ensure_ascii=escape))
    assert respelled == cert
    assert respelled.encode() == text
    assert delegation_sign_bytes(respelled) == delegation_sign_bytes(cert)


@given(st.floats(allow_nan=False, allow_infinity=False) | SAFE)
@example(1e-6)
@example(9.999999999999999e-06)
@example(-0.0)
def test_numbers_are_written_as_ecmascript_does_and_mean_the_same(value: float) -> None:
    assume(abs(value) <= 2**53 - 1)
    text = canonical(number(value)).decode()
    assert json.loads(text) == value
    assert text == ecmascript(value)


def ecmascript(value: float) -> str:
    """Number::toString of ECMA-262, from the shortest digits that Python finds too."""
    if value == int(value):
        return str(int(value))
    sign, digits, exponent = "-" if value < 0 else "", *_shortest(abs(value))
    length, point = len(digits), exponent + len(digits)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if length > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _shortest(value: float) -> tuple[str, int]:
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0").rstrip("0")
    trailing = len((whole + fraction).rstrip("0")) - len(whole)
    return digits, int(exponent or 0) - trailing


@given(st.text("/.a%\\\0é", max_size=12), st.text("/.a%\\\0é", max_size=8))
def test_what_is_below_a_prefix_stays_there_when_it_is_resolved(path: str, prefix: str) -> None:
    if path_fault(path) or path_fault(prefix) or not path_is_below(path, prefix):
        return
    segments = [segment for segment in path.split("/") if segment]
    wanted = [segment for segment in prefix.split("/") if segment]
    assert ".." not in segments
    assert "." not in segments
    assert segments[: len(wanted)] == wanted


NOTHING = st.sampled_from([None, math.nan, math.inf, -math.inf])


@given(
    BUILT_IN,
    st.fixed_dictionaries(
        dict.fromkeys(("current_lat", "current_lon", "current_speed_mps", "requested_amount"), NOTHING)
    ),
)
def test_nothing_is_allowed_by_a_fact_that_is_none(members: dict[str, Any], facts: dict[str, Any]) -> None:
    context = VerifierContext(**facts, requested_currency=members.get("currency"))
    outcome = read_constraint(members).judge(context, "cert", NOW)
    if members["type"] == "time_window":
        assert outcome is None or outcome.status == "constraint_denied"
    else:
        assert outcome is not None


@settings(max_examples=50)
@given(
    st.lists(CONSTRAINTS.map(read_constraint), max_size=2).map(tuple),
    st.builds(
        VerifierContext,
        current_lat=st.none() | st.floats(),
        current_lon=st.none() | st.floats(),
        current_alt_m=st.none() | st.floats(),
        requested_amount=st.none() | st.floats() | st.integers(),
        requested_currency=st.none() | TEXT,
        invocations_in_window=st.sampled_from([None, answering(0), answering(None), json.loads]),
        requested_resource_id=TEXT,
        requested_path=TEXT,
    ),
    SAFE | st.integers(),
    TEXT,
)
def test_a_verification_answers_whatever_it_is_asked(
    constraints: Any, context: VerifierContext, now: int, required: str
) -> None:
    bundle = proof()
    odd = replace(bundle, delegations=(replace(bundle.delegations[0], constraints=constraints),))
    for asked in (bundle, odd):
        result = verify_bundle(asked, required or UNSET, now=now, context=context, is_revoked=answering(False))
        assert isinstance(result, VerifyResult)
    for each in constraints:
        evaluate(each, context, "cert", NOW, {each.type: answering("no")})


@given(st.dictionaries(TEXT, JSON, max_size=3))
def test_parameters_are_read_when_they_are_of_the_right_types(params: dict[str, Any]) -> None:
    fault = Extension("x", params).params_fault(1)
    text = json.dumps({"type": "x", "params": params})
    plain = not any(isinstance(value, float) for value in _leaves(params))
    small = all(abs(value) < 2**53 for value in _leaves(params) if isinstance(value, int))
    assert (fault is None) is (plain and small), text


def _leaves(value: Any) -> list[Any]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if inside is None else [leaf for each in inside for leaf in _leaves(each)]
