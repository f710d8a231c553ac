"""One call's evidence, shown to somebody else."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.records import Chained, decided, gateway

from accredit.attest import CallBundle, decode_call_bundle, encode_call_bundle, recorded_chain, verify_call_bundle
from accredit.errors import AttestationError

KEYS = [gateway()[1]]
CERTIFICATES = recorded_chain([b'{"cert_id": "c"}'])


def bundle(**more: Any) -> CallBundle:
    chain, call = Chained(), decided(certificates=CERTIFICATES.text)
    records = (chain.decision(call), chain.outcome(call))
    return replace(CallBundle(records, CERTIFICATES.text, chain.checkpoint()), **more)


@pytest.mark.parametrize("made", [bundle(), bundle(certificates=None, checkpoint=None)])
def test_a_bundle_survives_its_text_and_verifies(made: CallBundle) -> None:
    read = decode_call_bundle(encode_call_bundle(made))
    assert read == made
    assert [record.phase for record in verify_call_bundle(read, KEYS)] == ["decision", "outcome"]


@pytest.mark.holds("attest/bundles", "envelopes", "order", "digests", "checkpoint")
@pytest.mark.parametrize(
    "broken",
    [
        bundle(envelopes=()),
        bundle(envelopes=bundle().envelopes[1:]),
        bundle(envelopes=bundle().envelopes[::-1]),
        bundle(envelopes=(bundle().envelopes[0], bundle().envelopes[1])),
        bundle(envelopes=bundle().envelopes * 2),
        bundle(certificates=b"[]"),
        bundle(certificates=b"["),
        bundle(proof=b"{}"),
        bundle(checkpoint=bundle().checkpoint),
        bundle(checkpoint=bundle().envelopes[0]),
        bundle(envelopes=(bundle().checkpoint,)),
    ],
)
def test_a_bundle_of_what_does_not_belong_together_is_refused(broken: CallBundle) -> None:
    with pytest.raises(AttestationError):
        verify_call_bundle(broken, KEYS)


@pytest.mark.parametrize("text", [b"", b"{}", b'{"envelopes": [1], "certificates": null, "checkpoint": null}', b"\xff"])
def test_what_is_no_bundle_is_refused(text: bytes) -> None:
    with pytest.raises(AttestationError):
        decode_call_bundle(text)
