"""Adds a proof to each request to an HTTP API, as an authentication class of httpx2 (`AccreditedHttp`). No I/O of its
own.

- [pinned] A proof is made only for the verifier that the caller named: the gateway's id, a slash, and the API's name.
  If the API claims another name, no proof is made.
- [assumed-scope] If the caller gave the API's routes, the first request has a proof for its route's scope. Otherwise it
  has none, and the refusal names the scope, which is remembered by method and path.
- [one-scope] For one request the API may name one scope: by naming more it could explore the delegations.
- [challenge] After `ratify_challenge_required` the gateway's challenge is signed.
- [next-delegation] After a refusal of the delegation itself, the next one that covers the scope is presented, as in
  calls of MCP. If a challenge was needed, the request is first sent without a proof, for another challenge.
- [tries] A request gets `MAX_PROOFS_OF_REQUEST` proofs at most. Then the refusal stands.
- [whole-body] The body is read whole before it is sent: the proof covers its bytes. If the API is behind another proxy
  that asks the gateway (the refusal then names the label `accredit/authorize/v1`), it covers an empty body.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Generator, Mapping
from hashlib import sha256
from typing import Any

import httpx2

from accredit.attest.canonical import WORKSPACES
from accredit.base.caching import RecentlyUsed
from accredit.base.text import excerpt
from accredit.client.presenter import Challenge, ProofPresenter, Tries
from accredit.errors import ProofRefused, RequestError
from accredit.http_api.call import HttpCall, Protocol
from accredit.http_api.routes import RouteTable
from accredit.http_api.targets import read_target
from accredit.http_api.wire import PROOF_HEADER, encode_proof_header
from accredit.jsonrpc.encode import to_json
from accredit.limits import MAX_KNOWN_TARGETS
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.refusals import GATEWAY_CHANGED

MAX_CHALLENGE_HEADER_BYTES = 8_192
"""How many bytes of a `WWW-Authenticate` header are read. A gateway's has some 300."""

_RATIFY = re.compile(r"(?:^|,)\s*Ratify\s+((?:[a-z_]+=\"(?:[^\"\\]|\\.)*\"(?:,\s*)?)+)", re.IGNORECASE)
_PARAMETER = re.compile(r"([a-z_]+)=\"((?:[^\"\\]|\\.)*)\"", re.IGNORECASE)
_PROTOCOLS: dict[str, Protocol] = {WORKSPACES["http"]: "http", WORKSPACES["authorize"]: "authorize"}
_SIGN_AGAIN = frozenset({"missing_ratify_proof", "ratify_scope_denied", "ratify_invalid", "ratify_challenge_required"})


class AccreditedHttp(httpx2.Auth):
    """`httpx2.AsyncClient(auth=AccreditedHttp(presenter, "mail-gateway/mail"))`.

    `routes` maps routes (`GET /messages/{id}`, with the path that is sent) to their scopes. `asked_by_proxy` says that
    the API is behind a proxy that asks the gateway. It is needed only with `routes`.
    """

    requires_request_body = True

    def __init__(
        self,
        presenter: ProofPresenter,
        verifier_id: str,
        *,
        routes: Mapping[str, str] | None = None,
        asked_by_proxy: bool = False,
    ) -> None:
        """Raises `ValueError` if a request could match two of the routes."""
        self._presenter = presenter
        self._verifier_id = verifier_id
        self._scopes = dict(routes or {})
        self._table = RouteTable(self._scopes)
        self._protocol: Protocol = "authorize" if asked_by_proxy else "http"
        self._learned = RecentlyUsed[tuple[str, str], str](MAX_KNOWN_TARGETS)

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send a request with its proof, and again after refusals that ask for another proof. Raises `ProofRefused`
        ([pinned])."""
        tries, scope = Tries(self._call(request)), self._scope(request)
        if scope is not None:
            self._prove(request, tries, scope)
        while True:
            response = yield request
            if response.status_code not in (401, 403) or not self._try_again(request, tries, read_challenge(response)):
                return

    def _try_again(self, request: httpx2.Request, tries: Tries, told: Mapping[str, str]) -> bool:
        """Prepare a request to be sent again after a refusal. Return False if the refusal is final. Raises
        `ProofRefused` ([pinned])."""
        named, protocol = told.get("scope"), _PROTOCOLS.get(told.get("workspace", ""))
        if named is None or protocol is None or not tries.may_name(named):
            return False
        check_verifier("API", self._verifier_id, told.get("verifier", ""))
        if tries.scope is not None and tries.has_another(told.get("error")):
            self._prove(request, tries, tries.scope)
            return True
        is_new = named != tries.scope or protocol != self._protocol
        challenge = _challenge_in(told) if told.get("error") == "ratify_challenge_required" else None
        if not sign_again(told.get("error")) or (challenge is None and not is_new) or tries.challenged:
            return False
        if protocol != self._protocol:
            self._protocol = protocol
            tries.call = self._call(request)
        self._learned.put((request.method, request.url.path), named)
        return self._prove(request, tries, named, challenge)

    def _scope(self, request: httpx2.Request) -> str | None:
        learned = self._learned.get((request.method, request.url.path))
        if learned is not None:
            return learned
        try:
            match = self._table.find(request.method, read_target(request.url.raw_path))
        except RequestError:
            return None  # the gateway says what is wrong with it
        return self._scopes[match.route] if match is not None else None

    def _call(self, request: httpx2.Request) -> HttpCall:
        body = request.content if self._protocol == "http" else b""
        return HttpCall(
            method=request.method,
            target="",
            session_id="",
            digest=sha256(body).digest(),
            arguments={},
            proof=None,
            protocol=self._protocol,
            requested_path=request.url.raw_path.decode("ascii"),
        )

    def _prove(self, request: httpx2.Request, tries: Tries, scope: str, challenge: Challenge | None = None) -> bool:
        proof = self._presenter.prove_again(tries, scope, self._verifier_id, challenge=challenge)
        return put_proof(request, proof)


def put_proof(request: Any, proof: Mapping[str, object] | None) -> bool:
    """Put a proof into a request's header, or none. Return whether there is one."""
    request.headers.pop(PROOF_HEADER, None)
    if proof is not None:
        request.headers[PROOF_HEADER] = encode_proof_header(to_json(proof)).decode("ascii")
    return proof is not None


def sign_again(error: object) -> bool:
    """Return whether a refusal by this word may be over with another proof."""
    return error in _SIGN_AGAIN


def check_verifier(kind: str, named: str, told: str) -> None:
    """Compare the verifier that the caller named with what an API or agent says it is. Raises `ProofRefused`
    ([pinned])."""
    if told != named:
        found = excerpt(told)
        text = f"this {kind} was to be {named}, and says that it is {found}; nothing was signed for it"
        raise ProofRefused({"error": "gateway_changed", "found": found}, f"gateway_changed: {text}", GATEWAY_CHANGED)


def challenge_of(nonce: bytes) -> Challenge | None:
    """Return a gateway's challenge; None if these bytes can be none."""
    return Challenge(nonce, 0, "") if len(nonce) == CHALLENGE_BYTES else None


def read_challenge(response: httpx2.Response) -> dict[str, str]:
    """Return the parameters of a response's `WWW-Authenticate: Ratify`, or an empty result if it has none."""
    value = response.headers.get("www-authenticate", "")[:MAX_CHALLENGE_HEADER_BYTES]
    found = _RATIFY.search(value)
    pairs = _PARAMETER.findall(found[1]) if found is not None else []
    return {name.lower(): re.sub(r"\\(.)", r"\1", text) for name, text in pairs}


def _challenge_in(told: Mapping[str, str]) -> Challenge | None:
    try:
        return challenge_of(b64decode(told.get("challenge", ""), validate=True))
    except (Error, ValueError):
        return None
