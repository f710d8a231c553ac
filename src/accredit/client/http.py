"""The HTTP connection to a gateway, for transports on top of it. Opens sockets; logs nothing itself.

When a connection breaks, the SDK's transport ends, with every request in it. So failures become answers here:

- [unreachable] If a gateway can't be reached, or does not answer in time, that one request gets a JSON-RPC error. The
  error's data names the address, and what is wrong with its certificate.
- [broken-body] If a body breaks off, only its own request ends.
- [needs-token] A 401 or 403 that asks for a token becomes a refusal in the usual words (docs/reference/refusals.md).
  If its body says that a proof is accepted instead, it is passed on unchanged.
- [lost-session] If the gateway does not know the session, that becomes `SESSION_LOST`. Gateways say so by 404, older
  servers by 400 and a text.
- [size] An answer that is too long becomes an error as well, and so does a refusal with too many values. A stream may
  be long, but none of its events may. No body may be compressed: we ask for `identity`.
- [beyond-bounds] Values that the server has chosen (a session, a place in a stream, a revision) are sent back in
  headers even if they are not ASCII.

The session id of the legacy era is noted: proofs are bound to it. In the stateless era (MCP from 2026-07-28 on) none is
sent, and none is read.
"""

import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import httpx2
from mcp_types import ErrorData

from accredit.base.text import excerpt
from accredit.base.values import members_of
from accredit.client.messages import unavailable
from accredit.client.sdk import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT
from accredit.errors import FrameError
from accredit.jsonrpc.arrays import check_values
from accredit.jsonrpc.encode import METHOD_NOT_FOUND
from accredit.jsonrpc.methods import is_modern
from accredit.limits import MAX_ANSWER_BYTES, MAX_REFUSAL_BYTES, MAX_TYPED_VALUES
from accredit.refusals import CHALLENGE_REQUIRED, INVALID_TOKEN, MISSING, MISSING_TOKEN, SESSION_LOST

SILENCE_SECONDS = 3_600.0
"""How long a gateway may send no message while a request waits, by default: an hour, because tools may run long."""


BROKEN_OFF = "the gateway broke its answer off"
NOT_REACHED = "can't be reached: is it running, and is the URL right?"
NOT_THERE = "name the endpoint that `accredit serve` prints; of several servers name one: URL/NAME"
HOW_TO_START = "start it with `accredit up`, or `accredit serve --config FILE`, which print its URL"

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
ANSWERED = frozenset({MISSING, CHALLENGE_REQUIRED})
"""The codes of refusals that a client answers by a proof, whatever else the gateway would take."""
_OF_A_SESSION = re.compile(r"session|not initialized", re.IGNORECASE)


class GatewayHttp(httpx2.AsyncClient):
    """A client for one gateway. `token` is sent as `Authorization: Bearer` and shown nowhere else; `headers` are sent
    with every request.

    `timeout` is how many seconds the gateway may be silent during a request. `on_trouble` is called for each message
    that did not reach the gateway, with a line for the log. `on_lost` is called when the session is lost.
    `has_no_endpoint` says that the last message was refused in the way of a server without streamable HTTP. `trusted`
    holds trusted certificates, instead of the system's. With `is_session` every request belongs to a session, whatever
    its headers say.
    """

    def __init__(
        self,
        token: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        on_trouble: Callable[[str], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        with_token = {"Authorization": f"Bearer {token}"} if token else {}
        read = SILENCE_SECONDS if timeout is None else timeout
        super().__init__(
            headers={**(headers or {}), **with_token},
            timeout=httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=read),
            transport=transport,
            verify=True if trusted is None else trusted,
        )
        self.session_id = ""
        self.lost = False
        self.has_no_endpoint = False
        self.is_session = False
        self._with_token = "authorization" in self.headers
        self._on_trouble = on_trouble
        self._on_lost = on_lost

    def build_request(
        self, method: str, url: httpx2.URL | str, *, headers: Any = None, **options: Any
    ) -> httpx2.Request:
        """Build a request. Its headers may be beyond ASCII ([beyond-bounds]): httpx2 raises for those unless it is
        given an encoding."""
        return super().build_request(method, url, headers=httpx2.Headers(headers, encoding="utf-8"), **options)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request. Never raises for network errors."""
        response = await self._answer(request, **options)
        if not stream:
            try:
                await response.aread()
            except httpx2.StreamError as error:
                return self._unavailable(request, 502, excerpt(str(error)))
            finally:
                await response.aclose()
        return response

    async def _answer(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request. Return the response unread, with a bound on its body."""
        request.headers["accept-encoding"] = "identity"
        in_stateless_era = is_modern(request.headers.get(_VERSION_HEADER, ""))
        if in_stateless_era:  # this era has no sessions
            for name in (_SESSION_HEADER, "last-event-id"):
                request.headers.pop(name, None)
        if request.method == "GET":  # a long-lived stream may be silent for a long time
            times = cast("dict[str, float]", request.extensions.get("timeout", {}))
            request.extensions = {**request.extensions, "timeout": {**times, "read": MCP_DEFAULT_SSE_READ_TIMEOUT}}
        try:
            response = await super().send(request, stream=True, **options)
        except httpx2.TimeoutException:
            return self._unavailable(request, 504, "did not answer in time")
        except httpx2.RequestError as error:
            return self._unavailable(request, 502, _why_not(error))
        if response.status_code >= 400:
            return await self._refusal(request, response)
        self.has_no_endpoint = False
        if not in_stateless_era:
            self.session_id = response.headers.get(_SESSION_HEADER, self.session_id)
        if _is_coded(response):
            await response.aclose()
            return self._unavailable(request, 502, "answers in a compressed form that it was not asked for")
        response.encoding = "utf-8"  # as JSON and event streams are, whatever charset the answer names
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _Fenced(response.stream, None if is_stream else MAX_ANSWER_BYTES)
        return response

    async def _refusal(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Translate a refusal that [needs-token] or [lost-session] describes. Any other stays as it is, but gets a text
        of ours if it has none."""
        status, body = response.status_code, await _body(response)
        error = _error_in(body)
        if "www-authenticate" in response.headers and status in (401, 403) and error.get("code") not in ANSWERED:
            return self._unauthorized(request, status)
        unknown = status == 404 and error.get("code") != METHOD_NOT_FOUND
        self.has_no_endpoint = request.method == "POST" and (status == 405 or unknown or (status == 400 and not error))
        if self._is_of_session(request, status, error):
            self.lost = True
            if self._on_lost is not None:
                self._on_lost()
            return _error(request, status, SESSION_LOST, "Session not found", error or None)
        if self._on_trouble is not None and str(error.get("message")).startswith("Not found: "):
            text = f"{excerpt(str(error['message']))}: {NOT_THERE}"
            self._on_trouble(text)
            return _error(request, status, cast("int", error["code"]), text, NOT_THERE)
        if error:
            return httpx2.Response(status, headers={"content-type": "application/json"}, content=body, request=request)
        text = f"the gateway at {_place(request)} answers with HTTP status {status}"
        if status in (404, 405):  # a probe of another era reads this as "no such method"
            return _error(request, status, METHOD_NOT_FOUND, "Not Found", text)
        return _error_response(request, status, unavailable(text))

    def _is_of_session(self, request: httpx2.Request, status: int, error: Mapping[str, object]) -> bool:
        in_session = self.is_session or _SESSION_HEADER in request.headers
        if status == 404:
            return in_session and error.get("code") != METHOD_NOT_FOUND
        return status == 400 and _OF_A_SESSION.search(str(error.get("message", ""))) is not None

    def _unavailable(self, request: httpx2.Request, status: int, what: str) -> httpx2.Response:
        text = f"the gateway at {_place(request)} {what}"
        if what == NOT_REACHED and self._on_trouble is not None:  # else who called says how to start it
            text = f"{text} If it is not, {HOW_TO_START}"
        if self._on_trouble is not None and request.method != "GET":
            self._on_trouble(text)
        return _error_response(request, status, unavailable(text))

    def _unauthorized(self, request: httpx2.Request, status: int) -> httpx2.Response:
        if status == 403:
            text = "insufficient_scope: the gateway does not let this token do this"
            return _error(request, status, INVALID_TOKEN, text, {"error": "insufficient_scope"})
        if self._with_token:
            text = "invalid_token: the gateway does not accept this token"
            return _error(request, status, INVALID_TOKEN, text, {"error": "invalid_token"})
        text = "missing_token: the gateway asks for a token"
        return _error(request, status, MISSING_TOKEN, text, {"error": "missing_token"})


class _Fenced(httpx2.AsyncByteStream):
    """A body that breaks off or is too long: it then raises the one error that the SDK's transport expects."""

    def __init__(self, inner: Any, max_bytes: int | None) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = bytearray()  # pieces of one byte would take fifty each
        try:
            async for piece in self._inner:
                if self._max_bytes is None:
                    yield piece
                    continue
                whole += piece
                if len(whole) > self._max_bytes:
                    raise httpx2.StreamError("the gateway's answer is too long")
            yield bytes(whole)
        except httpx2.TransportError:
            raise httpx2.StreamError(BROKEN_OFF) from None

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _body(response: httpx2.Response) -> bytes:
    """Return the body of a refusal, up to the bound on its size, or up to where it breaks off."""
    body = bytearray()
    if _is_coded(response):
        await response.aclose()
        return b""
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_REFUSAL_BYTES:
                return b""
        check_values(bytes(body), "a refusal", MAX_TYPED_VALUES)
    except (httpx2.HTTPError, httpx2.StreamError, FrameError):
        return b""
    finally:
        await response.aclose()
    return bytes(body)


def _is_coded(response: httpx2.Response) -> bool:
    """Return whether a body is compressed. Compressed bodies are refused: 700 bytes can become 400 MiB in one step."""
    return response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


def _error_in(body: bytes) -> dict[str, object]:
    """Return the `error` of a JSON-RPC error message, or {} if the body is not such a message."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    members = members_of(members_of(message).get("error"))
    return members if isinstance(members.get("code"), int) and isinstance(members.get("message"), str) else {}


def _why_not(error: httpx2.RequestError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = excerpt(cause.verify_message or "it can't be verified")
            return (
                f"has a certificate that is not trusted here ({why}): set SSL_CERT_FILE to a file with the certificate"
                " of whoever issued it, or correct the URL's host"
            )
        if isinstance(cause, ssl.SSLError):
            return (
                f"does not speak TLS as it should ({excerpt(cause.reason or 'TLS error')}): if the URL that it printed"
                " begins with http://, write that"
            )
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ReadError | httpx2.WriteError | httpx2.RemoteProtocolError):
        return "broke the connection off before the answer came: whether this was done is not known"
    return NOT_REACHED


def _place(request: httpx2.Request) -> str:
    """Return host and port only: the rest of a URL may hold a secret."""
    return excerpt(request.url.netloc)


def _error(request: httpx2.Request, status: int, code: int, message: str, data: object) -> httpx2.Response:
    return _error_response(request, status, ErrorData(code=code, message=message, data=data))


def _error_response(request: httpx2.Request, status: int, error: ErrorData) -> httpx2.Response:
    message = {"jsonrpc": "2.0", "id": None, "error": error.model_dump()}
    return httpx2.Response(status, json=message, request=request)
