"""Whose a task is, and what is remembered of the call that made it. No I/O.

A task belongs to the principal, the agent and the token's subject of the call that made it, all of them. What the
server calls it is its name for its owner as well; `place` tells servers apart whose ids mean nothing elsewhere.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from accredit.limits import MAX_TASK_FACTS_BYTES
from accredit.policy.facts import CONTEXT_NAMES
from accredit.tokens import VerifiedToken

_decode_facts = msgspec.json.Decoder(dict[str, str | float]).decode


def owner_of(principal_id: str, agent_id: str, token: VerifiedToken | None) -> bytes:
    """What stands for an owner: 32 bytes. Without a proof, `principal_id` and `agent_id` are ""."""
    subject = ("token", token.issuer, token.subject) if token is not None else ()
    return _digest("accredit task owner 1", principal_id, agent_id, *subject)


def task_key(place: str, id: str) -> bytes:
    """What a task is remembered under: 32 bytes."""
    return _digest("accredit task 1", place, id)


def encode_facts(facts: Mapping[str, str | float]) -> bytes:
    """The facts of a call, to be remembered; none where they are too many."""
    text = msgspec.json.encode(facts)
    return text if len(text) <= MAX_TASK_FACTS_BYTES else b"{}"


def decode_facts(text: bytes) -> dict[str, str | float]:
    """The facts that were remembered, of those that there are."""
    return {name: value for name, value in _decode_facts(text).items() if name in CONTEXT_NAMES}


def _digest(*parts: str) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
