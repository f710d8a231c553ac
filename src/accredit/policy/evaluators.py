"""Evaluators of constraints that the protocol does not define: the deployment's, and our own. No I/O.

If an evaluator raises, the call is refused. The text of its error could quote anything, so only the error's type is
shown.
"""

from collections.abc import Mapping
from types import MappingProxyType

from accredit.consent.call import CALL, evaluate_call
from accredit.errors import ConfigurationError
from accredit.ratify import Evaluator, Extension, VerifierContext
from accredit.ratify.constraints import BUILT_IN_TYPES

OWN_EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({CALL: evaluate_call})
"""Our own evaluators, which every gateway and every guard has, by the constraint's type."""


def with_own(given: Mapping[str, Evaluator]) -> dict[str, Evaluator]:
    """Return the deployment's evaluators together with our own, by the constraint's type. Raises
    `ConfigurationError`."""
    for name, evaluator in given.items():
        if name in OWN_EVALUATORS or name in BUILT_IN_TYPES:
            raise ConfigurationError(f"the constraint {name!r} is judged already", "name another type, or leave it out")
        if not callable(evaluator):
            raise ConfigurationError(
                f"the evaluator of {name!r} can't be called", "give a function (constraint, cert_id, context, now)"
            )
    return {name: _catch_failures(evaluator) for name, evaluator in given.items()} | dict(OWN_EVALUATORS)


def _catch_failures(evaluator: Evaluator) -> Evaluator:
    def evaluate(constraint: Extension, cert_id: str, context: VerifierContext, now: int) -> object:
        try:
            return evaluator(constraint, cert_id, context, now)
        except Exception as error:
            return f"the evaluator failed: {type(error).__name__}"

    return evaluate
