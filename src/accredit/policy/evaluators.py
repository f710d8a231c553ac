"""Who judges constraints that the protocol does not define: the deployment's evaluators, and our own. No I/O.

What an evaluator raises is a no, and its text, which could quote anything, goes to nobody.
"""

from collections.abc import Mapping
from types import MappingProxyType

from accredit.consent import CALL, evaluate_call
from accredit.errors import ConfigurationError
from accredit.ratify import Evaluator, Extension, VerifierContext
from accredit.ratify.constraints import BUILT_IN_TYPES

OWN_EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({CALL: evaluate_call})
"""Those that every gateway and every guard has."""


def with_own(given: Mapping[str, Evaluator]) -> dict[str, Evaluator]:
    """The evaluators of a deployment, by the constraint's type, and our own. Raises `ConfigurationError`."""
    for name, evaluator in given.items():
        if name in OWN_EVALUATORS or name in BUILT_IN_TYPES:
            raise ConfigurationError(f"the constraint {name!r} is judged already", "name another type, or leave it out")
        if not callable(evaluator):
            raise ConfigurationError(
                f"the evaluator of {name!r} can't be called", "give a function (constraint, cert_id, context, now)"
            )
    return {name: _fenced(evaluator) for name, evaluator in given.items()} | dict(OWN_EVALUATORS)


def _fenced(evaluator: Evaluator) -> Evaluator:
    def evaluate(constraint: Extension, cert_id: str, context: VerifierContext, now: int) -> object:
        try:
            return evaluator(constraint, cert_id, context, now)
        except Exception as error:
            return f"the evaluator failed: {type(error).__name__}"

    return evaluate
