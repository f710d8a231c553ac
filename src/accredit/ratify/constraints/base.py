"""What every kind of constraint has in common (Ratify section 7). No I/O."""

from typing import NamedTuple

from msgspec import Struct

from accredit.ratify.canonical import number
from accredit.ratify.facts import VerifierContext
from accredit.ratify.results import IdentityStatus


class Outcome(NamedTuple):
    """Why a constraint does not let a call pass."""

    status: IdentityStatus
    detail: str


def denied(detail: str) -> Outcome:
    """The constraint forbids the call."""
    return Outcome(IdentityStatus.CONSTRAINT_DENIED, detail)


def unverifiable(detail: str) -> Outcome:
    """A fact that the constraint needs is not known, so the call is not allowed."""
    return Outcome(IdentityStatus.CONSTRAINT_UNVERIFIABLE, f"constraint_unverifiable: {detail}")


class Constraint:
    """A condition that a certificate puts on every call made with it. By itself, one that nobody can judge."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The kind's name on the wire."""
        return ""

    def members(self) -> dict[str, object]:
        """The canonical form (section 3), ready for `canonical`. Raises `WireError` for a number without one."""
        return {"type": self.type}

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """None when the call may pass, otherwise why not. The time is in unix seconds."""
        return Outcome(IdentityStatus.CONSTRAINT_UNKNOWN, f'constraint_unknown: unknown constraint type "{self.type}"')


class BuiltIn(Constraint, Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """A kind that the protocol defines. Its annotations are its schema on the wire, its tag its name there."""

    @property
    def type(self) -> str:
        """The kind's name on the wire."""
        return str(self.__struct_config__.tag)

    def members(self) -> dict[str, object]:
        """Exactly the kind's members, zeros included."""
        members: dict[str, object] = {"type": self.type}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            members[name] = value if isinstance(value, str) else number(value)
        return members
