"""What a constraint is, and the constraints that a deployment defines (Ratify section 7). No I/O.

The parameters of an extension are null, booleans, strings, safe integers, arrays and objects; never floats or bytes.
The evaluator that is registered for its type decides. If there is none, the call is refused.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from msgspec import UNSET, Struct, UnsetType

from accredit.base.values import decodable
from accredit.limits import MAX_SAFE_INTEGER
from accredit.ratify.canonical import number
from accredit.ratify.facts import VerifierContext
from accredit.ratify.results import IdentityStatus

MAX_JSON_NESTING_DEPTH = 16
"""The most levels in an object on the wire, the object itself counted as 1. The parameters of an extension may nest up
to that level (Ratify section 1)."""


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


@decodable
class Extension(Constraint, Struct, frozen=True, forbid_unknown_fields=True, rename={"name": "type"}):
    """A constraint of a type that the protocol does not define. The type should be a reversed domain name that you own
    (`com.example.office-hours`)."""

    name: str
    params: dict[str, object] | UnsetType = UNSET

    @property
    def type(self) -> str:
        """The kind's name on the wire."""
        return self.name

    def members(self) -> dict[str, object]:
        """Return the canonical form. `params` is in it only if it was given; an empty object counts as given."""
        return {"type": self.name} if self.params is UNSET else {"type": self.name, "params": self.params}

    def params_fault(self, level: int) -> str | None:
        """Return what is wrong with the parameters, or None: they are not JSON, they have a number that is not a safe
        integer, or they nest too deep.

        `level` is the depth of the object that holds this constraint's members, from 1.
        """
        return None if self.params is UNSET else _value_fault(self.params, level + 1)


Evaluator = Callable[[Extension, str, VerifierContext, int], object]
"""Evaluates one constraint: `evaluate(constraint, cert_id, context, now)`.

None or True allows the call. A text refuses it, and says why; one that begins with "constraint_unverifiable" says that
a fact is missing. Any other result refuses it, and so does an exception.
"""


def evaluate(
    constraint: Constraint, facts: VerifierContext, cert_id: str, now: int, evaluators: Mapping[str, Evaluator]
) -> Outcome | None:
    """Return why the constraint does not let the call pass, or None. Evaluators are asked only about extensions."""
    evaluator = evaluators.get(constraint.type) if isinstance(constraint, Extension) else None
    if evaluator is None or not isinstance(constraint, Extension):
        return constraint.judge(facts, cert_id, now)
    try:
        answer = evaluator(constraint, cert_id, facts, now)
    except Exception as error:  # deployment code: any exception refuses the call
        return denial(f"evaluator failed: {error}")
    if answer is None or answer is True:
        return None
    if isinstance(answer, str) and answer.startswith("constraint_unverifiable"):
        return unverifiable(answer.removeprefix("constraint_unverifiable").lstrip(": "))
    return denial(answer if isinstance(answer, str) else "denied by the evaluator")


def _value_fault(value: object, level: int) -> str | None:
    if value is None or isinstance(value, bool | str):
        return None
    if type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return None
    if not isinstance(value, dict | list):
        return "expected null, a boolean, a string, a safe integer, an array or an object"
    if level > MAX_JSON_NESTING_DEPTH:
        return f"nested more than {MAX_JSON_NESTING_DEPTH} deep"
    items = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
    return next(filter(None, (_value_fault(item, level + 1) for item in items)), None)
