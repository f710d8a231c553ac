"""Public keys that verify tokens: JWK sets (RFC 7517) and PEM. No I/O.

A key of a set is used only if it meets all of these; other keys are ignored, as RFC 7517 section 5 asks:

- [public-keys] it is a public key only: a key that was published with its private half is compromised;
- [signature-keys] it is for signatures (`use`, `key_ops`);
- [key-types] it is RSA of 2,048 to 8,192 bits, on one of the three NIST curves, or Ed25519; never a symmetric key.

A key is used only for the algorithms of its own type. If it names an `alg`, it is used only for that. So a token's
header can't make a key be used for another algorithm.
"""

import hashlib
from typing import TYPE_CHECKING, Any, Union

import msgspec
from msgspec import Raw, Struct

from accredit.base.deferred import Deferred
from accredit.errors import InvalidToken, KeySetError
from accredit.limits import MAX_KEY_SET_BYTES
from accredit.tokens.claims import NOT_JSON, Compact, quote

if TYPE_CHECKING:
    import jwt
    from cryptography import exceptions
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from jwt import algorithms
else:
    jwt = Deferred("jwt")
    exceptions = Deferred("cryptography.exceptions")
    serialization = Deferred("cryptography.hazmat.primitives.serialization")
    ec = Deferred("cryptography.hazmat.primitives.asymmetric.ec")
    ed25519 = Deferred("cryptography.hazmat.primitives.asymmetric.ed25519")
    rsa = Deferred("cryptography.hazmat.primitives.asymmetric.rsa")
    algorithms = Deferred("jwt.algorithms")

MAX_KEYS_IN_SET = 100
"""The most keys of one set. Issuers publish two to ten."""
MAX_CANDIDATE_KEYS = 4
"""The most keys with which one token is tried, if its `kid` does not name exactly one. While keys are rotated there are
two."""
MIN_RSA_BITS = 2_048
"""The smallest RSA key (RFC 7518 section 3.3)."""
MAX_RSA_BITS = 8_192
"""The largest RSA key. The time to verify a signature grows with the square of the key's size (16,384 bits: 1 ms)."""


_PublicKey = Union["ec.EllipticCurvePublicKey", "ed25519.Ed25519PublicKey", "rsa.RSAPublicKey"]

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
ALGORITHMS = frozenset({*_CURVES.values(), *_RSA, "EdDSA"})
"""The algorithms that may be configured for an issuer (RFC 7518 section 3.1, RFC 8037). None of them is symmetric, and
"none" is not among them."""

_MAX_MODULUS_CHARS = MAX_RSA_BITS * 4 // 24 + 2
_MAX_EXPONENT_CHARS = 8
_KEY_TYPES = ("EC", "OKP", "RSA")


class _VerificationKey(Struct, frozen=True):
    """A public key, its id if it has one, and the algorithms for which it may be used."""

    kid: str | None
    algorithms: frozenset[str]
    key: _PublicKey


class KeySet(Struct, frozen=True):
    """The keys of an issuer. `digest` is the SHA-256 of the text from which they were read."""

    keys: tuple[_VerificationKey, ...]
    digest: bytes

    def candidates(self, algorithm: str, kid: str | None) -> tuple[_VerificationKey, ...]:
        """Return the keys that may have signed a token. If both the token and a key have a `kid`, they must be
        equal."""
        fitting = [
            key
            for key in self.keys
            if algorithm in key.algorithms and (kid is None or key.kid is None or key.kid == kid)
        ]
        return tuple(fitting[:MAX_CANDIDATE_KEYS])

    def check_signature(self, compact: "Compact") -> None:
        """Check that one of these keys made a token's signature. Not checked: whether the token's issuer may use its
        algorithm. Raises `InvalidToken`."""
        candidates = self.candidates(compact.algorithm, compact.kid)
        if not candidates:
            raise InvalidToken(f"no key of the issuer fits: kid {quote(compact.kid or '(none)')}")
        if not any(is_signed_by(key.key, compact) for key in candidates):
            raise InvalidToken("the signature is not good")

    def knows(self, kid: str | None) -> bool:
        """Return whether one of these keys may have signed a token with this `kid`. If not, a newer set of the issuer's
        keys may have the right key."""
        return any(kid is None or key.kid is None or key.kid == kid for key in self.keys)


def is_signed_by(key: object, compact: "Compact") -> bool:
    """Return whether a key of any type made a token's signature, by the algorithm that the token's header names."""
    try:
        return jwt.get_algorithm_by_name(compact.algorithm).verify(compact.signed, key, compact.signature)
    except (jwt.PyJWTError, ValueError, TypeError):
        return False


class _Jwk(Struct, frozen=True):
    kty: str
    kid: str | None = None
    use: str = "sig"
    key_ops: list[str] = msgspec.field(default_factory=lambda: ["verify"])
    alg: str | None = None
    crv: str = ""
    x: str = ""
    y: str = ""
    n: str = ""
    e: str = ""
    d: Raw = Raw()


class _Set(Struct, frozen=True):
    keys: list[Raw]


_read_set = msgspec.json.Decoder(_Set).decode
_read_jwk = msgspec.json.Decoder(_Jwk).decode


def read_key_set(data: bytes) -> KeySet:
    """Read a JWK set's JSON text. Raises `KeySetError`.

    A set without a usable key is valid: its issuer has withdrawn all keys.
    """
    if len(data) > MAX_KEY_SET_BYTES:
        raise KeySetError(f"a key set has at most {MAX_KEY_SET_BYTES} bytes")
    try:
        members = _read_set(data).keys
    except NOT_JSON:
        raise KeySetError('not a JWK set: JSON like {"keys": [...]}') from None
    if len(members) > MAX_KEYS_IN_SET:
        raise KeySetError(f"a key set has at most {MAX_KEYS_IN_SET} keys")
    keys = [key for raw in members if (key := _key_of(raw)) is not None]
    return KeySet(tuple(keys), hashlib.sha256(data).digest())


def read_public_key(pem: bytes) -> KeySet:
    """Return one public key in PEM as a set. It has no id, so it matches any `kid`. Raises `KeySetError`."""
    try:
        loaded: Any = serialization.load_pem_public_key(pem)
    except (ValueError, exceptions.UnsupportedAlgorithm):
        raise KeySetError("not a public key in PEM") from None
    fitting = _algorithms_of(loaded)
    if not fitting:
        raise KeySetError(
            "not a key that tokens are signed with: P-256, P-384, P-521, Ed25519, or RSA of "
            f"{MIN_RSA_BITS} to {MAX_RSA_BITS} bits"
        )
    return KeySet((_VerificationKey(None, fitting, loaded),), hashlib.sha256(pem).digest())


def _key_of(raw: Raw) -> _VerificationKey | None:
    """Return a key, or None if it can't be used."""
    try:
        jwk = _read_jwk(raw)
    except NOT_JSON:
        return None
    if jwk.d or jwk.use != "sig" or "verify" not in jwk.key_ops or jwk.kty not in _KEY_TYPES:
        return None
    if len(jwk.n) > _MAX_MODULUS_CHARS or len(jwk.e) > _MAX_EXPONENT_CHARS:
        return None
    members = {name: value for name in ("kty", "crv", "x", "y", "n", "e") if (value := getattr(jwk, name))}
    try:
        loaded: Any = getattr(algorithms, f"{jwk.kty}Algorithm").from_jwk(members)
    except (jwt.PyJWTError, ValueError, KeyError, TypeError):
        return None
    fitting = _algorithms_of(loaded)
    if jwk.alg is not None:
        fitting &= {jwk.alg}
    return _VerificationKey(jwk.kid, fitting, loaded) if fitting else None


def _algorithms_of(key: object) -> frozenset[str]:
    match key:
        case ec.EllipticCurvePublicKey():
            name = _CURVES.get(key.curve.name)
            return frozenset({name} if name else ())
        case ed25519.Ed25519PublicKey():
            return frozenset({"EdDSA"})
        case rsa.RSAPublicKey() if MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            return _RSA
        case _:
            return frozenset()
