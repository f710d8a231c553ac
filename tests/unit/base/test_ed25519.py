"""libsodium and OpenSSL over the known edges of Ed25519: we judge as the stricter of the two."""

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from accredit.base.ed25519 import is_signed, public_key, signing

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
SEEDS = st.binary(min_size=32, max_size=32)
MESSAGE = b"a call"
SECRET, NONCE = 7_777_777, 1_234_567_890


def plus(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    k = D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def times(number: int, point: Point) -> Point:
    found = (0, 1)
    for bit in reversed(range(number.bit_length())):
        found = plus(found, found)
        if number >> bit & 1:
            found = plus(found, point)
    return found


def point_at(y: int) -> Point | None:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    for x in (root, root * pow(2, (P - 1) // 4, P) % P):
        if (x * x - square) % P == 0:
            return x if x % 2 == 0 else P - x, y
    return None


def of_order_8() -> Point:
    """A point outside the group that signatures are in."""
    for y in range(2, 100):
        if (point := point_at(y)) is not None and times(4, (small := times(L, point))) != (0, 1):
            return small
    raise AssertionError


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def signature(key: bytes, commitment: bytes, nonce: int, secret: int, message: bytes) -> tuple[bytes, int]:
    """A signature as its maker computes it, and what the message was hashed to."""
    hashed = int.from_bytes(hashlib.sha512(commitment + key + message).digest(), "little") % L
    return commitment + ((nonce + hashed * secret) % L).to_bytes(32, "little"), hashed


BASE = point_at(4 * pow(5, -1, P) % P) or (0, 0)
KEY, COMMITMENT, SMALL = times(SECRET, BASE), times(NONCE, BASE), of_order_8()
GOOD, _ = signature(encoded(KEY), encoded(COMMITMENT), NONCE, SECRET, MESSAGE)
IDENTITY = encoded((0, 1))


def by_openssl(message: bytes, signed: bytes, key: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@given(SEEDS, st.binary(max_size=3_000))
def test_both_sign_alike_and_take_each_others_signatures(seed: bytes, message: bytes) -> None:
    theirs = Ed25519PrivateKey.from_private_bytes(seed)
    key, made = public_key(seed), signing(seed)(message)
    assert (key, made) == (theirs.public_key().public_bytes_raw(), theirs.sign(message))
    assert is_signed(message, made, key)
    assert not is_signed(message + b"x", made, key)


def test_a_vector_of_rfc_8032() -> None:
    seed = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
    made = (
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )
    assert signing(seed)(b"\xaf\x82").hex() == made
    assert public_key(seed).hex() == "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"


@pytest.mark.parametrize(
    ("key", "signed", "openssl_takes"),
    [
        (encoded(KEY), GOOD, True),
        (IDENTITY, encoded(COMMITMENT) + NONCE.to_bytes(32, "little"), True),  # a key of small order signs anything
        (encoded(SMALL), IDENTITY + bytes(32), None),
        (encoded(KEY), signature(encoded(KEY), IDENTITY, 0, SECRET, MESSAGE)[0], True),  # R of small order
        (encoded(KEY), signature(encoded(KEY), encoded(plus(COMMITMENT, SMALL)), NONCE, SECRET, MESSAGE)[0], False),
        (encoded(KEY), GOOD[:32] + (int.from_bytes(GOOD[32:], "little") + L).to_bytes(32, "little"), False),
        ((P + 1).to_bytes(32, "little"), encoded(COMMITMENT) + NONCE.to_bytes(32, "little"), None),  # not canonical
        (encoded(KEY), (P + 1).to_bytes(32, "little") + GOOD[32:], False),
        (b"\2" + bytes(31), GOOD, False),  # not on the curve
    ],
)
def test_at_the_edges_the_stricter_one_decides(key: bytes, signed: bytes, openssl_takes: bool | None) -> None:
    assert is_signed(MESSAGE, signed, key) is (signed == GOOD and key == encoded(KEY))
    if openssl_takes is not None:
        assert by_openssl(MESSAGE, signed, key) is openssl_takes


def test_a_key_of_mixed_order_is_judged_alike() -> None:
    """Neither multiplies by the cofactor: such a signature is good for one message of eight."""
    key = encoded(plus(KEY, SMALL))
    for number in range(40):
        message = b"%d" % number
        signed, hashed = signature(key, encoded(COMMITMENT), NONCE, SECRET, message)
        assert is_signed(message, signed, key) == by_openssl(message, signed, key) == (hashed % 8 == 0)


@pytest.mark.parametrize("cut", [0, 1, 32, 63, 65, 64 + len(MESSAGE)])
def test_the_end_of_a_signature_is_never_taken_for_a_part_of_the_message(cut: int) -> None:
    """libsodium gets both in one text: without a check of lengths, they could be parted elsewhere."""
    whole = GOOD + MESSAGE
    assert not is_signed(whole[cut:], whole[:cut], encoded(KEY))
    assert is_signed(whole[64:], whole[:64], encoded(KEY))
    assert not is_signed(MESSAGE, GOOD, encoded(KEY)[:31])
    assert not is_signed(MESSAGE, GOOD, encoded(KEY) + b"\0")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_seed_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        signing(bytes(length))
    with pytest.raises(ValueError, match="32 bytes"):
        public_key(bytes(length))
