"""What a person consents to: asks, answers, and the constraint that binds a certificate to certain calls. No I/O.

`asks` an agent's question, `answers` the reply and when it allows the call; `offers` the person's choices, `shown` what
the person sees. `call` the constraint: its codec, its evaluator, its text for people.
"""

from accredit.consent.answers import Answer, chain_allowed, read_answer
from accredit.consent.asks import Ask, check_ask, read_ask, read_code
from accredit.consent.call import (
    CALL,
    CallTerms,
    evaluate_call,
    is_for_call,
    named_arguments,
    names_definition,
    names_other_gateway,
    this_call_only,
)

__all__ = [
    "CALL",
    "Answer",
    "Ask",
    "CallTerms",
    "chain_allowed",
    "check_ask",
    "evaluate_call",
    "is_for_call",
    "named_arguments",
    "names_definition",
    "names_other_gateway",
    "read_answer",
    "read_ask",
    "read_code",
    "this_call_only",
]
