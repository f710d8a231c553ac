"""What a person says yes to: the constraint that ties a certificate to certain calls. No I/O.

`call` its codec, its evaluator, and what it allows in words.
"""

from accredit.consent.call import CALL, CallTerms, evaluate_call, named_arguments, this_call_only

__all__ = ["CALL", "CallTerms", "evaluate_call", "named_arguments", "this_call_only"]
