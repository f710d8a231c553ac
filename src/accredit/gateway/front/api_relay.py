"""Requests to an HTTP API behind the gateway: decided, then forwarded with their answers.

- [whole-body] The body is read whole, within its bound, before the request is decided. It is forwarded byte for byte.
- [prefix] The API's prefix on the gateway is removed from the path before routes are matched and the request is
  forwarded. The proof is bound to the whole path.
- [headers] The proof, tokens for the gateway, and hop-by-hop fields are removed. So are fields that say where a request
  goes or who sent it (`forwarding`). `Cookie`, `If-*` and `Range` are forwarded only if the configuration names them.
- [outcome] The outcome, which is the answer's status, is on record before the client sees any of the answer. The
  answer's body is not judged, but it is bounded: if its head declares more, the client gets a refusal in its place.
  Otherwise it is streamed, and cut off where it exceeds the bound.
- [own-word] If an answer of the API asks for Ratify's proof in `WWW-Authenticate`, that is removed: only the gateway
  may ask, since clients then sign again.
- [private] An answer is marked as private, because a shared cache does not check proofs.
- [problem] A refusal is a problem document, which must not be cached.
- [drill] A request for one of the gateway's own routes (`policy.drill`) that passes is answered with 204, and not
  forwarded.
"""

from accredit.attest import Outcome
from accredit.errors import AccreditError, RequestError
from accredit.gateway.admission.api_gate import ApiGate, ApiRequest
from accredit.gateway.call import Call
from accredit.gateway.forwarding import Forwarding, fields_by_plain_name
from accredit.gateway.front.api_answers import AUTHENTICATE, NO_STORE, refuse_request
from accredit.gateway.front.endpoint import check_source
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.passthrough import METHODS, pass_on
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import turn
from accredit.gateway.upstream.http.client import Answer
from accredit.gateway.upstream.http.sending import Sender
from accredit.gateway.upstream.reply import WhileConnected
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.policy.drill import is_drill

_SHARED = (b"public", b"s-maxage", b"private")
_CACHE_CONTROL = b"cache-control"
_TARGETED = (b"-cache-control", b"surrogate-control", b"edge-control")
"""How the names of headers end that some shared caches obey instead of `Cache-Control`: `CDN-Cache-Control` (RFC 9213)
and its like, and two of before that."""


class ApiRelay:
    """Serves one API. `base` is the path of its URL, without a slash at the end."""

    def __init__(
        self,
        settings: GatewaySettings,
        gate: ApiGate,
        sender: Sender,
        forwarding: Forwarding,
        base: bytes,
    ) -> None:
        self._settings = settings
        self._prefix = settings.path
        self._gate = gate
        self._sender = sender
        self._forwarding = forwarding
        self._base = base

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request. Raises `ClientGone`."""
        call = Call()
        try:
            check_source(exchange, self._settings)
            if exchange.head.method not in METHODS:
                raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
            body = await exchange.body(self._settings.max_request_bytes)
            asked = self._asked(exchange, body)
            await turn(len(body))  # its members may be read
            try:
                admitted = await self._gate.admit(asked, call)
                exchange.vouched, exchange.speaker = True, call.speaker
                if is_drill(admitted.method, admitted.target):
                    await self._settle(call, 204)
                    await exchange.reply(204, headers=[NO_STORE])
                else:
                    await self._forward(exchange, asked, call)
            except BaseException as error:
                await call.open_calls.close(error)
                raise
        except AccreditError as error:
            if exchange.started:
                raise
            await refuse_request(exchange, error, self._gate)

    def _asked(self, exchange: Exchange, body: bytes) -> ApiRequest:
        """Return the request in the form that the gate takes ([prefix])."""
        head = exchange.head
        target = head.raw_path[len(self._prefix) :]
        target = target + b"?" + head.query if head.query else target
        fields = fields_by_plain_name(head.raw_headers)
        return ApiRequest(head.method, target, fields, exchange.credentials, body, self._prefix)

    async def _forward(self, exchange: Exchange, asked: ApiRequest, call: Call) -> None:
        """Forward an allowed request, and its answer ([headers] to [private])."""
        headers = self._forwarding.api_to_upstream(exchange.head.raw_headers)
        prepared = self._sender.client.prepare(asked.method, headers, target=self._base + asked.target)
        with exchange.rooms.calls.held(exchange), WhileConnected(exchange):
            answer = await self._sender.exchange(exchange, prepared, asked.body or b"")
            try:
                answer.check_length(self._settings.max_response_bytes)
                await self._settle(call, answer.status)
                await self._pass_on(exchange, answer)
            finally:
                answer.close()

    async def _settle(self, call: Call, http_status: int) -> None:
        """Record the outcome ([outcome]). Raises `ProofRefused` if that is impossible."""
        status = "ok" if http_status < 400 else "error"
        await call.open_calls.settle(Outcome(status=status, detail=f"HTTP {http_status}"))

    async def _pass_on(self, exchange: Exchange, answer: Answer) -> None:
        headers = self._forwarding.unread_to_client(answer.headers)
        headers = [pair for pair in headers if pair[0] != AUTHENTICATE or b"ratify" not in pair[1].lower()]
        await pass_on(exchange, answer, _private(headers), self._settings)


def _private(headers: RawHeaders) -> RawHeaders:
    """Return an answer's headers with `Cache-Control: private` ([private]). The directives and headers for shared
    caches are removed; all others stay."""
    said = [each.strip() for name, value in headers if name == _CACHE_CONTROL for each in value.split(b",")]
    kept = [each for each in said if each and not each.lower().startswith(_SHARED)]
    others = [pair for pair in headers if pair[0] != _CACHE_CONTROL and not pair[0].endswith(_TARGETED)]
    return [*others, (_CACHE_CONTROL, b", ".join([b"private", *kept]))]
