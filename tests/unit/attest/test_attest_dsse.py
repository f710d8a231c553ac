"""Envelopes are those of DSSE v1, and no bit of them is free."""

import json

import pytest
from securesystemslib.dsse import Envelope as PeerEnvelope
from securesystemslib.signer import SSlibKey  # pyright: ignore[reportPrivateImportUsage]
from tests.world.records import Chained, decided, gateway

from accredit.attest import Envelope, LogKey, decode_envelope, encode_envelope, signed_bytes
from accredit.attest.dsse import PAYLOAD_TYPE
from accredit.errors import AttestationError


def peer_key(key: LogKey) -> SSlibKey:
    return SSlibKey(key.id, "ed25519", "ed25519", {"public": key.ed25519.hex()})


def test_what_is_signed_counts_bytes_in_plain_decimals__another_encoding_verifies_nowhere_else() -> None:
    payload = "grüße".encode()
    assert signed_bytes(payload) == b"DSSEv1 28 application/vnd.in-toto+json 7 " + payload
    assert signed_bytes(b"") == b"DSSEv1 28 application/vnd.in-toto+json 0 "


def test_a_stock_verifier_verifies_every_envelope() -> None:
    chain = Chained()
    for envelope in chain.calls(3):
        peer = PeerEnvelope.from_dict(json.loads(encode_envelope(envelope)))
        assert peer.payload_type == PAYLOAD_TYPE
        assert peer.pae() == signed_bytes(envelope.payload)
        assert peer.verify([peer_key(chain.key)], threshold=1)


def test_an_envelope_survives_its_text() -> None:
    envelope = Chained().decision(decided())
    assert decode_envelope(encode_envelope(envelope)) == envelope


def test_whitespace_and_order_are_free__other_tools_write_envelopes_too() -> None:
    envelope = Chained().decision(decided())
    members = json.loads(encode_envelope(envelope))
    assert decode_envelope(json.dumps(dict(sorted(members.items())), indent=2).encode()) == envelope


@pytest.mark.holds("attest/dsse", "signatures")
def test_what_else_a_signature_holds_is_kept_in_its_canonical_form() -> None:
    first = {"keyid": "other", "sig": "AAAA", "bundle": {"b": [1.0, "\u00fc"], "a": None}}
    (signature,) = decode_envelope(changed(signatures=[first])).signatures
    assert signature == ("other", bytes(3), '{"bundle":{"a":null,"b":[1,"ü"]}}'.encode())
    text = encode_envelope(Envelope(b"", (signature,)))
    assert json.loads(text)["signatures"] == [{**first, "bundle": {"b": [1, "ü"], "a": None}}]


def changed(**members: object) -> bytes:
    envelope = json.loads(encode_envelope(Chained().decision(decided())))
    return json.dumps({**envelope, **members}).encode()


@pytest.mark.holds("attest/dsse", "members", "base64", "presence")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not a DSSE envelope"),
        (b"[]", "not a DSSE envelope"),
        (b"\xff", "not a DSSE envelope"),
        (changed(extra=1), "not a DSSE envelope"),
        (changed(payload=None), "not a DSSE envelope"),
        (changed(payloadType="text/plain"), "is not of type"),
        (changed(signatures=[]), "no signature"),
        (changed(signatures=[{"sig": "AAAA"}]), "not a DSSE envelope"),
        (changed(signatures=[{"sig": "AAAA", "more": 1}]), "not a DSSE envelope"),
        (changed(signatures=[{"keyid": 1, "sig": "AAAA", "more": 1}]), "not a DSSE envelope"),
        (changed(signatures=[{"keyid": "a", "sig": "AB==", "more": 1}]), "base64 is not"),
        (changed(signatures=[{"keyid": "a", "sig": "AAAA", "more": "x" * 65_536}]), "more than 65536 bytes"),
        (
            changed(signatures=[{"keyid": "a", "sig": "AAAA", "m": []}]).replace(b"[]", b"[" + b" " * 65_536 + b"]"),
            "more than 65536 bytes",
        ),
        (changed(signatures=["AAAA"]), "not a DSSE envelope"),
        (
            changed(signatures=[{"keyid": "a", "sig": "AAAA"}]).replace(b'"AAAA"', b'"AAAA", "more": ' + b"[" * 9_000),
            "not a DSSE envelope",
        ),
        (changed(payload="AAA"), "base64 is not valid"),
        (changed(payload="A_=="), "base64 is not valid"),
        (changed(payload="AB=="), "base64 is not"),
        (changed(payload="ä"), "base64 is not valid"),
    ],
)
def test_anything_else_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(AttestationError, match=reason):
        decode_envelope(text)


def test_a_signer_does_not_show_itself() -> None:
    signer, _ = gateway()
    assert repr(signer) == f"<LogSigner {signer.id}>"
