"""Adds a proof to each request to an HTTP API, as an authentication class of httpx2 (`AccreditedHttp`). Its only I/O is
with a desk.

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
- [asks] With `hold`, a person is asked about a request that is refused (`asking`), if the refusal comes from the pinned
  verifier, names the one scope, and says which route the request is. If they allow it, it is sent once more. If not,
  the refusal is raised, with a note that says why. The ask shows the request itself, so an API that lies about its
  route gains nothing. Where another proxy asks the gateway, nobody is asked: the answer would not cover the body.
  An answer is read as a refusal only if it states a short length, and has no content or transfer coding.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import httpx2
import msgspec

from accredit.attest.canonical import WORKSPACES
from accredit.base.caching import RecentlyUsed
from accredit.base.text import excerpt
from accredit.base.values import decodable
from accredit.client.asking import asking_at_desk
from accredit.client.presenter import Challenge, ProofPresenter, RequestProofs
from accredit.consent.asks import AskedGateway
from accredit.errors import ConfigurationError, ProofRefused, RequestError
from accredit.http_api.call import HttpCall, Protocol
from accredit.http_api.routes import RouteTable
from accredit.http_api.targets import read_target
from accredit.http_api.wire import PROBLEM_TYPE, PROOF_HEADER, encode_proof_header
from accredit.jsonrpc.encode import to_json
from accredit.limits import MAX_KNOWN_TARGETS, MAX_REFUSAL_BYTES
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.refusals import GATEWAY_CHANGED

MAX_CHALLENGE_HEADER_BYTES = 8_192
"""How many bytes of a `WWW-Authenticate` header are read. A gateway's has some 300."""

_RATIFY = re.compile(r"(?:^|,)\s*Ratify\s+((?:[a-z_]+=\"(?:[^\"\\]|\\.)*\"(?:,\s*)?)+)", re.IGNORECASE)
_PARAMETER = re.compile(r"([a-z_]+)=\"((?:[^\"\\]|\\.)*)\"", re.IGNORECASE)
_PROTOCOLS: dict[str, Protocol] = {WORKSPACES["http"]: "http", WORKSPACES["authorize"]: "authorize"}
_SIGN_AGAIN = frozenset({"missing_ratify_proof", "ratify_scope_denied", "ratify_invalid", "ratify_challenge_required"})


class _Known(NamedTuple):
    """What is known of the requests of a method and path: their scope and, if a refusal has told it, their route."""

    scope: str
    route: str = ""


@decodable
class _Problem(msgspec.Struct):
    code: int
    detail: str
    data: dict[str, Any]


class AccreditedHttp(httpx2.Auth):
    """`httpx2.AsyncClient(auth=AccreditedHttp(presenter, "mail-gateway/mail"))`.

    `routes` maps routes (`GET /messages/{id}`, with the path that is sent) to their scopes. `asked_by_proxy` says that
    the API is behind a proxy that asks the gateway. It is needed only with `routes`.

    With `hold`, a person is asked at the desk of this user about a request that is refused ([asks]). The request waits
    for so many seconds. It needs an `AsyncClient`, and a presenter with `may_ask`.
    """

    requires_request_body = True

    def __init__(
        self,
        presenter: ProofPresenter,
        verifier_id: str,
        *,
        routes: Mapping[str, str] | None = None,
        asked_by_proxy: bool = False,
        hold: float = 0,
    ) -> None:
        """Raises `ValueError` if a request could match two of the routes."""
        self._presenter = presenter
        self._verifier_id = verifier_id
        self._scopes = dict(routes or {})
        self._table = RouteTable(self._scopes)
        self._protocol: Protocol = "authorize" if asked_by_proxy else "http"
        self._learned = RecentlyUsed[tuple[str, str], _Known](MAX_KNOWN_TARGETS)
        self._asking = asking_at_desk(presenter, "", hold)

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send a request with its proof, and again after refusals that ask for another proof. Raises `ProofRefused`
        ([pinned])."""
        return self._flow(request, RequestProofs(self._call(request)))

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Do as `auth_flow` for an `httpx2.Client`. Raises `ConfigurationError` with `hold`."""
        if self._asking is not None:
            raise ConfigurationError("nobody can be asked while a Client waits", "use an AsyncClient, or no hold")
        return super().sync_auth_flow(request)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Do as `auth_flow` for an `httpx2.AsyncClient`, and ask a person where that is wanted ([asks]). Raises
        `ProofRefused`, also if they do not allow the request."""
        await request.aread()
        response: httpx2.Response | None = None
        asked = self._asking is None
        while True:
            tries = RequestProofs(self._call(request))
            flow = self._flow(request, tries)
            with suppress(StopIteration):
                outgoing = next(flow)
                while True:
                    response = yield outgoing
                    if not asked and _may_be_problem(response):
                        await response.aread()
                    outgoing = flow.send(response)
            if asked or response is None or not await self._is_allowed(request, tries, response):
                return
            asked = True

    def _flow(self, request: httpx2.Request, tries: RequestProofs) -> Generator[httpx2.Request, httpx2.Response, None]:
        scope = self._scope(request)
        if scope is not None:
            self._prove(request, tries, scope)
        while True:
            response = yield request
            if response.status_code not in (401, 403) or not self._try_again(request, tries, read_challenge(response)):
                return

    def _try_again(self, request: httpx2.Request, tries: RequestProofs, told: Mapping[str, str]) -> bool:
        """Prepare to resend a refused request. Return False if the refusal is final. Raises `ProofRefused` for another
        verifier ([pinned])."""
        named, protocol = told.get("scope"), _PROTOCOLS.get(told.get("workspace", ""))
        if named is None or protocol is None or not tries.may_name(named):
            return False
        check_verifier("API", self._verifier_id, told.get("verifier", ""))
        if tries.scope is not None and tries.has_another(told.get("error")):
            self._prove(request, tries, tries.scope)
            return True
        is_new = named != tries.scope or protocol != self._protocol
        challenge = challenge_in(told.get("challenge")) if told.get("error") == "ratify_challenge_required" else None
        if not sign_again(told.get("error")) or (challenge is None and not is_new) or tries.challenged:
            return False
        if protocol != self._protocol:
            self._protocol = protocol
            tries.call = self._call(request)
        self._learned.put((request.method, request.url.path), _Known(named, tries.call.target))
        return self._prove(request, tries, named, challenge)

    def _scope(self, request: httpx2.Request) -> str | None:
        learned = self._learned.get((request.method, request.url.path))
        if learned is not None:
            return learned.scope
        try:
            match = self._table.find(request.method, read_target(request.url.raw_path))
        except RequestError:
            return None  # the gateway says what is wrong with it
        return self._scopes[match.route] if match is not None else None

    def _call(self, request: httpx2.Request) -> HttpCall:
        body = request.content if self._protocol == "http" else b""
        learned = self._learned.get((request.method, request.url.path))
        return HttpCall(
            method=request.method,
            target=learned.route if learned is not None else "",
            session_id="",
            digest=sha256(body).digest(),
            arguments={},
            proof=None,
            protocol=self._protocol,
            requested_path=request.url.raw_path.decode("ascii"),
        )

    def _prove(
        self, request: httpx2.Request, tries: RequestProofs, scope: str, challenge: Challenge | None = None
    ) -> bool:
        proof = self._presenter.prove_again(tries, scope, self._verifier_id, challenge=challenge)
        return put_proof(request, proof)

    async def _is_allowed(self, request: httpx2.Request, tries: RequestProofs, response: httpx2.Response) -> bool:
        """Ask a person about a refused request, and return whether they allow it ([asks]). Return False if nobody is to
        be asked. Raises `ProofRefused`."""
        told = read_challenge(response) if response.status_code in (401, 403) else {}
        problem = _problem_in(response)
        scope, is_ours = told.get("scope"), told.get("verifier") == self._verifier_id
        if self._asking is None or problem is None or scope is None or scope != tries.named or not is_ours:
            return False
        refusal = ProofRefused(problem.data, problem.detail, problem.code)
        route = refusal.data.get("target")
        is_same = (refusal.error, refusal.data.get("required_scope")) == (told.get("error"), scope)
        if _PROTOCOLS.get(told.get("workspace", "")) != "http" or not is_same or not isinstance(route, str):
            return False
        gateway = AskedGateway(self._verifier_id, f"{request.url.scheme}://{request.url.netloc.decode('ascii')}")
        params = _asked_params(request.url.raw_path.decode("ascii"), request.content)
        ask = self._asking.ask_about(request.method, route, params, refusal, gateway=gateway)
        self._learned.put((request.method, request.url.path), _Known(scope, route))
        return await self._asking.is_allowed(ask, refusal)


def _asked_params(target: str, body: bytes) -> dict[str, Any]:
    """Return the params of an ask about a request (`consent.asks`)."""
    params: dict[str, Any] = {"target": target, "body_sha256": sha256(body).hexdigest()}
    try:
        return {**params, "body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {**params, "body_size": len(body)}


def _may_be_problem(response: httpx2.Response) -> bool:
    """Return whether a response has the form of a gateway's refusal, and is short enough to be read. A response with a
    content or transfer coding does not count: it may be of any length, whatever its header says."""
    is_coded = "content-encoding" in response.headers or "transfer-encoding" in response.headers
    kind, length = response.headers.get("content-type", ""), response.headers.get("content-length", "")
    is_short = length.isascii() and length.isdecimal() and len(length) < 8 and int(length) <= MAX_REFUSAL_BYTES
    return response.status_code in (401, 403) and kind.encode() == PROBLEM_TYPE and is_short and not is_coded


def _problem_in(response: httpx2.Response) -> _Problem | None:
    """Return the refusal that a response holds, or None if it holds none."""
    if not _may_be_problem(response):
        return None
    try:
        return msgspec.json.decode(response.content, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def put_proof(request: Any, proof: Mapping[str, object] | None) -> bool:
    """Put a proof into a request's header, or remove the header if `proof` is None. Return whether it is there now."""
    request.headers.pop(PROOF_HEADER, None)
    if proof is not None:
        request.headers[PROOF_HEADER] = encode_proof_header(to_json(proof)).decode("ascii")
    return proof is not None


def sign_again(error: object) -> bool:
    """Return whether another proof may help after a refusal with this word."""
    return error in _SIGN_AGAIN


def check_verifier(kind: str, named: str, told: str) -> None:
    """Compare the verifier that the caller named with what an API or agent says it is. Raises `ProofRefused`
    ([pinned])."""
    if told != named:
        found = excerpt(told)
        text = f"this {kind} was to be {named}, and says that it is {found}; nothing was signed for it"
        raise ProofRefused({"error": "gateway_changed", "found": found}, f"gateway_changed: {text}", GATEWAY_CHANGED)


def challenge_in(text: object) -> Challenge | None:
    """Return a gateway's challenge from its text in base64, or None if the text is not one."""
    try:
        nonce = b64decode(text, validate=True) if isinstance(text, str) else b""
    except (Error, ValueError):
        return None
    return Challenge(nonce, 0, "") if len(nonce) == CHALLENGE_BYTES else None


def read_challenge(response: httpx2.Response) -> dict[str, str]:
    """Return the parameters of a response's `WWW-Authenticate: Ratify`, or an empty result if it has none."""
    value = response.headers.get("www-authenticate", "")[:MAX_CHALLENGE_HEADER_BYTES]
    found = _RATIFY.search(value)
    pairs = _PARAMETER.findall(found[1]) if found is not None else []
    return {name.lower(): re.sub(r"\\(.)", r"\1", text) for name, text in pairs}
