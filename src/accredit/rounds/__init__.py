"""Multi-round-trip requests (2026-07-28, basic/patterns/mrtr): a server answers "I need input first", and the client
sends the request again with the input.

- For a server: `requests` asks for input, `forms` checks the fields of a form, `answers` reads the answers.
- For a client: `results` reads the requests, and makes the params of the retry. `options` has the options of a call and
  the context of its handlers. The loop itself is in `accredit.client`.
- For a gateway: `sealing` protects the state of servers that do not protect it themselves.
"""

import typing

from accredit.base.deferred import names_of as _names_of
from accredit.rounds.sealing import FlowState, KeyRing, parse_keys, state_binding

if typing.TYPE_CHECKING:
    from accredit.rounds.answers import (
        Elicited,
        Missing,
        Rooted,
        Sampled,
        accepted_content,
        input_response,
        partition_input_responses,
    )
    from accredit.rounds.options import InputContext, LegOptions, RoundsOptions
    from accredit.rounds.requests import create_message, elicit, elicit_url, input_required, list_roots
    from accredit.rounds.results import (
        is_input_required_result,
        read_input_required,
        with_input_required,
        with_retry_params,
    )

__all__ = [
    "Elicited",
    "FlowState",
    "InputContext",
    "KeyRing",
    "LegOptions",
    "Missing",
    "Rooted",
    "RoundsOptions",
    "Sampled",
    "accepted_content",
    "create_message",
    "elicit",
    "elicit_url",
    "input_required",
    "input_response",
    "is_input_required_result",
    "list_roots",
    "parse_keys",
    "partition_input_responses",
    "read_input_required",
    "state_binding",
    "with_input_required",
    "with_retry_params",
]

# Imported on first use: the gateway only seals, and the protocol's types, which the others need, take 5 MiB and 80 ms.
__getattr__ = _names_of(
    __name__,
    {
        "accepted_content": "answers",
        "create_message": "requests",
        "elicit": "requests",
        "elicit_url": "requests",
        "Elicited": "answers",
        "input_required": "requests",
        "input_response": "answers",
        "InputContext": "options",
        "is_input_required_result": "results",
        "LegOptions": "options",
        "list_roots": "requests",
        "Missing": "answers",
        "partition_input_responses": "answers",
        "read_input_required": "results",
        "Rooted": "answers",
        "RoundsOptions": "options",
        "Sampled": "answers",
        "with_input_required": "results",
        "with_retry_params": "results",
    },
)
