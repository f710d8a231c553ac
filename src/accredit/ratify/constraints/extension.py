"""Constraints that a deployment defines (Ratify section 7). No I/O.

Their parameters are null, booleans, strings, safe integers, arrays and objects; never floats or bytes. The evaluator
that is registered for the constraint's type decides. If there is none, the call is refused.
"""

from collections.abc import Callable, Mapping
from typing import cast

from msgspec import UNSET, Struct, UnsetType

from accredit.limits import MAX_SAFE_INTEGER
from accredit.ratify.constraints.base import Constraint, Outcome, denial, unverifiable
from accredit.ratify.facts import VerifierContext

MAX_JSON_NESTING_DEPTH = 16
"""The most levels in an object on the wire, the object itself counted as 1. The parameters of an extension may nest up
to that level (Ratify section 1)."""


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
        """Return why the parameters are not of the types above, or nest too deep; None if they are valid.

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
