"""What the page can do: with asks, where there is a desk with a key, and with the log of calls. No I/O of its own."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from accredit.console.api import text_in
from accredit.console.desk import Choice, Desk
from accredit.console.log_pages import LogPages
from accredit.console.page_views import Views
from accredit.errors import DeskError

_Said = Mapping[str, Any]
_Route = Callable[[_Said], Awaitable[_Said]]


class AskedPart:
    """Asks: shown, allowed, denied, kept open; and the key, locked."""

    def __init__(self, desk: Desk, views: Views) -> None:
        self._desk = desk
        self._views = views

    def route(self, method: str, steps: tuple[str, ...]) -> _Route | None:
        """Return what answers a request, or None."""
        match (method, *steps):
            case ("POST", "lock"):
                return self._lock
            case ("GET", "asks", code):
                return partial(self._show, code)
            case ("GET", "asks", code, "signs"):
                return partial(self._preview, code)
            case ("POST", "asks", code):
                return partial(self._decide, code)
            case _:
                return None

    def state(self) -> dict[str, Any]:
        """Return who asks, and whether the key is open."""
        self._desk.expire()
        return self._views.state()

    async def _lock(self, _said: _Said) -> _Said:
        self._desk.keys.lock()
        return {"key": self._desk.keys.state}

    async def _show(self, code: str, _said: _Said) -> _Said:
        return self._views.ask(self._desk.find(code))

    async def _preview(self, code: str, said: _Said) -> _Said:
        return {"signs": self._views.signs(self._desk.find(code), _choice(said))}

    async def _decide(self, code: str, said: _Said) -> _Said:
        asked = self._desk.find(code, text_in(said, "ask"))
        nonce = text_in(said, "nonce")
        match said.get("decision"):
            case "deny":
                self._desk.check_nonce(asked, nonce)
                self._desk.deny(asked)
            case "keep":
                self._desk.check_nonce(asked, nonce)
                self._desk.keep_open(asked)
            case "allow":
                await self._desk.allow(asked, nonce, _choice(said))
            case _:
                raise DeskError("decision", "a decision is allow, deny or keep")
        return {"state": asked.state}


class CallsPart:
    """The log of calls: a list, and a call's story."""

    def __init__(self, pages: LogPages) -> None:
        self._pages = pages

    def route(self, method: str, steps: tuple[str, ...]) -> _Route | None:
        """Return what answers a request, or None."""
        match (method, *steps):
            case ("GET", "calls"):
                return self._calls
            case ("GET", "calls", call_id):
                return partial(self._story, call_id)
            case _:
                return None

    def state(self) -> dict[str, Any]:
        """Return that there is a log."""
        return {"calls": True}

    async def _calls(self, said: _Said) -> _Said:
        before = said.get("before")
        if before is not None and type(before) is not int:
            raise DeskError("query", "a page begins with a number")
        return await self._pages.calls(str(said.get("q", "")), before)

    async def _story(self, call_id: str, _said: _Said) -> _Said:
        return await self._pages.story(call_id)


def _choice(said: _Said) -> Choice:
    calls, seconds = said.get("calls", 0), said.get("seconds", 0)
    if type(calls) is not int or type(seconds) is not int:
        raise DeskError("choice", "calls and seconds are whole numbers")
    return Choice(text_in(said, "offer"), calls, seconds)
