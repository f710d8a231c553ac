"""The desk's page over ASGI: one HTML shell, its modules, and JSON. I/O through `receive` and `send` only.

Every request passes `admission` first. One table of routes has everything that a page can do. The page never asks for
the passphrase, and never gets a key.

Open pages are sent the whole state, again at every change (`Changes`).

Each state has a number. A page that reconnects names the last one that it saw (`Last-Event-ID`). If there is a newer
state, it gets that at once; otherwise it waits for one. So no change is missed, and nothing is stored for pages that
have gone.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, cast
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from accredit.console.admission import (
    EVERY_ANSWER,
    MAX_PAGE_BODY_BYTES,
    SIGNED_IN,
    PageRefusal,
    api_fault,
    bearer_in,
    host_fault,
    only,
)
from accredit.console.sessions import PAGE_SESSION_SECONDS, Sessions
from accredit.errors import DeskError

MAX_PAGE_STREAMS = 16
"""How many pages can listen for changes at one time."""
PAGE_STREAM_SECONDS = 15.0
"""The seconds between keep-alive events, by which each side notices that the other one is gone."""
PAGE_BODY_SECONDS = 5.0
"""How many seconds the whole body of a page's request may take to arrive."""


Said = Mapping[str, Any]
Work = Callable[..., Awaitable[Said]]
"""Handles a request. It is given the request's JSON object (or query), and its path parameters as keywords."""

_Respond = Callable[[Request], Awaitable[ASGIApp]]
"""Handles an admitted request. Raises `DeskError`."""

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_SHELL = "index.html"
_PAGES = re.compile(r"/|/a/[0-9A-Za-z-]{1,16}|/calls|/calls/[0-9a-f]{1,64}|/people|/people/[0-9a-f]{32}|/apps|/health")
_SECTIONS = ("calls", "people", "apps", "health")
"""The sections of the page that are there if they have routes."""
_LOGIN = "/api/login"
_NUMBER = re.compile(r"[0-9]{1,16}", re.ASCII)
_STATUS = {
    "unknown": 404,
    "over": 409,
    "deciding": 409,
    "nonce": 403,
    "locked": 423,
    "unavailable": 503,
    "damaged": 500,
}
"""The HTTP status for each code of a `DeskError`; for all other codes it is 400."""


def _read_files() -> Mapping[str, Response]:
    """Return the shell and its modules by name: the only static files that are served."""
    folder = files("accredit.console") / "static"
    return {
        each.name: Response(each.read_bytes(), headers={"content-type": _TYPES[each.name.rpartition(".")[2]]})
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in _TYPES
    }


class Changes:
    """Counts changes, and wakes all tasks that wait for the next one."""

    def __init__(self, first: int) -> None:
        """Start at `first`, the time in milliseconds: no earlier process has reached that number."""
        self.number = first
        self.is_over = False
        self.watched = 0
        """How many pages listen for changes."""
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Count a change, and wake all that wait."""
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Wake all waiting tasks. From now on, none waits any more."""
        self.is_over = True
        self.note()

    async def after(self, seen: int, seconds: float) -> bool:
        """Wait for a state other than `seen`. Return False if there was none within `seconds`."""
        changed = self._changed
        if self.number != seen:
            return True
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True


class _Route(Route):
    """Matches a method and a path exactly. HEAD does not match GET, a path with a trailing newline is another path, and
    a wrong method gets 404, not 405."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        is_exact = match is Match.FULL and scope["method"] != "HEAD" and "\n" not in scope["path"]
        return (match, found) if is_exact else (Match.NONE, {})


class Page:
    """The application. `works` are the handlers of its routes, such as `GET /api/calls/{call_id}`. `state` returns the
    state that is pushed to pages. `address` is `127.0.0.1:PORT`; `clock` gives unix seconds."""

    def __init__(
        self,
        works: Mapping[str, Work],
        state: Callable[[], dict[str, Any]],
        sessions: Sessions,
        changes: Changes,
        address: str,
        clock: Callable[[], int],
    ) -> None:
        self._state = state
        self._there = {each: f"GET /api/{each}" in works or f"POST /api/{each}" in works for each in _SECTIONS}
        self._sessions = sessions
        self._changes = changes
        self._address = address
        self._clock = clock
        self._files = _read_files()
        responses: dict[str, _Respond] = {
            f"POST {_LOGIN}": self._log_in,
            "POST /api/logout": self._log_out,
            "GET /api/events": self._stream,
            **{route: partial(_respond, work) for route, work in works.items()},
        }
        routes: list[BaseRoute] = []
        for route, respond in responses.items():
            method, path = route.split()
            routes.append(_Route(path, partial(self._admit, respond), methods=[method]))
        self._router = Router(routes, redirect_slashes=False, default=self._serve_file)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*EVERY_ANSWER, *message["headers"]]
            await send(message)

        if scope["type"] == "http":
            fault = host_fault(Request(scope).headers, self._address)
            await (self._router if fault is None else _refusal(fault))(scope, receive, answer)

    async def _serve_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        name = _SHELL if _PAGES.fullmatch(path) else path.removeprefix("/static/")
        answer = self._files.get(name) if name == _SHELL or path.startswith("/static/") else None
        if answer is None:
            answer = _refusal(PageRefusal(404, "unknown"))
        elif scope["method"] not in ("GET", "HEAD"):
            answer = _refusal(PageRefusal(405, "method"))
        await answer(scope, receive, send)

    async def _admit(self, respond: _Respond, request: Request) -> ASGIApp:
        now, is_login = self._clock(), request.scope["path"] == _LOGIN

        def signed_in(bearer: str) -> bool:
            return self._sessions.knows(bearer, now)

        fault = api_fault(request.method, request.headers, self._address, signed_in, login=is_login)
        if fault is not None:
            return _refusal(fault)
        request.scope["state"][SIGNED_IN] = not is_login
        try:
            return await respond(request)
        except DeskError as error:
            return _json(_STATUS.get(error.error, 400), {"error": error.error, "reason": error.reason})

    async def _log_in(self, request: Request) -> ASGIApp:
        bearer = self._sessions.log_in(text_in(await _body(request), "key"), self._clock())
        if bearer is None:
            raise DeskError("link", "this link has been used, or is older than a minute")
        return _json(200, {"bearer": bearer, "seconds": PAGE_SESSION_SECONDS})

    async def _log_out(self, request: Request) -> ASGIApp:
        await _body(request)
        self._sessions.log_out(bearer_in(request.headers), self._clock())
        self._changes.note()
        return _json(200, {})

    async def _stream(self, request: Request) -> ASGIApp:
        if self._changes.watched >= MAX_PAGE_STREAMS:
            return _refusal(PageRefusal(503, "busy"))
        seen = only(request.headers, "last-event-id") or ""
        states = self._states(bearer_in(request.headers), int(seen) if _NUMBER.fullmatch(seen) else -1)

        async def tell(scope: Scope, receive: Receive, send: Send) -> None:
            self._changes.watched += 1
            try:
                await StreamingResponse(states, headers={"content-type": "text/event-stream"})(scope, receive, send)
            finally:
                self._changes.watched -= 1

        return tell

    async def _states(self, bearer: str, number: int) -> AsyncIterator[str]:
        """Yield the state as a server-sent event whenever its number is above `number`, until the page signs out."""
        while not self._changes.is_over and self._sessions.knows(bearer, self._clock()):
            state = {**self._there, **self._state()}
            if self._changes.number != number:
                number = self._changes.number
                yield f"id: {number}\ndata: {json.dumps(state)}\n\n"
            if not await self._changes.after(number, PAGE_STREAM_SECONDS):
                yield ":\n\n"


def _json(status: int, value: Said) -> Response:
    return Response(json.dumps(value), status, media_type="application/json")  # JSONResponse fails on a lone surrogate


def _refusal(fault: PageRefusal) -> Response:
    return _json(fault.status, {"error": fault.error})


async def _respond(work: Work, request: Request) -> Response:
    said = await _body(request) if request.method == "POST" else _query(request)
    return _json(200, await work(said, **request.path_params))


async def _body(request: Request) -> Said:
    """Read the JSON object in a request's body. Raises `DeskError`."""
    body, value = b"", None
    try:
        async with asyncio.timeout(PAGE_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_PAGE_BODY_BYTES:
                    raise ValueError
        value = json.loads(body)
    except (TimeoutError, ClientDisconnect, ValueError, RecursionError):
        pass
    if not isinstance(value, dict):
        raise DeskError("not_json", "a page sends one JSON object")
    return cast("dict[str, Any]", value)


def _query(request: Request) -> Said:
    try:
        pairs = parse_qsl(request.scope["query_string"].decode("ascii"), max_num_fields=8)
    except ValueError:
        raise DeskError("query", "the query can't be read") from None
    return {name: int(value) if _NUMBER.fullmatch(value) else value for name, value in pairs}


def text_in(said: Said, name: str) -> str:
    """Return a member that must be a string. Raises `DeskError`."""
    value = said.get(name)
    if not isinstance(value, str):
        raise DeskError("not_json", f"{name} is missing")
    return value
