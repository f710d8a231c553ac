"""A person's consent to calls: asks, answers, and the constraint that binds a certificate to certain calls. No I/O.

- `asks`: an agent's question. `answers`: the person's answer, and the conditions under which it allows the call.
- `offers`: the choices that the person has. `shown`: the call as the person sees it.
- `call`: the constraint: its codec, its evaluator, and its text for people.
"""

import typing

from accredit.base.deferred import names_of as _names_of

if typing.TYPE_CHECKING:
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
else:  # imported on first use: the constraint is judged where nobody asks or answers.
    __getattr__ = _names_of(
        __name__,
        {
            "Answer": "answers",
            "Ask": "asks",
            "CALL": "call",
            "CallTerms": "call",
            "chain_allowed": "answers",
            "check_ask": "asks",
            "evaluate_call": "call",
            "is_for_call": "call",
            "named_arguments": "call",
            "names_definition": "call",
            "names_other_gateway": "call",
            "read_answer": "answers",
            "read_ask": "asks",
            "read_code": "asks",
            "this_call_only": "call",
        },
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
