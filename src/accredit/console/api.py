"""The desk's page over ASGI: one HTML shell, its modules, and JSON. I/O through `receive` and `send` only.

Every request passes `admission` first. What a page can do is in one table; each entry says what comes in, and what
goes out. The page is never asked for the passphrase, and is never given a key.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import parse_qsl

from accredit.console.admission import EVERY_ANSWER, SIGNED_IN, PageRefusal, PageRequest, api_fault, host_fault
from accredit.console.live import Changes
from accredit.console.sessions import Sessions
from accredit.errors import DeskError
from accredit.limits import (
    MAX_PAGE_BODY_BYTES,
    MAX_PAGE_STREAMS,
    PAGE_BODY_SECONDS,
    PAGE_SESSION_SECONDS,
    PAGE_STREAM_SECONDS,
)

_Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[_Message]]
Send = Callable[[_Message], Awaitable[None]]
Said = Mapping[str, Any]

_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript",
    "svg": b"image/svg+xml",
}
_SHELL = "index.html"
_PAGES = re.compile(r"/|/a/[0-9A-Za-z-]{1,16}|/calls|/calls/[0-9a-f]{1,64}|/people|/people/[0-9a-f]{32}|/health")
_LOGIN, _LOGOUT, _EVENTS = "/api/login", "/api/logout", ("GET", "/api/events")
_NUMBER = re.compile(rb"[0-9]{1,16}")
_STATUS = {
    "unknown": 404,
    "over": 409,
    "deciding": 409,
    "nonce": 403,
    "locked": 423,
    "unavailable": 503,
    "damaged": 500,
}
"""HTTP status of a `DeskError`, else 400."""


class _File(NamedTuple):
    type: bytes
    body: bytes


def read_files() -> Mapping[str, _File]:
    """Return the shell and its modules by their names; nothing else can be asked for."""
    folder = files("accredit.console") / "static"
    return {
        each.name: _File(_TYPES[each.name.rpartition(".")[2]], each.read_bytes())
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in _TYPES
    }


Route = Callable[[Said], Awaitable[Said]]


class Part(Protocol):
    """A part of what the page can do: it has answers for some paths below `/api/`, and members of the state that pages
    are told."""

    def route(self, method: str, steps: tuple[str, ...]) -> Route | None:
        """Return what answers a request, or None."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what pages are told of it."""
        ...


class Page:
    """The application. `address` is `127.0.0.1:PORT`; `clock` gives unix seconds."""

    def __init__(
        self, parts: Sequence[Part], sessions: Sessions, changes: Changes, address: str, clock: Callable[[], int]
    ) -> None:
        self._parts = parts
        self._sessions = sessions
        self._changes = changes
        self._address = address
        self._clock = clock
        self._files = read_files()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        request = PageRequest(scope["method"], scope["path"], tuple(scope["headers"]))
        answer = _Answer(send)
        fault = host_fault(request, self._address)
        if fault is not None:
            await answer.refuse(fault)
        elif not request.path.startswith("/api/"):
            await self._serve_file(request, answer)
        else:
            await self._serve_api(request, scope, receive, answer)

    async def _serve_file(self, request: PageRequest, answer: "_Answer") -> None:
        name = _SHELL if _PAGES.fullmatch(request.path) else request.path.removeprefix("/static/")
        file = self._files.get(name) if name == _SHELL or request.path.startswith("/static/") else None
        if file is None:
            await answer.refuse(PageRefusal(404, "unknown"))
        elif request.method not in ("GET", "HEAD"):
            await answer.refuse(PageRefusal(405, "method"))
        else:
            await answer.send(200, file.type, b"" if request.method == "HEAD" else file.body, len(file.body))

    async def _serve_api(self, request: PageRequest, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        now = self._clock()
        route = self._route(request)
        if route is None and (request.method, request.path) != _EVENTS:
            await answer.refuse(PageRefusal(404, "unknown"))
            return
        is_login = request.path == _LOGIN
        fault = api_fault(request, self._address, lambda bearer: self._sessions.knows(bearer, now), login=is_login)
        if fault is not None:
            await answer.refuse(fault)
            return
        scope["state"][SIGNED_IN] = not is_login
        if route is None:
            await self._stream(request, receive, answer)
        else:
            try:
                said = await _body(receive) if request.method == "POST" else _query(scope)
                await answer.json(200, await route(said))
            except DeskError as error:
                status = _STATUS.get(error.error, 400)
                await answer.json(status, {"error": error.error, "reason": error.reason})

    def _route(self, request: PageRequest) -> Route | None:
        if (request.method, request.path) == ("POST", _LOGIN):
            return self._log_in
        if (request.method, request.path) == ("POST", _LOGOUT):
            return partial(self._log_out, request.bearer())
        steps = tuple(request.path.split("/")[2:])
        return next((route for part in self._parts if (route := part.route(request.method, steps))), None)

    async def _log_in(self, said: Said) -> Said:
        bearer = self._sessions.log_in(text_in(said, "key"), self._clock())
        if bearer is None:
            raise DeskError("link", "this link has been used, or is older than a minute")
        return {"bearer": bearer, "seconds": PAGE_SESSION_SECONDS}

    async def _log_out(self, bearer: str, _said: Said) -> Said:
        self._sessions.log_out(bearer, self._clock())
        self._changes.note()
        return {}

    def _state(self) -> Said:
        return {name: value for part in self._parts for name, value in part.state().items()}

    async def _stream(self, request: PageRequest, receive: Receive, answer: "_Answer") -> None:
        """Tell a page the state whenever it is another one, until it is gone or signed out."""
        if self._changes.watched >= MAX_PAGE_STREAMS:
            await answer.refuse(PageRefusal(503, "busy"))
            return
        seen = request.only(b"last-event-id") or b""
        number = int(seen) if _NUMBER.fullmatch(seen) else -1
        self._changes.watched += 1
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await answer.begin(200, b"text/event-stream")
            while not gone.done() and not self._changes.is_over:
                if not self._sessions.knows(request.bearer(), self._clock()):
                    break
                state = self._state()
                if self._changes.number != number:
                    number = self._changes.number
                    await answer.write(f"id: {number}\ndata: {json.dumps(state)}\n\n".encode())
                waiting = asyncio.ensure_future(self._changes.after(number, PAGE_STREAM_SECONDS))
                await asyncio.wait([gone, waiting], return_when=asyncio.FIRST_COMPLETED)
                if waiting.done() and not waiting.result():
                    await answer.write(b":\n\n")
                waiting.cancel()
            await answer.write(b"", more=False)
        except OSError:
            pass  # the page has gone
        finally:
            gone.cancel()
            self._changes.watched -= 1


class _Answer:
    """One answer; every one has the headers of `admission`."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def begin(self, status: int, type: bytes, *more: tuple[bytes, bytes]) -> None:
        headers = [*EVERY_ANSWER, (b"content-type", type), *more]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def send(self, status: int, type: bytes, body: bytes, length: int | None = None) -> None:
        size = len(body) if length is None else length
        await self.begin(status, type, (b"content-length", str(size).encode()))
        await self.write(body, more=False)

    async def json(self, status: int, value: Said) -> None:
        await self.send(status, b"application/json", json.dumps(value).encode())

    async def refuse(self, fault: PageRefusal) -> None:
        await self.json(fault.status, {"error": fault.error})


async def _body(receive: Receive) -> Said:
    """Return the object that a page sent. Raises `DeskError`."""
    body, more = b"", True
    try:
        async with asyncio.timeout(PAGE_BODY_SECONDS):
            while more and len(body) <= MAX_PAGE_BODY_BYTES:
                message = await receive()
                body += message.get("body", b"")
                more = message["type"] == "http.request" and message.get("more_body", False)
        value: object = json.loads(body) if len(body) <= MAX_PAGE_BODY_BYTES else None
    except (TimeoutError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DeskError("not_json", "a page sends one JSON object")
    return cast("dict[str, Any]", value)


def _query(scope: Scope) -> Said:
    try:
        pairs = parse_qsl(scope["query_string"].decode("ascii"), max_num_fields=8)
    except ValueError:
        raise DeskError("query", "the query can't be read") from None
    return {name: int(value) if _NUMBER.fullmatch(value.encode()) else value for name, value in pairs}


def text_in(said: Said, name: str) -> str:
    """Return a member that is a text. Raises `DeskError`."""
    value = said.get(name)
    if not isinstance(value, str):
        raise DeskError("not_json", f"{name} is missing")
    return value


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
