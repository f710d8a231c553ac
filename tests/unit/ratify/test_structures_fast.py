"""Reading proofs quickly: what is remembered of certificates, and what never is."""

import json

import pytest
from tests.unit.ratify.world import CONTEXT, certificate, chain, constrained, proof

from accredit.base.caching import RecentlyUsed
from accredit.errors import WireError
from accredit.ratify import DelegationCert, ProofBundle, decode_proof_bundle
from accredit.ratify import structures as proofs
from accredit.ratify.structures import MAX_GLIMPSED_TEXTS, MAX_REMEMBERED_TEXTS


@pytest.fixture(autouse=True)
def nothing_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests of this process have read is not remembered here."""
    monkeypatch.setattr(proofs, "_seen_once", RecentlyUsed[bytes, bool](MAX_GLIMPSED_TEXTS))
    monkeypatch.setattr(proofs, "_remembered", RecentlyUsed[bytes, object](MAX_REMEMBERED_TEXTS))


def read_often(bundle: ProofBundle, spaced: bool = False) -> list[DelegationCert]:
    """The first certificate as it was read each time."""
    text = json.dumps(bundle.to_dict()).encode() if spaced else bundle.encode()
    found = [decode_proof_bundle(text) for _ in range(4)]
    assert all(each == bundle for each in found)
    return [each.delegations[0] for each in found]


@pytest.mark.parametrize("spaced", [False, True])
def test_a_text_that_comes_again_is_one_object_from_then_on(spaced: bool) -> None:
    first, second, third, fourth = read_often(proof(chain(2)), spaced)
    assert first is not second
    assert second is third
    assert third is fourth


@pytest.mark.holds("ratify/structures", "constraints")
def test_constraints_are_no_hindrance() -> None:
    *_, third, fourth = read_often(constrained({"type": "max_rate", "count": 1, "window_s": 60}))
    assert third is fourth


def test_parameters_are_nobodys_to_share() -> None:
    *_, third, fourth = read_often(constrained({"type": "x.y", "params": {"a": [1]}}))
    assert third is not fourth


def test_a_long_text_is_not_kept() -> None:
    *_, third, fourth = read_often(proof([certificate(scope=tuple(f"custom:{n:0200}" for n in range(60)))]))
    assert third is not fourth


def test_the_same_beginning_is_not_the_same_text() -> None:
    one, other = certificate(cert_id="x" * 200), certificate(cert_id="x" * 200, scope=())
    for _ in range(4):
        for cert in (one, other):
            assert decode_proof_bundle(proof([cert]).encode()).delegations == (cert,)


@pytest.mark.holds("ratify/structures", "backslash", "repetition", "zero", "base64")
def test_the_rest_of_a_known_proof_is_read_as_strictly_as_ever() -> None:
    bundle = proof(chain(2), session_context=CONTEXT)
    read_often(bundle)
    text = bundle.encode()
    for spoilt, reason in (
        (text.replace(b'{"agent_id":', b'{"agent_id":"x","agent_id":'), 'duplicate key "agent_id"'),
        (text.replace(b'{"agent_id":', b'{"note":"x","agent_id":'), 'unknown field "note"'),
        (text.replace(b'"challenge_at":1800000000', b'"challenge_at":-0'), "-0"),
        (text.replace(b'"challenge_at":1800000000', b'"challenge_at":9007199254740992'), "safe-integer"),
        (text.replace(b'"challenge_at":1800000000', b'"challenge_at":1.0'), "Expected `int`"),
        (text.replace(b'{"agent_id":"', b'{"challenge_at":1,"agent_id":"\\u003a'), 'duplicate key "challenge_at"'),
        (text.replace(b'Bwc="', b'Bwd="'), "non-canonical base64"),
        (text + b"]", "not one JSON value"),
        (text.replace(b'"session_context"', b'"stream_id"'), "stream_id and stream_seq go together"),
        (text.ljust(131_073), "more than 131072 bytes"),
        (b"{}", "missing required field"),
    ):
        assert spoilt != text
        with pytest.raises(WireError, match=reason):
            decode_proof_bundle(spoilt)


def test_the_number_of_a_turn_is_a_safe_integer() -> None:
    text = proof(stream_id=CONTEXT, stream_seq=1).encode()
    assert (
        decode_proof_bundle(text.replace(b'"stream_seq":1', b'"stream_seq":9007199254740991')).stream_seq == 2**53 - 1
    )
    with pytest.raises(WireError, match="safe-integer"):
        decode_proof_bundle(text.replace(b'"stream_seq":1', b'"stream_seq":9007199254740992'))


def test_a_text_may_be_a_str() -> None:
    bundle = proof()
    assert decode_proof_bundle(bundle.encode().decode()) == bundle
