"""Keys, delegations and proofs made by the real code, for tests of what reads them. No I/O."""

import secrets
from typing import Any

from msgspec.structs import replace

from accredit.keys import PrivateKeyFile, make_key
from accredit.ratify import DelegationCert, Grant, ProofBundle, issue_delegation, present
from accredit.ratify.constraints import Constraint

NOW = 1_800_000_000
DAY = 86_400
VOCABULARY = ("email:send", "email:read")


class World:
    """An owner (human), an agent and a sub-agent, and what they sign at `NOW` unless told otherwise."""

    def __init__(self) -> None:
        self.owner = make_key("human", "Owner", NOW - DAY)
        self.agent = make_key("agent", "Mailer", NOW - DAY)
        self.sub = make_key("agent", "Helper", NOW - DAY)

    def grant(
        self,
        *scope: str,
        issuer: PrivateKeyFile | None = None,
        to: PrivateKeyFile | None = None,
        constraints: tuple[Constraint, ...] = (),
        begins: int = NOW,
        ends: int = NOW + DAY,
        cert_id: str | None = None,
    ) -> DelegationCert:
        """One certificate; from the owner to the agent unless told otherwise."""
        grant = Grant(
            subject=(to or self.agent).public_key,
            cert_id=cert_id or secrets.token_hex(16),
            scope=scope,
            issued_at=begins,
            expires_at=ends,
            constraints=constraints,
        )
        return issue_delegation((issuer or self.owner).signer(), grant, vocabulary=VOCABULARY)

    def chain(self) -> tuple[DelegationCert, DelegationCert]:
        """The agent passes a part of what it holds on to the sub-agent. Leaf first."""
        parent = self.grant("comms:email:send", "comms:email:read", "identity:delegate")
        return self.grant("comms:email:send", issuer=self.agent, to=self.sub), parent


def prove(chain: tuple[DelegationCert, ...], holder: PrivateKeyFile, at: int = NOW, **more: Any) -> ProofBundle:
    """A proof by the chain's holder over a fresh challenge."""
    return present(chain, holder.signer(), secrets.token_bytes(32), at, **more)


def tampered(cert: DelegationCert, **changes: Any) -> DelegationCert:
    """The certificate changed after it was signed."""
    return replace(cert, **changes)
