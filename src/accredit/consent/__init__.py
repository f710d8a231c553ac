"""What a person consents to: the constraint that ties a certificate to certain calls. No I/O.

`call` has its codec, its evaluator, and its text for people.
"""

from accredit.consent.call import (
    CALL,
    CallTerms,
    evaluate_call,
    named_arguments,
    names_definition,
    this_call_only,
)

__all__ = ["CALL", "CallTerms", "evaluate_call", "named_arguments", "names_definition", "this_call_only"]
