"""Sealed state as a party that holds the key makes and reads it, and the retries of a client. No I/O but randomness."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any

import rfc8785

from accredit.base.clock import unix_seconds
from accredit.rounds import FlowState, KeyRing, state_binding
from accredit.rounds.sealing import NONCE_BYTES

FORMS: dict[str, Any] = {"elicitation": {}}
"""The capabilities of a client that can fill in forms."""


def again(params: dict[str, Any], state: object, leg: int = 1) -> dict[str, Any]:
    """The retry of a call to `honest_server`, after so many answers."""
    answer = {"action": "accept", "content": {"number": leg}}
    return {**params, "inputResponses": {"leg": answer}, "requestState": state}


class SealedCall:
    """The call that a state is for; `params` are those of its first leg."""

    def __init__(self, method: str, params: dict[str, Any], principal: Sequence[str] = ()) -> None:
        target: str = params["uri" if method == "resources/read" else "name"]
        digest = hashlib.sha256(rfc8785.dumps(params)).digest()
        self._binding = state_binding(principal, method, target, digest)

    def seal(self, state: FlowState, ring: KeyRing) -> str:
        """What the client gets."""
        return ring.seal(state, self._binding, secrets.token_bytes(NONCE_BYTES))

    def open(self, text: str, ring: KeyRing) -> FlowState:
        """What is in it."""
        return ring.open(text, self._binding, unix_seconds())
