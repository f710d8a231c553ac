"""Multi-round-trip requests (2026-07-28, basic/patterns/mrtr): a server answers "I need input first". No I/O.

For a server: `requests` what it asks, `forms` what a form can hold, `answers` reading what came back. For a client:
`results` reading what is asked, and the retry's params · `driver` the loop, as a state machine that says what to do in
`steps`. For a gateway: `sealing`, which protects the state of servers that do not.
"""

from accredit.rounds.answers import (
    Elicited,
    Missing,
    Rooted,
    Sampled,
    accepted_content,
    input_response,
    partition_input_responses,
)
from accredit.rounds.driver import RoundsOptions, drive
from accredit.rounds.requests import create_message, elicit, elicit_url, input_required, list_roots
from accredit.rounds.results import is_input_required_result, read_input_required, with_retry_params
from accredit.rounds.sealing import FlowState, KeyRing, parse_keys, state_binding
from accredit.rounds.steps import InputContext, LegOptions

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
    "drive",
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
    "with_retry_params",
]
