"""The page "Who may what", and what is done from it: a delegation is taken back.

It is taken back in these steps; if one fails, nothing after it is done, and the page is told:

1. the desk has a key, `desk.toml` names a place, and the delegation stands on this person's word;
2. the nonce is the one that the page was given with this delegation;
3. the key is open, or the person gives the passphrase;
4. the journal has it on disk;
5. the list at each place that is named gets the id (`revoking`);
6. gateways are asked, for a while, whether they know.

Not known to the desk: which gateways read a list in a file, and gateways whose address it does not know.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from accredit.console.api import Route, Said, text_in
from accredit.console.delegations import Placed
from accredit.console.desk import Desk
from accredit.console.gateways import GatewayHealth, Gateways, is_of
from accredit.console.lists import ListPlace
from accredit.console.people import Known, People
from accredit.console.people_views import PeopleViews
from accredit.console.revoking import revoke
from accredit.errors import ConfigurationError, DeskError
from accredit.keys import SigningKey
from accredit.limits import MAX_CALL_FILTER_CHARS, REVOCATION_CHECK_SECONDS, SHORT_ID_CHARS, TAKE_BACK_SECONDS
from accredit.pins.shown import shown

_SECRET_BYTES = 32
_PAUSE_SECONDS = 0.5


class TakingBack:
    """What takes a person's delegations back: their desk, the places of their list, and the gateways to ask."""

    def __init__(self, desk: Desk, places: Sequence[ListPlace], gateways: Gateways, people: People) -> None:
        self.desk = desk
        self.places = places
        self._gateways = gateways
        self._people = people
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._turn = asyncio.Lock()

    def why_not(self, placed: Placed) -> str:
        """Return why a delegation can't be taken back here; "" if it can."""
        if placed.person != self.desk.person.id:
            return "It does not stand on your word: only who granted it can take it back."
        if placed.state == "taken back":
            return "It has been taken back."
        if placed.state == "ended":
            return "It has ended by itself."
        if not self.places:
            return "desk.toml names no place for your revocation list: store, or revocation_list."
        return ""

    def nonce(self, placed: Placed) -> str:
        """Return what a page has to bring to take this delegation back."""
        return hmac.digest(self._secret, placed.node.link.handle.encode(), "sha256").hex()

    async def take_back(self, placed: Placed, nonce: str, name: str) -> list[str]:
        """Take a delegation back; return what is to be said. Raises `DeskError`."""
        if not hmac.compare_digest(self.nonce(placed).encode(), nonce.encode("utf-8", "surrogatepass")):
            raise DeskError("nonce", "this page is not the one that shows the delegation")
        reason = self.why_not(placed)
        if reason:
            raise DeskError("not_yours" if placed.person != self.desk.person.id else "over", reason)
        if self._turn.locked():
            raise DeskError("deciding", "another delegation is being taken back: try again")
        async with self._turn:
            link = placed.node.link
            text = f"Passphrase to take back {shown(link.cert_id[:SHORT_ID_CHARS])} ({name})"
            signer = await self.desk.keys.signer(text, each=False)
            key = SigningKey(self.desk.person, signer)
            self.desk.note(
                "taken back", cert=link.cert_id, agent=link.subject_id, places=[each.name for each in self.places]
            )
            told: list[str] = []
            is_written = False
            for each in self.places:
                try:
                    await asyncio.to_thread(revoke, link.cert_id, key, each.place, each.name)
                    told.append(f"It is in the list in {shown(each.name)}.")
                    is_written = True
                except ConfigurationError as error:
                    told.append(f"NOT in {shown(each.name)}: {shown(error.what)}")
            if not is_written:
                self.desk.note("not taken back", cert=link.cert_id)
                raise DeskError("not_written", " ".join(told))
            known = await self._people.known(anew=True)
            return [*told, *await self._told(known)]

    async def _told(self, known: Known) -> list[str]:
        """Return what gateways say of the lists, a moment after they were written."""
        has_store = any(not _is_file(each) for each in self.places)
        until = time.monotonic() + TAKE_BACK_SECONDS
        await asyncio.sleep(REVOCATION_CHECK_SECONDS)  # what a gateway has seen before, it may go by for so long
        while True:
            said = await self._gateways.ask(anew=True)
            told = [_sentence(each, has_store=has_store, known=known) for each in said]
            if all(each.parts.get("revocations") for each in said) or time.monotonic() > until:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        if not told:
            told = ["This desk knows no gateway's address, and so does not know whether one has read it."]
        if has_store:
            told.append("Every gateway that uses this store, and trusts your key, refuses it within a second.")
        return told


class PeoplePart:
    """Who may what: a list, one delegation, and how it is taken back. Without `taking` nothing is."""

    def __init__(
        self, people: People, names: Callable[[], Mapping[str, str]], taking: TakingBack | None = None
    ) -> None:
        self._people = people
        self._names = names
        self._taking = taking

    def route(self, method: str, steps: tuple[str, ...]) -> Route | None:
        """Return what answers a request, or None."""
        match (method, *steps):
            case ("GET", "people"):
                return self._page
            case ("GET", "people", handle):
                return partial(self._one, handle)
            case ("POST", "people", handle) if self._taking is not None:
                return partial(self._take_back, self._taking, handle)
            case _:
                return None

    def state(self) -> dict[str, Any]:
        """Return that there is such a page."""
        return {"people": True}

    async def _views(self) -> PeopleViews:
        person_id = self._taking.desk.person.id if self._taking is not None else ""
        return PeopleViews(await self._people.known(), self._names(), person_id)

    async def _page(self, said: Said) -> Said:
        text, begin = str(said.get("q", "")), said.get("from", 0)
        if type(begin) is not int or len(text) > MAX_CALL_FILTER_CHARS:
            raise DeskError("query", "this can't be looked for")
        views = await self._views()
        return await asyncio.to_thread(views.page, text, begin, all_states=said.get("all") == 1)

    async def _one(self, handle: str, _said: Said) -> Said:
        views = await self._views()
        placed = views.find(handle)
        found = await asyncio.to_thread(views.one, placed)
        if self._taking is None:
            return {**found, "why_not": "read-only"}
        why_not = self._taking.why_not(placed)
        places = [shown(each.name) for each in self._taking.places]
        nonce = "" if why_not else self._taking.nonce(placed)
        return {**found, "why_not": why_not, "places": places, "nonce": nonce}

    async def _take_back(self, taking: TakingBack, handle: str, said: Said) -> Said:
        views = await self._views()
        placed = views.find(handle)
        name = views.name(placed)
        return {"told": await taking.take_back(placed, text_in(said, "nonce"), name)}


def _is_file(place: ListPlace) -> bool:
    return isinstance(place.place, Path)


def _sentence(gateway: GatewayHealth, *, has_store: bool, known: Known) -> str:
    """Return what a gateway's answer says of the lists."""
    who = f"The gateway at {shown(gateway.address)}"
    if not gateway.status:
        return f"{who}: {gateway.problem}. Whether it knows is not known."
    reads = gateway.parts.get("revocations")
    if not gateway.counts:
        return f"{who} answers in the clear, where anybody may answer: whether it knows is not known."
    if reads is None:
        return f"{who} reads no revocation lists, or does not say so: whether it knows is not known."
    if not reads:
        return f"{who} says that a list does not count for it: see its log, or `accredit check`."
    if has_store and any(is_of(gateway, each) for each in known.gateways):
        return f"{who} keeps its log in this store, and says that all its lists are in force: it knows."
    return f"{who} says that its lists are in force. Whether it reads this one is not known here."
