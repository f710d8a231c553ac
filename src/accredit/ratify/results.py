"""What a verifier returns (Ratify section 2). No I/O."""

from enum import StrEnum
from typing import NoReturn

from msgspec import Struct


class IdentityStatus(StrEnum):
    """All verdicts that there are. Only `authorized_agent`, also called `VALID`, lets a call pass."""

    AUTHORIZED_AGENT = "authorized_agent"
    VALID = "authorized_agent"
    VERIFIED_HUMAN = "verified_human"
    """Reserved by the protocol: no verification returns it."""
    EXPIRED = "expired"
    REVOKED = "revoked"
    SCOPE_DENIED = "scope_denied"
    CONSTRAINT_DENIED = "constraint_denied"
    CONSTRAINT_UNVERIFIABLE = "constraint_unverifiable"
    CONSTRAINT_UNKNOWN = "constraint_unknown"
    INVALID_SCOPE = "invalid_scope"
    DELEGATION_NOT_AUTHORIZED = "delegation_not_authorized"
    INVALID = "invalid"
    """For every structural or cryptographic fault."""
    UNAUTHORIZED = "unauthorized"
    """Reserved by the protocol: no verification returns it."""

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. A status is a text, and every text but "" would be true."""
        raise TypeError("a status is neither true nor false: ask for result.valid")


class VerifyResult(Struct, frozen=True, kw_only=True):
    """The outcome of one verification.

    `granted_scope` is sorted; it is empty unless the result is `valid`. `human_id` and `agent_id` are set if the proof
    is valid, expired or revoked. `root_checked` says whether the chain was checked to end in a root that the caller
    trusts. If it was not, `human_id` is the id of an unknown signer. A result can't be used as a truth value.
    """

    valid: bool
    identity_status: IdentityStatus
    human_id: str = ""
    agent_id: str = ""
    granted_scope: list[str] = []
    error_reason: str = ""
    root_checked: bool = False

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. An object would always be true, and `if not verify_bundle(...)` would let refused bundles
        pass."""
        raise TypeError("a VerifyResult is neither true nor false: ask for result.valid")

    @property
    def principal_id(self) -> str:
        """The id of the human whose delegation is the first of the chain."""
        return self.human_id


class Refusal(Exception):
    """Raised by a step that refuses. It never leaves a verification: the caller gets its `result` instead."""

    def __init__(
        self, status: IdentityStatus, reason: str, *, human_id: str = "", agent_id: str = "", root_checked: bool = False
    ) -> None:
        super().__init__(reason)
        self.result = VerifyResult(
            valid=False,
            identity_status=status,
            error_reason=reason,
            human_id=human_id,
            agent_id=agent_id,
            root_checked=root_checked,
        )


def invalid(code: str, text: str) -> Refusal:
    """Return a refusal with the status `invalid`, whose reason starts with `code`."""
    return Refusal(IdentityStatus.INVALID, f"{code}: {text}")


def build_refusal(status: IdentityStatus, text: str) -> Refusal:
    """Return a refusal whose reason starts with its status."""
    return Refusal(status, f"{status}: {text}")
