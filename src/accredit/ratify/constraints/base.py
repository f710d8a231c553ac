"""The interface that every kind of constraint shares (Ratify section 7). No I/O."""

from typing import NamedTuple

from msgspec import Struct

from accredit.ratify.canonical import number
from accredit.ratify.facts import VerifierContext
from accredit.ratify.results import IdentityStatus


class Outcome(NamedTuple):
    """Why a constraint does not let a call pass."""

    status: IdentityStatus
    detail: str


def denial(detail: str) -> Outcome:
    """Return the outcome of a constraint that forbids the call."""
    return Outcome(IdentityStatus.CONSTRAINT_DENIED, detail)


def unverifiable(detail: str) -> Outcome:
    """Return the outcome of a constraint that needs an unknown fact: the call is not allowed."""
    return Outcome(IdentityStatus.CONSTRAINT_UNVERIFIABLE, f"constraint_unverifiable: {detail}")


class Constraint:
    """A condition that a certificate puts on every call made with it. This base class itself stands for an unknown
    kind, which refuses every call."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The kind's name on the wire."""
        return ""

    def members(self) -> dict[str, object]:
        """Return the canonical form (Ratify section 3), ready for `canonical`. Raises `WireError` for a number that has
        none."""
        return {"type": self.type}

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Return None if the call may pass, otherwise why not. The last argument is the time in unix seconds."""
        return Outcome(IdentityStatus.CONSTRAINT_UNKNOWN, f'constraint_unknown: unknown constraint type "{self.type}"')


class BuiltIn(Constraint, Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """A kind that the protocol defines. The class's annotations are its schema on the wire, and its tag is its name
    there."""

    @property
    def type(self) -> str:
        """The kind's name on the wire."""
        return str(self.__struct_config__.tag)

    def members(self) -> dict[str, object]:
        """Return all members of the constraint, also those that are zero."""
        members: dict[str, object] = {"type": self.type}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            members[name] = value if isinstance(value, str) else number(value)
        return members
