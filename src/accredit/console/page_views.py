"""The page's section of asks: the state that all pages share, one ask with its nonce, and decisions."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import to_builtins

from accredit.consent.offers import choices
from accredit.consent.shown import in_one_line, in_quotes
from accredit.console.api import Said, Work, text_in
from accredit.console.book import PendingAsk
from accredit.console.desk import Choice, Desk
from accredit.console.log_pages import LogPages
from accredit.console.uses import use_of
from accredit.console.views import Circumstances, describe, page_offer, preview, short
from accredit.errors import DeskError, NotOffered
from accredit.pins.shown import visible_text

_LISTED_CHARS = 200
"""How many characters of a target the list of asks shows. The ask's own page shows all of it."""


class AskedPart:
    """The section of asks. It shows, allows, denies and keeps open an ask, and locks the key."""

    def __init__(
        self, desk: Desk, names: Callable[[], Mapping[str, str]], log_of: Callable[[str], LogPages | None]
    ) -> None:
        """`names` returns the known names, by the ids of keys and gateways. `log_of` returns the log of the gateway
        with an id, if it is known here."""
        self._desk = desk
        self._names = names
        self._log_of = log_of

    def routes(self) -> Mapping[str, Work]:
        """Return the routes."""
        return {
            "POST /api/lock": self._lock,
            "GET /api/asks/{code}": self._show,
            "GET /api/asks/{code}/signs": self._preview,
            "POST /api/asks/{code}": self._decide,
        }

    def state(self) -> dict[str, Any]:
        """Return the state of the key, for the top of every page, and the pending asks, oldest first."""
        self._desk.expire()
        desk, names = self._desk, self._names()
        now = desk.now()
        return {
            "person": visible_text(desk.person.name),
            "key": desk.keys.state,
            "place": desk.keys.place,
            "wrong": desk.keys.has_failed,
            "now": now,
            "asks": [_ask_row(each, names.get(each.ask.agent_id), desk.book.unseen(each.ask.agent_id))
                     for each in desk.book.waiting(now)],
            "unseen": desk.book.unseen(),
        }  # fmt: skip

    async def _lock(self, _said: Said) -> Said:
        self._desk.keys.lock()
        return {"key": self._desk.keys.state}

    async def _show(self, _said: Said, code: str) -> Said:
        asked = self._desk.find(code)
        chain = asked.answer.certificates if asked.answer is not None else ()
        log = self._log_of(asked.ask.gateway.id)
        return {**self._one(asked), "use": await use_of(chain, log) if chain else None}

    async def _preview(self, said: Said, code: str) -> Said:
        return {"signs": self._signs(self._desk.find(code), _choice(said))}

    async def _decide(self, said: Said, code: str) -> Said:
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

    def circumstances(self, asked: PendingAsk) -> Circumstances:
        """Return the desk's own knowledge about an ask, which is not part of the ask."""
        desk, ask = self._desk, asked.ask
        offers = choices(ask, is_new=asked.is_new)
        kept = [pointer[1:] for offer in offers for pointer in offer.kept if offer.key == "like"]
        return Circumstances(
            person=desk.person.name,
            person_id=desk.person.id,
            names=self._names(),
            is_new=asked.is_new,
            is_first=desk.past.is_first(ask),
            first_values=tuple(desk.past.first_values(ask, kept)),
            met_at=desk.past.met_at(ask),
            started_by=asked.started_by,
            known_tools=tuple(desk.past.targets(ask.gateway.id)),
            until=asked.until,
        )

    def _one(self, asked: PendingAsk) -> dict[str, Any]:
        """Return the data of one ask that a decision needs, and the nonce for that decision."""
        known, now = self.circumstances(asked), self._desk.now()
        described = describe(asked.ask, known)
        return {
            **to_builtins(described),
            "title": described.title,
            "ask": asked.key,
            "nonce": asked.nonce,
            "state": asked.state,
            "now": now,
            "offers": [page_offer(each, asked.ask, known, now) for each in choices(asked.ask, is_new=asked.is_new)],
        }

    def _signs(self, asked: PendingAsk, choice: Choice) -> list[tuple[str, str]]:
        """Return the content of the certificate that would be signed for a choice. Raises `DeskError`."""
        offer = self._desk.offer(asked, choice)
        try:
            return preview(offer, asked.ask, self.circumstances(asked), self._desk.now(), choice.calls, choice.seconds)
        except NotOffered as error:
            raise DeskError("choice", str(error)) from None


def _ask_row(asked: PendingAsk, name: str | None, unseen: int) -> dict[str, Any]:
    ask = asked.ask
    return {
        "code": ask.code,
        "agent": visible_text(name) if name else f"“{in_quotes(ask.agent.name or short(ask.agent_id))}”",
        "target": in_one_line(ask.method, ask.target, ask.params, _LISTED_CHARS),
        "asked_at": ask.asked_at,
        "until": asked.until,
        "is_new": asked.is_new,
        "unseen": unseen,
    }


def _choice(said: Said) -> Choice:
    calls, seconds = said.get("calls", 0), said.get("seconds", 0)
    if type(calls) is not int or type(seconds) is not int:
        raise DeskError("choice", "calls and seconds are whole numbers")
    return Choice(text_in(said, "offer"), calls, seconds)
