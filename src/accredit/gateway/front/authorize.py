"""Answers another proxy that asks whether it may forward a request to an API.

- [family] The request in question is read only from where the configured proxy puts it: nginx in `X-Original-Method`
  and `X-Original-URI`, Traefik and Caddy in `X-Forwarded-Method` and `X-Forwarded-Uri`, Envoy in the method and path of
  its question. A client could have sent such headers, too. So a question is refused if one is missing, repeated,
  spelled differently, or contradicted by another proxy's headers.
- [answer] 204 lets the proxy forward the request. 401 and 403 say in `WWW-Authenticate` what is required. 503 says that
  no decision was possible. No other status is used, since proxies take others for faults. Answers must not be cached.
- [no-body] The body is not seen. So the proof is for an empty body. It also covers this protocol's label, so no other
  protocol accepts it.
- [drill] A request for one of the gateway's own routes (`policy.drill`) that passes is answered with 403 and the word
  `drill_passed`, so that the proxy does not send it on.
- [identity] With `identity = "jwt"`, a header of the 204 tells on whose authority the request is made.

Anybody may ask, from a page of any origin and under any host name: the answer depends on a proof, and holds no secret.
"""

import logging
from collections.abc import Sequence

from accredit.base.log_events import log_event
from accredit.errors import AccreditError
from accredit.gateway.admission.api_gate import ApiGate, ApiRequest
from accredit.gateway.admission.identity import Identity
from accredit.gateway.call import Call
from accredit.gateway.forwarding import fields_by_plain_name
from accredit.gateway.front.api_answers import NO_STORE, refuse_request
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import JSON, RawHeaders
from accredit.gateway.settings import AUTHORIZE_PATH, Proxy
from accredit.http_api.targets import unclear
from accredit.jsonrpc.encode import to_json
from accredit.policy.drill import DRILL_PASSED, is_drill

_log = logging.getLogger("accredit.gateway.gate")
_ORIGINAL = (b"x-original-method", b"x-original-uri")
_FORWARDED = (b"x-forwarded-method", b"x-forwarded-uri")
_READ: dict[Proxy, tuple[bytes, bytes] | None] = {
    "nginx": _ORIGINAL,
    "traefik": _FORWARDED,
    "caddy": _FORWARDED,
    "envoy": None,
}
_OF_QUESTION = (*_ORIGINAL, *_FORWARDED)


class Authorize:
    """Answers about one API. `name` is the API's in `[servers]`."""

    def __init__(self, name: str, proxy: Proxy, gate: ApiGate, identity: Identity | None) -> None:
        self._prefix = (AUTHORIZE_PATH + name).encode("ascii")
        self._proxy: Proxy = proxy
        self._gate = gate
        self._identity = identity

    async def serve(self, exchange: Exchange) -> None:
        """Answer a proxy's question. Raises `ClientGone`."""
        call = Call()
        exchange.take_credentials()
        try:
            asked = self._asked(exchange)
            admitted = await self._gate.admit(asked, call)
            headers = self._told(call)
        except AccreditError as error:
            await refuse_request(exchange, error, self._gate, _status_for_proxies)
            return
        except Exception as error:  # fail closed: a proxy must not take our fault for anything else
            log_event(_log, logging.ERROR, "decision_failed", detail=type(error).__name__)
            await exchange.reply(503, headers=[NO_STORE])
            return
        if is_drill(admitted.method, admitted.target):
            await exchange.reply(403, to_json({"error": DRILL_PASSED}), [JSON, NO_STORE])
        else:
            await exchange.reply(204, headers=[NO_STORE, *headers])

    def _asked(self, exchange: Exchange) -> ApiRequest:
        """Return the request that is asked about ([family]). Raises `RequestError`."""
        head, fields = exchange.head, fields_by_plain_name(exchange.head.raw_headers)
        named = {name: _only(name, fields.pop(name, ())) for name in _OF_QUESTION}
        where = _READ[self._proxy]
        if where is None:
            path = head.raw_path.removeprefix(self._prefix)
            method, target = head.method.encode("ascii", "replace"), path + b"?" + head.query if head.query else path
        else:
            method, target = (named[name] for name in where)
        if not method or not target:
            raise unclear("the proxy does not say which request it asks about", status=403)
        for names in (_ORIGINAL, _FORWARDED):
            for name, own in zip(names, (method, target), strict=True):
                if named[name] not in (None, own):
                    raise unclear(f"{name.decode()} says another request than the proxy asks about", status=403)
        return ApiRequest(method.decode("latin-1"), target, fields, exchange.credentials)

    def _told(self, call: Call) -> RawHeaders:
        """Return the header that tells on whose authority the request is made ([identity]). Raises `RequestError`."""
        if self._identity is None:
            return []
        return self._identity.fields(call.speaker) or [(self._identity.header, b"")]  # a client's own must not stay


def _only(name: bytes, found: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return a header's value, or None. Raises `RequestError` if the header is repeated, or there under another
    spelling."""
    if len(found) > 1 or any(each != name for each, _ in found):
        raise unclear(f"{name.decode()} is there twice", status=403)
    return found[0][1] if found else None


def _status_for_proxies(status: int) -> int:
    """Return the status for a refusal, as one of those that proxies know ([answer])."""
    if status >= 500:
        return 503
    return 401 if status == 401 else 403
