"""Key sets: which keys are used, and for which algorithms."""

import base64
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from tests.world.issuer import IssuerKey, key_set_text

from accredit.errors import KeySetError
from accredit.limits import MAX_KEY_SET_BYTES
from accredit.tokens.key_sets import (
    ALGORITHMS,
    MAX_CANDIDATE_KEYS,
    MAX_KEYS_IN_SET,
    KeySet,
    read_key_set,
    read_public_key,
)

EC, RSA, ED = IssuerKey("ec"), IssuerKey("rsa", "RS256"), IssuerKey("ed", "EdDSA")


def set_of(*jwks: object) -> KeySet:
    return read_key_set(json.dumps({"keys": jwks}).encode())


def pem(key: object) -> bytes:
    assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed448.Ed448PublicKey)
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_key_is_used_for_its_algorithm_alone(algorithm: str) -> None:
    found = set_of(IssuerKey("k", algorithm).jwk())
    for other in ALGORITHMS:
        assert bool(found.candidates(other, "k")) is (other == algorithm)


def test_a_key_that_names_no_algorithm_is_good_for_those_of_its_type() -> None:
    found = set_of(EC.jwk(alg=None), RSA.jwk(alg=None), ED.jwk(alg=None))
    assert [sorted(key.algorithms) for key in found.keys] == [
        ["ES256"],
        ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"],
        ["EdDSA"],
    ]


def test_a_key_is_found_by_its_id() -> None:
    found = set_of(EC.jwk(), IssuerKey("other").jwk(), RSA.jwk())
    assert [key.kid for key in found.candidates("ES256", "ec")] == ["ec"]
    assert found.candidates("ES256", "unknown") == ()
    assert found.candidates("ES256", "rsa") == ()
    assert [key.kid for key in found.candidates("ES256", None)] == ["ec", "other"]


def test_a_key_without_an_id_may_be_any() -> None:
    found = set_of(EC.jwk(kid=None))
    assert len(found.candidates("ES256", "whatever")) == 1
    assert found.knows("whatever")


def test_a_set_says_whether_it_knows_an_id__or_a_newer_one_is_worth_asking_for() -> None:
    found = set_of(EC.jwk())
    assert (found.knows("ec"), found.knows(None), found.knows("new")) == (True, True, False)
    assert not set_of().knows(None)


def test_few_keys_are_tried__a_large_set_must_not_make_each_bad_token_dear() -> None:
    jwk = EC.jwk(kid=None)
    assert len(set_of(*[jwk] * 20).candidates("ES256", None)) == MAX_CANDIDATE_KEYS


SECRET = base64.urlsafe_b64encode(b"k" * 32).decode()


@pytest.mark.holds("tokens/key_sets", "public-keys", "signature-keys", "key-types")
@pytest.mark.parametrize(
    "jwk",
    [
        {"kty": "oct", "k": SECRET, "kid": "ec", "alg": "HS256"},
        {"kty": "oct", "k": SECRET, "kid": "ec", "alg": "ES256"},
        EC.jwk(d="AAAA"),
        EC.jwk(use="enc"),
        EC.jwk(key_ops=["sign"]),
        EC.jwk(key_ops="verify"),
        EC.jwk(alg="HS256"),
        EC.jwk(alg="RS256"),
        EC.jwk(alg=7),
        EC.jwk(crv="P-384"),
        EC.jwk(crv="secp256k1"),
        EC.jwk(x="AAAA"),
        EC.jwk(x="é"),
        EC.jwk(y=None),
        EC.jwk(x=7),
        EC.jwk(kid=7),
        EC.jwk(kty="RSA"),
        EC.jwk(kty=["EC"]),
        EC.jwk(kty=None),
        RSA.jwk(n="AQAB"),
        RSA.jwk(e="AQ"),
        RSA.jwk(e="A" * 9),
        RSA.jwk(n="_" * 3_000),
        RSA.jwk(n=None),
        RSA.jwk(d="AAAA"),
        ED.jwk(crv="X25519"),
        ED.jwk(crv="Ed448"),
        ED.jwk(x="AAAA"),
        7,
        None,
        "key",
        [],
        {},
    ],
)
def test_a_key_that_can_not_be_used_is_passed_over__the_others_count(jwk: object) -> None:
    assert [key.kid for key in set_of(jwk, IssuerKey("good").jwk()).keys] == ["good"]


@pytest.mark.holds("tokens/key_sets", "key-types")
def test_a_short_rsa_key_is_passed_over() -> None:
    assert set_of(IssuerKey("short", "RS256", bits=1024).jwk()).keys == ()


def test_an_issuer_can_take_all_its_keys_back() -> None:
    assert set_of().keys == ()


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b"[]", b"{}", b'{"keys":{}}', b'{"keys":7}', b"\xff", b'{"keys":' + b"[" * 50_000]
)
def test_what_is_no_set_is_refused(text: bytes) -> None:
    with pytest.raises(KeySetError, match="not a JWK set"):
        read_key_set(text)


def test_a_set_has_bounds() -> None:
    with pytest.raises(KeySetError, match="bytes"):
        read_key_set(b" " * (MAX_KEY_SET_BYTES + 1))
    with pytest.raises(KeySetError, match="keys"):
        set_of(*[7] * (MAX_KEYS_IN_SET + 1))


def test_another_text_is_another_set() -> None:
    assert read_key_set(key_set_text(EC)).digest == read_key_set(key_set_text(EC)).digest
    assert read_key_set(key_set_text(EC)).digest != read_key_set(key_set_text(EC, RSA)).digest


def test_a_public_key_in_pem_is_a_set_of_one() -> None:
    (key,) = read_public_key(pem(EC.private.public_key())).keys
    assert (key.kid, key.algorithms) == (None, {"ES256"})
    (key,) = read_public_key(pem(RSA.private.public_key())).keys
    assert "PS512" in key.algorithms


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"PEM",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        pem(ed448.Ed448PrivateKey.generate().public_key()),
        pem(ec.generate_private_key(ec.SECP256K1()).public_key()),
        pem(rsa.generate_private_key(65_537, 1024).public_key()),
        EC.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    ],
)
def test_what_is_no_public_key_for_tokens_is_refused(text: bytes) -> None:
    with pytest.raises(KeySetError):
        read_public_key(text)
