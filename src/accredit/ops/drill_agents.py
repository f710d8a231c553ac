"""Agents that live for one drill, and their credentials. No I/O but randomness and the clock.

Their keys exist only in memory. Delegations and tokens for them expire after `DRILL_SECONDS` and cover at most the
gateway's own tools (`policy.drill`), so a stolen key could call nothing else.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.keys import make_key
from accredit.limits import CLOCK_LEAD_SECONDS
from accredit.policy.drill import DRILL_ROUTE, DRILL_SCOPE, DRILLS, SENSITIVE_DRILL_ROUTE
from accredit.policy.guarded_call import GuardedCall, guarded_call_from_values
from accredit.ratify import Constraint, DelegationCert, Grant, HybridSigner, ProofBundle, issue_delegation, present
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.tokens.issued import SessionGrant, issue_session_token

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DRILL_SECONDS = 300
"""For how many seconds the delegations and tokens of `accredit drill` are valid: its calls take seconds, and clocks may
differ by some."""
DRILL_BEGINS_SECONDS = 60
"""How many seconds before now their validity begins: a gateway's clock may be behind."""


_METHOD = "tools/call"
_OWN = (*sorted(DRILLS), DRILL_ROUTE, SENSITIVE_DRILL_ROUTE)
_ID_BYTES = 16


class Agent:
    """An agent with a key of its own. `token` is its session token, or ""."""

    def __init__(self) -> None:
        self._key = make_key("agent", "Drill", unix_seconds())
        self.signer = self._key.signer()
        self.token = ""

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.signer.id

    def granted(
        self,
        issuer: HybridSigner,
        scope: str = DRILL_SCOPE,
        *,
        constraints: tuple[Constraint, ...] = (),
        ended: bool = False,
    ) -> DelegationCert:
        """Issue a delegation to this agent; with `ended`, one that has expired."""
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


def mcp_call(params: Mapping[str, object], session: str) -> GuardedCall:
    """Return the call of a tool that an agent signs."""
    return guarded_call_from_values(_METHOD, params, session, None)


class Proof(Struct, frozen=True, kw_only=True):
    """A kind of proof: how it differs from a valid one, if it does. `age` is the age of its challenge, in seconds.
    `call_of` makes the call to sign from params and a session's id."""

    gateway_id: str
    bound: bool = True
    session: str = ""
    challenge: bytes = b""
    age: int = CLOCK_LEAD_SECONDS
    call_of: Callable[[Mapping[str, object], str], GuardedCall] = mcp_call

    def of(self, agent: Agent, delegation: DelegationCert, params: Mapping[str, object]) -> ProofBundle:
        """Return the agent's proof for one call, with the faults of this kind."""
        call = self.call_of(params, self.session)
        context = call.session_context(self.gateway_id, agent.id, DRILL_SCOPE) if self.bound else b""
        challenge = self.challenge or secrets.token_bytes(CHALLENGE_BYTES)
        at = unix_seconds() - (0 if self.challenge else self.age)
        return present((delegation,), agent.signer, challenge, at, session_context=context)


class TokenMaker(Struct, frozen=True):
    """Makes session tokens in the name of an issuer: valid ones with that issuer's key, forged ones with another."""

    key: "EllipticCurvePrivateKey"
    issuer: str
    audience: str

    def token(self, agent: Agent, *, audience: str = "", ended: bool = False, tools: tuple[str, ...] = _OWN) -> str:
        """Make an agent's token for the gateway's own tools."""
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
