"""Where the published package and ours differ on purpose: each case by name, with both answers."""

import base64
import json
import math
from typing import Any

import pytest
import ratify_protocol as published
from msgspec.structs import replace
from tests.differential.peer import (
    Question,
    both,
    our_answer,
    read_by_them,
    read_by_us,
    their_answer,
    their_context,
    theirs_key,
    theirs_signature,
)
from tests.unit.ratify.world import (
    HOUR,
    HUMAN,
    NOW,
    STRANGER,
    certificate,
    constraint,
    proof,
)

from accredit.ratify import (
    ProofBundle,
    VerifierContext,
    delegation_sign_bytes,
    issue_revocation_list,
    revocation_list_fault,
    verify_bundle,
)
from accredit.ratify.extras.sessions import issue_session_token

GOOD = ("authorized_agent", "")


def a_self_made_root() -> ProofBundle:
    return proof([certificate(STRANGER, issuer_id=HUMAN.id)])


def test_they_take_a_self_made_root_for_its_victim_and_we_do_not() -> None:
    theirs, ours = both(a_self_made_root().encode(), Question(now=NOW))
    assert theirs[:3] == (*GOOD, HUMAN.id)
    assert ours[:2] == ("invalid", "id_derivation: cert 0 issuer_id does not match its key")


def test_they_take_an_agent_for_another_and_we_do_not() -> None:
    bundle = replace(proof([certificate(subject_id=STRANGER.id)]), agent_id=STRANGER.id)
    theirs, ours = both(bundle.encode(), Question(now=NOW))
    assert (theirs[0], theirs[3]) == ("authorized_agent", STRANGER.id)
    assert ours[1].startswith("id_derivation: cert 0 subject_id")


@pytest.mark.parametrize(
    ("members", "facts"),
    [
        (
            {"type": "geo_bbox", "min_lat": 1, "max_lat": 2, "min_lon": 3, "max_lon": 4},
            {"current_lat": math.nan, "current_lon": math.nan},
        ),
        (
            {"type": "max_amount", "currency": "EUR", "max_amount": 1},
            {"requested_amount": math.nan, "requested_currency": "EUR"},
        ),
        ({"type": "max_speed_mps", "max_mps": 1}, {"current_speed_mps": math.nan}),
    ],
)
def test_a_fact_that_is_not_a_number_passes_their_constraints_and_not_ours(
    members: dict[str, Any], facts: dict[str, Any]
) -> None:
    bundle = proof([certificate(constraints=(constraint(**members),))])
    theirs, ours = both(bundle.encode(), Question(now=NOW, facts=facts))
    assert theirs[:2] == GOOD
    assert ours[0] == "constraint_unverifiable"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_they_read_numbers_that_are_none(number: str) -> None:
    bundle = proof([certificate(constraints=(constraint(type="max_speed_mps", max_mps=7),))])
    text = bundle.encode().replace(b'"max_mps":7', f'"max_mps":{number}'.encode())
    assert read_by_them(text) is not None
    assert read_by_us(text) is None


def test_they_read_numbers_that_lose_digits() -> None:
    for number in ("-0", "-0.0", "9007199254740993", "1e17"):
        bundle = proof([certificate(constraints=(constraint(type="max_speed_mps", max_mps=7),))])
        text = bundle.encode().replace(b'"max_mps":7', f'"max_mps":{number}'.encode())
        assert read_by_them(text) is not None
        assert read_by_us(text) is None


def test_they_read_a_fraction_of_nothing_in_parameters() -> None:
    bundle = proof([certificate(constraints=(constraint(type="x", params={"a": 5}),))])
    text = bundle.encode().replace(b'"a":5', b'"a":5.0')
    assert read_by_them(text) is not None
    assert read_by_us(text) is None


@pytest.mark.parametrize("zone", ["../../etc/passwd", "/etc/passwd", "America"])
def test_a_zone_that_makes_theirs_raise_is_an_unknown_one(zone: str) -> None:
    window = constraint(type="time_window", start="00:00", end="23:59", tz=zone)
    text = proof([certificate(constraints=(window,))]).encode()
    with pytest.raises((ValueError, OSError)):
        their_answer(read_by_them(text), Question(now=NOW))
    ours = read_by_us(text)
    assert ours is not None
    assert our_answer(ours, Question(now=NOW))[0] == "constraint_denied"


def test_a_lone_surrogate_that_makes_theirs_raise_is_not_read() -> None:
    text = proof().encode().replace(b'"cert_id":"', b'"cert_id":"\\ud800')
    with pytest.raises(UnicodeEncodeError):
        their_answer(read_by_them(text), Question(now=NOW))
    assert read_by_us(text) is None


def test_nesting_that_makes_theirs_raise_something_else_is_not_read() -> None:
    text = b"[" * 60_000
    with pytest.raises(RecursionError):
        published.decode_proof_bundle(text)
    assert read_by_us(text) is None


def test_callbacks_that_raise_raise_out_of_theirs() -> None:
    def broken(*_asked: object) -> Any:
        raise OSError("gone")

    class Provider:
        def is_revoked(self, cert_id: str) -> tuple[bool, str | None]:
            return broken(cert_id)

    decoded = read_by_them(proof().encode())
    with pytest.raises(OSError, match="gone"):
        published.verify_bundle(decoded, published.VerifyOptions(now=NOW, revocation=Provider()))
    assert verify_bundle(proof(), now=NOW, is_revoked=broken).error_reason.startswith("revocation_error: ")
    bundle = proof([certificate(constraints=(constraint(type="max_rate", count=1, window_s=1),))])
    asked = Question(now=NOW, facts={"invocations_in_window": broken})
    with pytest.raises(OSError, match="gone"):
        their_answer(read_by_them(bundle.encode()), asked)
    assert our_answer(bundle, asked)[0] == "constraint_unverifiable"


@pytest.mark.parametrize("clock", [" 1:30", "+1:30", "٠١:٣٠"])  # noqa: RUF001
def test_they_read_clocks_that_are_none(clock: str) -> None:
    window = constraint(type="time_window", start=clock, end="23:59", tz="UTC")
    theirs, ours = both(proof([certificate(constraints=(window,))]).encode(), Question(now=NOW))
    assert theirs[:2] == GOOD
    assert ours[1].endswith(f"bad start time: {clock}")


def test_a_path_that_names_a_status_changes_theirs() -> None:
    path = constraint(type="resource_path", resource_id="r", path_prefix="/a")
    facts = {"requested_resource_id": "r", "requested_path": "/constraint_unverifiable"}
    bundle = proof([certificate(constraints=(path,))])
    theirs, ours = both(bundle.encode(), Question(now=NOW, facts=facts))
    assert (theirs[0], ours[0]) == ("constraint_unverifiable", "constraint_denied")


def test_a_token_is_refused_to_a_chain_with_constraints_by_us_only() -> None:
    certs = [certificate(constraints=(constraint(type="max_speed_mps", max_mps=7),), expires_at=NOW + 10)]
    bundle = proof(certs)
    asked = Question(now=NOW, facts={"current_speed_mps": 1})
    theirs = read_by_them(bundle.encode())
    result = published.verify_bundle(theirs, published.VerifyOptions(now=NOW, context=their_context(asked.facts)))
    token = published.issue_session_token(theirs, result, "session", NOW, NOW + HOUR, b"secret")
    assert token.valid_until > certs[0].expires_at
    facts = VerifierContext(current_speed_mps=1)
    with pytest.raises(Exception, match="constraints"):
        issue_session_token(
            bundle, verify_bundle(bundle, now=NOW, context=facts), "session", NOW, NOW + HOUR, b"secret"
        )


def test_small_numbers_are_written_as_ecmascript_does() -> None:
    bundle = proof([certificate(constraints=(constraint(type="max_speed_mps", max_mps=1e-5),))])
    theirs = read_by_them(bundle.encode())
    assert b'"max_mps":0.00001' in delegation_sign_bytes(bundle.delegations[0])
    assert b'"max_mps":1e-05' in published.delegation_sign_bytes(theirs.delegations[0])


def test_a_challenge_of_another_length_is_refused_by_us_only() -> None:
    challenge = bytes(40)
    bundle = proof(challenge=challenge)
    decoded = read_by_them(proof().encode())
    decoded.challenge, decoded.challenge_sig = challenge, theirs_signature(bundle.challenge_sig)
    assert their_answer(decoded, Question(now=NOW))[:2] == GOOD
    assert our_answer(bundle, Question(now=NOW))[1].startswith("invalid_challenge: ")


def test_a_list_of_revocations_names_its_issuer_by_the_key() -> None:
    ours = replace(issue_revocation_list(HUMAN, [], NOW), issuer_id="anyone")
    unsigned = published.RevocationList("anyone", NOW, [], theirs_signature(ours.signature))
    resigned = replace(ours, signature=HUMAN.sign(published.revocation_sign_bytes(unsigned)))
    theirs = published.RevocationList("anyone", NOW, [], theirs_signature(resigned.signature))
    assert published.verify_revocation_list(theirs, theirs_key(HUMAN.public_key))
    assert revocation_list_fault(resigned, HUMAN.public_key) == "issuer_id does not match the key"


def test_base64_bits_that_decoders_ignore_are_refused_by_both() -> None:
    value: Any = proof().to_dict()
    value["challenge"] = base64.b64encode(bytes(32)).decode()[:-2] + "B="
    text = json.dumps(value).encode()
    assert read_by_us(text) is read_by_them(text) is None
