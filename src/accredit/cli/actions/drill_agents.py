"""Agents that live for one drill, and what they show. No I/O but this machine's randomness and clock.

Their keys are in memory, and gone with the process. What is signed for them ends after `DRILL_SECONDS`, and is good for
the gateway's own tools (`policy.drill`) or for less: whoever had one of these keys could call nothing else with it.
"""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.keys import make_key
from accredit.limits import CLOCK_LEAD_SECONDS, DRILL_BEGINS_SECONDS, DRILL_SECONDS
from accredit.policy import guarded_call_from_values
from accredit.policy.drill import DRILL_SCOPE, DRILLS
from accredit.ratify import (
    Constraint,
    DelegationCert,
    Grant,
    HybridSigner,
    ProofBundle,
    issue_delegation,
    present,
)
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.tokens import SessionGrant, issue_session_token

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_METHOD = "tools/call"
_ID_BYTES = 16


class Agent:
    """An agent with a key of its own, and the `token` that it shows ("" for none)."""

    def __init__(self) -> None:
        self._key = make_key("agent", "Drill", unix_seconds())
        self.signer = self._key.signer()
        self.token = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.signer.id

    def granted(
        self,
        issuer: HybridSigner,
        scope: str = DRILL_SCOPE,
        *,
        constraints: tuple[Constraint, ...] = (),
        ended: bool = False,
    ) -> DelegationCert:
        """Return a delegation to it; one that has `ended` already is good for nothing."""
        now = unix_seconds()
        begins = now - (2 * DRILL_SECONDS if ended else DRILL_BEGINS_SECONDS)
        grant = Grant(
            subject=self.signer.public_key,
            cert_id=secrets.token_hex(_ID_BYTES),
            scope=(scope,),
            issued_at=begins,
            expires_at=now - DRILL_SECONDS if ended else now + DRILL_SECONDS,
            constraints=constraints,
        )
        return issue_delegation(issuer, grant)


class Proof(Struct, frozen=True, kw_only=True):
    """What of a proof differs from that of a call which passes. `age` is that of its challenge, in seconds."""

    gateway_id: str
    bound: bool = True
    session: str = ""
    challenge: bytes = b""
    age: int = CLOCK_LEAD_SECONDS

    def of(self, agent: Agent, delegation: DelegationCert, params: Mapping[str, object]) -> ProofBundle:
        """Return the agent's proof of one call."""
        call = guarded_call_from_values(_METHOD, params, self.session, None)
        context = call.session_context(self.gateway_id, agent.id, DRILL_SCOPE) if self.bound else b""
        challenge = self.challenge or secrets.token_bytes(CHALLENGE_BYTES)
        at = unix_seconds() - (0 if self.challenge else self.age)
        return present((delegation,), agent.signer, challenge, at, session_context=context)


class TokenMaker(Struct, frozen=True):
    """Makes session tokens with the key of an issuer that the gateway knows, or with another one in its name."""

    key: "EllipticCurvePrivateKey"
    issuer: str
    audience: str

    def token(
        self, agent: Agent, *, audience: str = "", ended: bool = False, tools: tuple[str, ...] = tuple(sorted(DRILLS))
    ) -> str:
        """Return a token of an agent's for the gateway's own tools."""
        now = unix_seconds()
        grant = SessionGrant(
            issuer=self.issuer,
            subject=agent.id,
            audience=audience or self.audience,
            issued_at=now - 2 * DRILL_SECONDS if ended else now,
            expires_at=now - DRILL_SECONDS if ended else now + DRILL_SECONDS,
            token_id=secrets.token_hex(_ID_BYTES),
            allowed_tools=tools,
        )
        return issue_session_token(self.key, grant)
