"""An owner, an agent and a gateway that trusts the owner: what they sign, and the settings. No I/O."""

import base64
import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Any

import rfc8785
from msgspec import Struct
from tests.world.delegations import DAY

from accredit.base.clock import unix_seconds
from accredit.gateway.settings import GatewaySettings, HttpUpstream, ProofSettings, StdioUpstream
from accredit.keys import PrivateKeyFile, make_key
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decision import Policy
from accredit.policy.facts import Facts
from accredit.ratify import (
    CertificateCache,
    DelegationCert,
    Grant,
    build_session_context,
    encode_proof_bundle,
    issue_delegation,
    operation_context_hash,
    present,
)
from accredit.ratify.constraints import Constraint

GATEWAY = "mail-gateway"
TARGETS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/result", "tasks/update", "tasks/cancel"), "taskId"),
}
CATALOG = Catalog(
    tools={
        "list_inbox": Entry(scope="email:read"),
        "send_email": Entry(scope="email:send", accepts=("comms:email:send",), marked_sensitive=True),
        "pay": Entry(scope="payments:send", facts=Facts({"amount": "/amount", "currency": "/currency"})),
    }
)
SCOPES = {"list_inbox": "email:read", "send_email": "email:send", "pay": "payments:send"}


class Signed(Struct, frozen=True):
    """What of a proof a test may want to change."""

    bound: bool = True
    gateway: str = GATEWAY
    session: str = ""
    challenge: bytes | None = None
    age: int = 0
    scope: str | None = None


class Trust:
    """The owner's key is pinned, the agent has its own."""

    def __init__(self) -> None:
        now = unix_seconds()
        self.owner = make_key("human", "Owner", now - DAY)
        self.agent = make_key("agent", "Mailer", now - DAY)
        self.stranger = make_key("human", "Owner", now - DAY)

    def chain(
        self,
        *scope: str,
        issuer: PrivateKeyFile | None = None,
        constraints: tuple[Constraint, ...] = (),
        known: tuple[str, ...] = (),
        begins: int = -DAY,
        ends: int = DAY,
    ) -> tuple[DelegationCert, ...]:
        """The owner's word for the agent; times are relative to now. `known` are scopes of the server's own."""
        grant = Grant(
            subject=self.agent.public_key,
            cert_id=secrets.token_hex(16),
            scope=scope or ("email:read", "email:send", "payments:send", "mcp:resource", "mcp:prompt"),
            issued_at=unix_seconds() + begins,
            expires_at=unix_seconds() + ends,
            constraints=constraints,
        )
        vocabulary = ("email:read", "email:send", "mcp:resource", "mcp:prompt", "mcp:tool", *known)
        return (issue_delegation((issuer or self.owner).signer(), grant, vocabulary=vocabulary),)

    def proof(
        self,
        chain: Sequence[DelegationCert],
        method: str,
        params: dict[str, Any],
        signed: Signed = Signed(),  # noqa: B008 - frozen
    ) -> dict[str, Any]:
        """A proof for one call, as it goes into `_meta.ratify_proof`."""
        context = self._context(method, params, signed) if signed.bound else b""
        challenge = signed.challenge or secrets.token_bytes(32)
        bundle = present(chain, self.agent.signer(), challenge, unix_seconds() - signed.age, session_context=context)
        return json.loads(encode_proof_bundle(bundle))

    def _context(self, method: str, params: dict[str, Any], signed: Signed) -> bytes:
        if method in TARGETS:
            target = params[TARGETS[method]]
            covered = {name: value for name, value in params.items() if name != "_meta"}
            digest = hashlib.sha256(rfc8785.dumps(covered)).digest()
            default = {"resources/read": "mcp:resource", "prompts/get": "mcp:prompt"}.get(method, "")
            scope = signed.scope if signed.scope is not None else SCOPES.get(target, default)
            request_hash = operation_context_hash(scope, method, target, "", digest)
        else:
            request_hash = operation_context_hash("", method)
        return build_session_context(signed.gateway, "", self.agent.id, signed.session, "", request_hash=request_hash)

    def policy(self, **changes: Any) -> Policy:
        """The gateway's policy."""
        catalog = changes.pop("catalog", CATALOG)
        given: dict[str, Any] = {
            "verifier_id": GATEWAY,
            "roots": {self.owner.public_key: "Owner"},
            "catalog": catalog,
            "vocabulary": catalog.vocabulary(),
            "cert_cache": CertificateCache(),
        }
        return Policy(**(given | changes))

    def settings(
        self,
        upstream: HttpUpstream | StdioUpstream,
        *,
        required: bool = True,
        filter_tools: bool = True,
        policy: dict[str, Any] | None = None,
        **gateway: Any,
    ) -> GatewaySettings:
        """The gateway's settings."""
        proofs = ProofSettings(self.policy(**(policy or {})), required, filter_tools)
        return GatewaySettings(upstream, proofs=proofs, **gateway)


def challenge_in(error: dict[str, Any]) -> bytes:
    """The challenge of a refusal that asks for one."""
    return base64.b64decode(error["data"]["_meta"]["ratify_challenge"]["challenge"], validate=True)
