"""Hybrid signatures: both parts, or nothing."""

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN

from accredit.ratify import HybridPrivateKey, HybridSignature, derive_id
from accredit.ratify.hybrid import UNSIGNED, signature_fault

MESSAGE = b"what is signed"
SIGNATURE = HUMAN.sign(MESSAGE)


def test_seeds_give_the_same_key_again() -> None:
    root = HybridPrivateKey(b"\x01" * 32, b"\xfe" * 32)
    agent = HybridPrivateKey(b"\x02" * 32, b"\xfd" * 32)
    assert (root.id, agent.id) == ("92cb0a15572d7a71ed72bbc8dcdfb6b6", "b4a4c71795d676b69f454881a83009b2")
    assert derive_id(root.public_key) == root.id


def test_two_signatures_differ_and_both_are_good() -> None:
    other = HUMAN.sign(MESSAGE)
    assert other.ml_dsa_65 != SIGNATURE.ml_dsa_65
    assert signature_fault(MESSAGE, other, HUMAN.public_key) is signature_fault(MESSAGE, SIGNATURE, HUMAN.public_key)
    assert signature_fault(MESSAGE, other, HUMAN.public_key) is None


def test_another_message() -> None:
    assert signature_fault(MESSAGE + b".", SIGNATURE, HUMAN.public_key) == "Ed25519 signature invalid"


@pytest.mark.parametrize(("part", "name"), [("ed25519", "Ed25519"), ("ml_dsa_65", "ML-DSA-65")])
def test_one_part_of_another_holder(part: str, name: str) -> None:
    mixed = replace(SIGNATURE, **{part: getattr(AGENT.sign(MESSAGE), part)})
    assert signature_fault(MESSAGE, mixed, HUMAN.public_key) == f"{name} signature invalid"
    mixed_key = replace(HUMAN.public_key, **{part: getattr(AGENT.public_key, part)})
    assert signature_fault(MESSAGE, SIGNATURE, mixed_key) == f"{name} signature invalid"


@pytest.mark.parametrize(
    ("of_key", "part", "text"),
    [
        (True, "ed25519", "Ed25519 public key wrong length: 1"),
        (True, "ml_dsa_65", "ML-DSA-65 public key wrong length: 1"),
        (False, "ed25519", "Ed25519 signature wrong length: 1"),
        (False, "ml_dsa_65", "ML-DSA-65 signature wrong length: 1"),
    ],
)
def test_lengths_come_first(of_key: bool, part: str, text: str) -> None:
    key, signature = HUMAN.public_key, SIGNATURE
    if of_key:
        key = replace(key, **{part: b"x"})
    else:
        signature = replace(signature, **{part: b"x"})
    assert signature_fault(b"another message", signature, key) == text


def test_bytes_that_are_no_point_are_an_invalid_signature() -> None:
    for junk in (b"\xff" * 32, bytes(32)):
        key = replace(HUMAN.public_key, ed25519=junk)
        assert signature_fault(MESSAGE, SIGNATURE, key) == "Ed25519 signature invalid"


def test_what_is_not_signed_yet_has_the_right_lengths_and_is_good_for_nothing() -> None:
    assert signature_fault(MESSAGE, UNSIGNED, HUMAN.public_key) == "Ed25519 signature invalid"
    assert signature_fault(MESSAGE, HybridSignature(b"", b""), HUMAN.public_key) == "Ed25519 signature wrong length: 0"


def test_a_private_key_does_not_show_itself() -> None:
    assert repr(HUMAN) == f"{HUMAN}" == f"<HybridPrivateKey {HUMAN.id}>"


@pytest.mark.parametrize(("one", "other"), [(31, 32), (32, 33), (0, 0)])
def test_seeds_have_thirty_two_bytes(one: int, other: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        HybridPrivateKey(bytes(one), bytes(other))
