"""Signed lists of revoked certificates, and pushed changes to them (Ratify section 2). No I/O."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from accredit.ratify.canonical import canonical
from accredit.ratify.hybrid import HybridPrivateKey, HybridPublicKey, HybridSignature, signature_fault
from accredit.ratify.wire import WireObject

UNSIGNED = HybridSignature(b"", b"")
"""What an object holds before it is signed."""


class RevocationList(WireObject, frozen=True):
    """The ids of all certificates that an issuer has revoked, as of `updated_at` (unix seconds)."""

    issuer_id: str
    updated_at: int
    revoked_certs: tuple[str, ...]
    signature: HybridSignature = UNSIGNED


class RevocationPush(WireObject, frozen=True):
    """The ids that an issuer has revoked since its push before.

    `seq_no` counts from 1 without gaps: after a gap only a full list can be trusted. `pushed_at` is in unix seconds.
    """

    issuer_id: str
    seq_no: Annotated[int, Meta(ge=1)]
    entries: tuple[str, ...]
    pushed_at: int
    signature: HybridSignature = UNSIGNED


def revocation_sign_bytes(revoked: RevocationList) -> bytes:
    """What an issuer signs of a list; the ids in their order."""
    members = {
        "issuer_id": revoked.issuer_id,
        "revoked_certs": revoked.revoked_certs,
        "updated_at": revoked.updated_at,
    }
    return canonical(members)


def revocation_push_sign_bytes(push: RevocationPush) -> bytes:
    """What an issuer signs of a push; the ids in their order."""
    members = {
        "entries": push.entries,
        "issuer_id": push.issuer_id,
        "pushed_at": push.pushed_at,
        "seq_no": push.seq_no,
    }
    return canonical(members)


def sign_revocation_list(revoked: RevocationList, issuer: HybridPrivateKey) -> RevocationList:
    """The list with its issuer's signature."""
    return replace(revoked, signature=issuer.sign(revocation_sign_bytes(revoked)))


def sign_revocation_push(push: RevocationPush, issuer: HybridPrivateKey) -> RevocationPush:
    """The push with its issuer's signature."""
    return replace(push, signature=issuer.sign(revocation_push_sign_bytes(push)))


def revocation_list_fault(revoked: RevocationList, issuer: HybridPublicKey) -> str | None:
    """Why a list is not signed by the key, or None. That the key is the right one is the caller's to know."""
    return signature_fault(revocation_sign_bytes(revoked), revoked.signature, issuer)


def revocation_push_fault(push: RevocationPush, issuer: HybridPublicKey) -> str | None:
    """Why a push is not signed by the key, or None. That it follows the one before is the caller's to know."""
    return signature_fault(revocation_push_sign_bytes(push), push.signature, issuer)
