"""A request to an HTTP API in the form in which it is decided: its target, its arguments, and what a proof is bound to.
No I/O.

- [binding] A proof covers the method, the target as it was sent, the bytes of the body, the scope, the gateway with the
  server's name, and the protocol. So it is valid for this request alone.
- [protocol] Each protocol has a label of its own (`WORKSPACES`); MCP has none. A proof for one protocol is never valid
  for another.
- [one-header] The proof is in one header, in one spelling. Two headers, or text that is not base64url without padding,
  count as an invalid proof.
- [path-kept-short] In what is kept of a proof, the SHA-256 of the path and the query replaces both: they may hold data
  that belongs in no record.
- [constrained] A certificate for exactly this request (`dev.accredit.call` with `params_sha256`) covers both the target
  as it was sent and the body. Where a proxy asks, the body is not seen, and the certificate covers the target only.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from msgspec import Raw

from accredit.attest.canonical import PATH_DIGEST, WORKSPACES, SignedContext
from accredit.consent.call import request_digest
from accredit.http_api.facts import arguments
from accredit.http_api.routes import RouteMatch
from accredit.http_api.targets import Target
from accredit.http_api.wire import PROOF_HEADER, decode_proof_header
from accredit.policy.catalog import Entry
from accredit.policy.guarded_call import ApiCall
from accredit.ratify.signable import build_session_context, operation_context_hash

Protocol = Literal["http", "authorize"]
"""How a request arrives: at the gateway in front of the API, or in a question from another proxy."""


class HttpCall(ApiCall, frozen=True, dict=True):
    """A request. `digest` is the SHA-256 of its body; a missing body counts as an empty one. `requested_path` is the
    target as it was sent."""

    protocol: Protocol = "http"
    requested_path: str = ""

    @property
    def proof_place(self) -> str:
        """Where a client sends a proof."""
        return f"the header {PROOF_HEADER}"

    @property
    def word_to_hosts(self) -> str:
        """Always empty: no MCP host calls an HTTP API."""
        return ""

    @property
    def workspace(self) -> str:
        """The label of the protocol."""
        return WORKSPACES[self.protocol]

    def request_hash(self, scope: str) -> bytes:
        """Return the hash of the request ([binding])."""
        return request_hash(self.method, self.requested_path, self.digest, scope)

    def call_digest(self) -> bytes:
        """Return the digest by which a certificate names exactly this request ([constrained])."""
        return request_digest(self.requested_path, self.digest.hex() if self.protocol == "http" else "")

    def signed_context(self, verifier_id: str, agent_id: str, scope: str) -> SignedContext:
        """Return the parts of this call that a proof covers, with the path's digest ([path-kept-short])."""
        path = PATH_DIGEST + sha256(self.requested_path.encode()).hexdigest()
        return SignedContext(agent_id, "", self.method, self.digest, path, scope, "", "", verifier_id, self.workspace)

    def _context(self, verifier_id: str, agent_id: str, request_hash: bytes) -> bytes:
        return session_context(self.protocol, verifier_id, agent_id, request_hash)


def request_hash(method: str, requested_path: str, digest: bytes, scope: str) -> bytes:
    """Return the hash of a request, for which a challenge is issued."""
    return operation_context_hash(scope, method, "", requested_path, digest)


def session_context(protocol: Protocol, verifier_id: str, agent_id: str, request_hash: bytes) -> bytes:
    """Return the context that a proof for a request signs ([binding])."""
    return build_session_context(verifier_id, WORKSPACES[protocol], agent_id, request_hash=request_hash)


def http_call(
    protocol: Protocol,
    method: str,
    target: Target,
    match: RouteMatch | None,
    entry: Entry | None,
    proofs: Sequence[bytes],
    body: bytes = b"",
    *,
    json_body: bool = False,
    maybe_form: bool = False,
    prefix: str = "",
) -> HttpCall:
    """Return a request as a call. `proofs` are the values of its proof headers. `match` is its route, and `entry` what
    the catalog requires for that; both are None if the configuration has no such route. `json_body` says that the body
    is declared as JSON and as nothing else, `maybe_form` that the API may read it as a form. `prefix` preceded the
    target in the path that was sent."""
    facts = {}
    if match is not None and entry is not None:
        facts = arguments(entry.facts, match, target.query, body if json_body else None, maybe_form=maybe_form)
    return HttpCall(
        method=method,
        target=match.route if match is not None else "",
        session_id="",
        digest=sha256(body).digest(),
        arguments=facts,
        proof=_proof(proofs),
        protocol=protocol,
        requested_path=prefix + target.text,
    )


def _proof(values: Sequence[bytes]) -> Raw | None:
    """Return the proof's JSON: None without a header, empty if the headers are not a valid proof ([one-header])."""
    if not values:
        return None
    return Raw((decode_proof_header(values[0]) if len(values) == 1 else None) or b"")
