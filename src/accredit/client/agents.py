"""Adds a proof to each request to an agent behind a gateway (`AccreditedA2A`), as a transport of httpx or httpx2. Its
only I/O is with a transport and a desk.

A2A clients, such as the official SDK's, send requests with an HTTP client of these libraries. Their interceptors see no
challenge, since it comes in a response. So the transport adds the proofs, and repeats a request that was refused for
lack of one.

- [pinned] A proof is made only for the verifier that the caller named: the gateway's id, a slash, and the agent's name.
  An agent that says it is another one gets none.
- [own-url] A proof is added only to requests to the agent's URL that the gateway would accept as A2A 1.0.
- [one-scope] A proof is bound to the agent's scope. If the caller gave none, the first message has no proof, and the
  refusal names the scope. If a later refusal names another scope, no proof is made for that one.
- [all-scopes] A refusal may name all scopes that a skill needs, once. Then a delegation that covers them all is
  presented, if there is one. Scopes in the refusal of a request that needs none are ignored: such requests may reach
  the agent, which could have written the refusal itself.
- [challenge] After `ratify_challenge_required` the gateway's challenge is signed.
- [next-delegation] After a refusal of the delegation itself, the next one that covers the scopes is presented, as in
  calls of MCP. If a challenge was needed, the request is first sent without a proof, for another challenge.
- [tries] A request gets `MAX_PROOFS_OF_REQUEST` proofs at most. Then the refusal stands.
- [asks] With `hold`, a person is asked about a message that is refused (`asking`), if the refusal names the scopes that
  were named before. If they allow it, it is sent once more. If not, the refusal is raised, with a note that says why.
"""

from typing import Any, Protocol

import httpx2
import msgspec

from accredit.a2a.call import call_of
from accredit.a2a.requests import read_request
from accredit.base.caching import RecentlyUsed
from accredit.base.steps import at_one_go
from accredit.base.values import decodable, items_of, members_of, text_of
from accredit.client.asking import asking_at_desk
from accredit.client.http_apis import challenge_in, check_verifier, put_proof, sign_again
from accredit.client.presenter import MAX_PROOFS_OF_REQUEST, Challenge, ProofPresenter, RequestProofs
from accredit.client.proving import scope_in
from accredit.consent.asks import AskedGateway
from accredit.errors import ProofRefused, RequestError
from accredit.limits import MAX_KNOWN_TARGETS
from accredit.policy.agent_call import AgentCall
from accredit.policy.lists import VERIFIER
from accredit.refusals import is_own_code

MAX_AGENT_REFUSAL_BYTES = 65_536
"""How many bytes of an answer are read as a refusal. The gateway's have some 600."""


class AsyncTransport(Protocol):
    """A transport of `httpx.AsyncClient` or `httpx2.AsyncClient`."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, and return the response once its head has come."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class AccreditedA2A(httpx2.AsyncBaseTransport):
    """`httpx.AsyncClient(transport=AccreditedA2A(httpx.AsyncHTTPTransport(), presenter, "mail-gateway/helper", url))`.

    `url` is the agent's on the gateway, as its card names it. `scope` is what the agent's messages need; without it,
    the gateway is asked.

    With `hold`, a person is asked at the desk of this user about a message that is refused ([asks]). The message waits
    for so many seconds. The presenter needs `may_ask`.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        presenter: ProofPresenter,
        verifier_id: str,
        url: str,
        *,
        scope: str | None = None,
        hold: float = 0,
    ) -> None:
        self._transport = transport
        self._presenter = presenter
        self._verifier_id = verifier_id
        self._url = url.rstrip("/")
        self._scope = scope
        self._needed = RecentlyUsed[str, tuple[str, ...]](MAX_KNOWN_TARGETS)
        self._asking = asking_at_desk(presenter, url, hold)

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request with its proof, and again as refusals ask for it. Raises `ProofRefused` ([pinned]), also if a
        person was asked and does not allow the message."""
        call = await self._call(request)
        if call is None:
            return await self._transport.handle_async_request(request)
        tries, asked = RequestProofs(call), False
        self._prove(request, call, tries)
        while True:
            response = await self._transport.handle_async_request(request)
            refused = await _refusal_in(response)
            if refused is None:
                return response
            if self._try_again(request, call, tries, refused):
                continue
            if asked or not await self._is_allowed(call, refused):
                return response
            tries, asked = RequestProofs(call), True
            self._prove(request, call, tries)

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    async def _call(self, request: Any) -> AgentCall | None:
        """Return the call that a request makes, or None if no proof is made for it ([own-url])."""
        if request.method != "POST" or str(request.url).rstrip("/") != self._url:
            return None
        body = await request.aread()
        versions = [request.headers["a2a-version"].encode()] if "a2a-version" in request.headers else []
        try:
            return call_of(at_one_go(read_request(body, versions)))
        except RequestError:
            return None  # the gateway says what is wrong with it

    def _prove(self, request: Any, call: AgentCall, tries: RequestProofs, challenge: Challenge | None = None) -> bool:
        needs_scope = call.sends or call.changes_task
        if needs_scope and self._scope is None:
            return False
        scope = self._scope or "" if needs_scope else ""
        also = (self._needed.get(call.target) or ()) if call.sends else ()
        proof = self._presenter.prove_again(tries, scope, self._verifier_id, challenge=challenge, also=also)
        return put_proof(request, proof)

    def _try_again(self, request: Any, call: AgentCall, tries: RequestProofs, refused: ProofRefused) -> bool:
        """Prepare a request to be sent again after a refusal. Return False if the refusal is final. Raises
        `ProofRefused` ([pinned])."""
        meta = members_of(refused.data.get("_meta"))
        issued = members_of(meta.get("ratify_challenge"))
        if verifier := text_of(issued.get("verifier_id")) or text_of(meta.get(VERIFIER)):
            check_verifier("agent", self._verifier_id, verifier)
        if tries.proofs >= MAX_PROOFS_OF_REQUEST:
            return False
        if tries.has_another(refused.error):
            self._prove(request, call, tries)
            return True
        if not sign_again(refused.error) or tries.challenged:
            return False
        had, (scope, scopes) = (self._scope, self._needed.peek(call.target)), _scopes_in(refused)
        if (call.sends or call.changes_task) and self._scope is None:
            self._scope = scope
        if call.sends and scopes and self._needed.peek(call.target) is None:
            self._needed.put(call.target, scopes)
        challenge = challenge_in(issued.get("challenge"))
        if challenge is None and had == (self._scope, self._needed.peek(call.target)):
            return False
        return self._prove(request, call, tries, challenge)

    async def _is_allowed(self, call: AgentCall, refusal: ProofRefused) -> bool:
        """Ask a person about a refused message, and return whether they allow it ([asks]). Return False if nobody is to
        be asked. Raises `ProofRefused`."""
        scopes = self._needed.peek(call.target) or ()
        if self._asking is None or not call.sends or _scopes_in(refusal) != (self._scope, scopes):
            return False
        gateway = AskedGateway(self._verifier_id, self._url)
        ask = self._asking.ask_about(
            call.method, call.target, dict(call.covered), refusal, gateway=gateway, scopes=scopes
        )
        return await self._asking.is_allowed(ask, refusal)


class _Error(msgspec.Struct):
    code: int
    data: dict[str, Any]
    message: str = ""


@decodable
class _Refusal(msgspec.Struct):
    error: _Error


async def _refusal_in(response: Any) -> ProofRefused | None:
    """Return the refusal in an answer, or None if the answer is no refusal. A stream is left unread."""
    if "json" not in response.headers.get("content-type", ""):
        return None
    body: bytes = await response.aread()
    if len(body) > MAX_AGENT_REFUSAL_BYTES:
        return None
    try:
        error = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ProofRefused(error.data, error.message, error.code) if is_own_code(error.code) else None


def _scopes_in(refused: ProofRefused) -> tuple[str | None, tuple[str, ...]]:
    """Return the one scope that a refusal names, and all that the message needs, if it names these."""
    several = map(scope_in, items_of(refused.data.get("required_scopes")))
    return scope_in(refused.data.get("required_scope")), tuple(each for each in several if each is not None)
