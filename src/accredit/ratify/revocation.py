"""Signed lists of revoked certificates, and pushed additions to them (Ratify section 2). No I/O."""

from collections.abc import Iterable

from msgspec.structs import replace

from accredit.base.values import decodable
from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, derive_id, signature_fault
from accredit.ratify.wire import Integer, Positive, WireObject, signed_text


@decodable
class RevocationList(WireObject, frozen=True):
    """The ids of all certificates that an issuer has revoked, as of `updated_at` (unix seconds)."""

    issuer_id: str
    updated_at: Integer
    revoked_certs: tuple[str, ...]
    signature: HybridSignature


@decodable
class RevocationPush(WireObject, frozen=True):
    """The ids that an issuer has revoked since its previous push.

    `seq_no` counts from 1 without gaps: after a gap only a full list can be trusted. `pushed_at` is in unix seconds.
    """

    issuer_id: str
    seq_no: Positive
    entries: tuple[str, ...]
    pushed_at: Integer
    signature: HybridSignature


def revocation_sign_bytes(revoked: RevocationList) -> bytes:
    """Return the bytes that an issuer signs for a list, with the ids in their order."""
    return signed_text(revoked, "signature")


def revocation_push_sign_bytes(push: RevocationPush) -> bytes:
    """Return the bytes that an issuer signs for a push, with the ids in their order."""
    return signed_text(push, "signature")


def issue_revocation_list(issuer: HybridSigner, revoked_certs: Iterable[str], updated_at: int) -> RevocationList:
    """Return a signed list. `updated_at` is in unix seconds. Raises `TypeError` for ids that are a single text."""
    if isinstance(revoked_certs, str):
        raise TypeError("revoked_certs is one text, and several ids are asked for: write [cert_id]")
    revoked = RevocationList(issuer.id, updated_at, tuple(revoked_certs), UNSIGNED)
    return replace(revoked, signature=issuer.sign(revocation_sign_bytes(revoked)))


def issue_revocation_push(issuer: HybridSigner, seq_no: int, entries: Iterable[str], pushed_at: int) -> RevocationPush:
    """Return a signed push. `pushed_at` is in unix seconds."""
    push = RevocationPush(issuer.id, seq_no, tuple(entries), pushed_at, UNSIGNED)
    return replace(push, signature=issuer.sign(revocation_push_sign_bytes(push)))


def revocation_list_fault(revoked: RevocationList, issuer: HybridPublicKey) -> str | None:
    """Return why a list does not come from this issuer, or None."""
    if derive_id(issuer) != revoked.issuer_id:
        return "issuer_id does not match the key"
    return signature_fault(revocation_sign_bytes(revoked), revoked.signature, issuer)


def revocation_push_fault(push: RevocationPush, issuer: HybridPublicKey) -> str | None:
    """Return why a push does not come from this issuer, or None. The caller must check that it follows the previous
    push."""
    if derive_id(issuer) != push.issuer_id:
        return "issuer_id does not match the key"
    return signature_fault(revocation_push_sign_bytes(push), push.signature, issuer)
