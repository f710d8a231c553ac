"""The page "Who may what", and the revocation of a delegation from it.

A delegation is revoked in these steps. If one of the first three fails, the later ones are not done, and the page is
told:

- [root] The desk has a key, `desk.toml` names a place for the list, and this person is the delegation's root. No
  signature of the delegation, or of those above it, is bad.
- [nonce] The nonce is the one that the page was given with this delegation.
- [unlocking] The key is unlocked, or the person gives the passphrase.
- [journal] An entry about it is written to the journal. If that fails, the revocation continues: it does not wait for a
  disk.
- [lists] The id is added to the list at each named place (`lists`). If that fails at a place, the page says so, and
  it can be retried.
- [elsewhere] Each gateway elsewhere is told, by the person's key. What it keeps for clients that speak only OAuth ends
  at once: their logins, their tokens and the agent's key.
- [gateways] For a while, gateways are asked whether they use one of these lists, which is named by its digest.

At the end, the ended certificates are computed again: since the page was shown, a certificate with the same id may have
become known. Gateways whose address is unknown are not asked, and some don't say which lists they use.
"""

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from accredit.console.api import Said, Work, text_in
from accredit.console.delegations import Link, TreeEntry
from accredit.console.desk import Desk
from accredit.console.elsewhere import GatewayElsewhere
from accredit.console.gateways import GatewayHealth, Gateways
from accredit.console.lists import ListPlace, revoke
from accredit.console.people import Known, People
from accredit.console.people_views import PeopleViews
from accredit.errors import ConfigurationError, DeskError
from accredit.keys import SigningKey
from accredit.limits import MAX_CALL_FILTER_CHARS, REVOCATION_CHECK_SECONDS, SHORT_ID_CHARS
from accredit.pins.shown import visible_text
from accredit.ratify import HybridSigner

TAKE_BACK_SECONDS = 8.0
"""How long the desk waits for gateways to confirm a revocation."""


_OWN_ID = re.compile(r"[0-9a-f]{32}")
_SECRET_BYTES = 32
_PAUSE_SECONDS = 0.5


class RevocationContext:
    """The parts that a revocation needs: the person's desk, the places of the person's list, the gateways to ask, and
    those `elsewhere`."""

    def __init__(
        self,
        desk: Desk,
        places: Sequence[ListPlace],
        gateways: Gateways,
        people: People,
        elsewhere: Sequence[GatewayElsewhere] = (),
    ) -> None:
        self.desk = desk
        self.places = places
        self._gateways = gateways
        self._people = people
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._turn = asyncio.Lock()
        self.elsewhere = elsewhere
        self._unreached: dict[str, list[str]] = {}
        """The gateways elsewhere that were not reached, by the id of what was to end there. They can be told again."""

    def missing(self, placed: TreeEntry, known: Known) -> list[str]:
        """Return the places where this person's list does not yet have the certificate's id."""
        person, cert_id = self.desk.person.id, placed.node.link.cert_id
        have = {
            each.where
            for each in known.lists
            if each.issuer_id == person and not each.fault and cert_id in each.revoked
        }
        return [*(each.name for each in self.places if each.name not in have), *self._unreached.get(cert_id, ())]

    def why_not(self, placed: TreeEntry, known: Known) -> str:
        """Return why a delegation can't be revoked here; "" if it can."""
        if placed.person != self.desk.person.id:
            return "It does not stand on your word: only who granted it can take it back."
        if placed.state == "taken back":
            if not known.revoked & {placed.node.link.cert_id}:
                return "What it stands on has been taken back."
            if not self.missing(placed, known):
                return "It has been taken back."
        if placed.state == "ended":
            return "It has ended by itself."
        if not self.places:
            return "desk.toml names no place for your revocation list: store, revocation_list, or at."
        return ""

    def nonce(self, placed: TreeEntry) -> str:
        """Return the nonce that a page must send to revoke this delegation."""
        cert_id = placed.node.link.cert_id.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, cert_id, "sha256").hex()

    async def take_back(self, placed: TreeEntry, nonce: str, name: str, known: Known) -> "RevocationResult":
        """Revoke a delegation. Raises `DeskError`."""
        if not hmac.compare_digest(self.nonce(placed).encode(), nonce.encode("utf-8", "surrogatepass")):
            raise DeskError("nonce", "this page is not the one that shows the delegation")
        reason = self.why_not(placed, known)
        if reason:
            raise DeskError("not_yours" if placed.person != self.desk.person.id else "over", reason)
        if self._turn.locked():
            raise DeskError("deciding", "another delegation is being taken back: try again")
        async with self._turn:
            link = placed.node.link
            text = f"Passphrase to take back {visible_text(link.cert_id[:SHORT_ID_CHARS])} ({name})"
            signer = await self.desk.keys.signer(text, each=False)
            key = SigningKey(self.desk.person, signer)
            told = self._noted("taken back", link)
            told += await self._end_elsewhere(link.cert_id, signer)
            written = 0
            for each in self.places:
                try:
                    await asyncio.to_thread(_revoke, link.cert_id, key, each)
                    told.append(f"It is in the list in {visible_text(each.name)}.")
                    written += 1
                except ConfigurationError as error:
                    told.append(f"NOT in {visible_text(each.name)}: {visible_text(error.what)}")
            if not written:
                told += self._noted("not taken back", link)
                raise DeskError("not_written", " ".join(told))
            before = known.revoked
            known = await self._people.known(anew=True)
            ended = known.forest.ends_with(link.cert_id, self.desk.now(), before)
            is_everywhere = written == len(self.places) and link.cert_id not in self._unreached
            return RevocationResult([*told, *await self._told(link.cert_id)], is_everywhere, known, ended)

    async def _end_elsewhere(self, cert_id: str, signer: HybridSigner) -> list[str]:
        """Tell the gateways elsewhere; return sentences for the page ([elsewhere])."""
        asked = (each.take_back(cert_id, signer) for each in self.elsewhere if _OWN_ID.fullmatch(cert_id))
        found = dict(zip(self.elsewhere, await asyncio.gather(*asked, return_exceptions=True), strict=False))
        told: list[str] = []
        self._unreached.pop(cert_id, None)
        for gateway, had in found.items():
            url = visible_text(gateway.url)
            if isinstance(had, DeskError):
                self._unreached.setdefault(cert_id, []).append(url)
                told.append(f"NOT at {url}: {had.reason}.")
            elif isinstance(had, BaseException):
                raise had
            else:
                told.append(f"{url} has ended it." if had else f"{url} kept nothing of it.")
        return told

    def _noted(self, event: str, link: Link) -> list[str]:
        """Write an event into the journal. If that fails, return what the page must be told; otherwise nothing."""
        places = [each.name for each in self.places]
        try:
            self.desk.note(event, cert=link.cert_id, agent=link.subject_id, places=places)
        except DeskError as error:
            return [f"It is not in the journal: {error.reason}."]
        return []

    async def _told(self, cert_id: str) -> list[str]:
        """Return the gateways' answers about the lists, a moment after these were written."""
        has_store = any(not isinstance(each.place, Path) for each in self.places)
        until = time.monotonic() + TAKE_BACK_SECONDS
        await asyncio.sleep(REVOCATION_CHECK_SECONDS)  # a gateway reads its lists again after this time
        while True:
            lists = await self._people.lists()  # others may have extended them meanwhile
            with_it = [each.sha256 for each in lists if not each.fault and cert_id in each.revoked]
            asked = await self._gateways.ask(with_it, anew=True)
            said = [each for each in asked if not any(one.has(each.address) for one in self.elsewhere)]
            if all(each.has_list for each in said) or time.monotonic() > until:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        told = [_sentence(each) for each in said]
        if self._gateways.not_asked:
            told.append(f"{self._gateways.not_asked} more gateways were not asked.")
        elif said and all(each.has_list and each.counts for each in said):
            told.append("Every gateway that this desk knows has it.")
        elif not said and not self.elsewhere:
            told.append("This desk knows no gateway's address, and so does not know whether one has read it.")
        if has_store:
            told.append("A gateway that uses this store, and trusts your key, refuses it within a second.")
        return told


class RevocationResult(NamedTuple):
    """A revocation's result: sentences for the page, whether the lists at all places have it, the delegations `known`
    now, and the certificates that have `ended`."""

    told: list[str]
    is_everywhere: bool
    known: Known
    ended: list[TreeEntry]


class PeoplePart:
    """The section of delegations: the list, one delegation and, only with `taking`, its revocation."""

    def __init__(
        self, people: People, names: Callable[[], Mapping[str, str]], taking: RevocationContext | None = None
    ) -> None:
        self._people = people
        self._names = names
        self._taking = taking

    def routes(self) -> Mapping[str, Work]:
        """Return the routes."""
        routes: dict[str, Work] = {"GET /api/people": self._page, "GET /api/people/{handle}": self._one}
        if self._taking is not None:
            routes["POST /api/people/{handle}"] = partial(self._take_back, self._taking)
        return routes

    async def _views(self, known: Known) -> PeopleViews:
        person_id = self._taking.desk.person.id if self._taking is not None else ""
        return await asyncio.to_thread(PeopleViews, known, self._names(), person_id)

    async def _page(self, said: Said) -> Said:
        text, begin = str(said.get("q", "")), said.get("from", 0)
        if type(begin) is not int or len(text) > MAX_CALL_FILTER_CHARS:
            raise DeskError("query", "this can't be looked for")
        views = await self._views(await self._people.known())
        return await asyncio.to_thread(views.page, text, begin, all_states=said.get("all") == 1)

    async def _one(self, _said: Said, handle: str) -> Said:
        known = await self._people.known()
        views = await self._views(known)
        placed = await asyncio.to_thread(views.find, handle)
        found = await asyncio.to_thread(views.one, placed)
        signature = visible_text(await self._people.signature(placed.node))
        if self._taking is None:
            return {**found, "signature": signature, "why_not": "read-only"}
        why_not = _forgery_reason(signature) or self._taking.why_not(placed, known)
        return {
            **found,
            "signature": signature,
            "why_not": why_not,
            "places": [visible_text(each.name) for each in self._taking.places],
            "elsewhere": [visible_text(each.url) for each in self._taking.elsewhere],
            "missing": [visible_text(each) for each in self._taking.missing(placed, known)],
            "nonce": "" if why_not else self._taking.nonce(placed),
        }

    async def _take_back(self, taking: RevocationContext, said: Said, handle: str) -> Said:
        known = await self._people.known()
        views = await self._views(known)
        placed = await asyncio.to_thread(views.find, handle)
        if forged := _forgery_reason(await self._people.signature(placed.node)):
            raise DeskError("forged", forged)
        done = await taking.take_back(placed, text_in(said, "nonce"), views.name(placed), known)
        views = await self._views(done.known)
        ended = await asyncio.to_thread(views.rows, done.ended)
        return {"told": done.told, "everywhere": done.is_everywhere, **ended}


def _forgery_reason(signature: str) -> str:
    """Return why a certificate with a bad signature is not revoked; "" if the signature is good, or not known here.
    Without this check, somebody who can write to a store could disguise a needed certificate as one to be revoked."""
    if not signature.startswith("BAD"):
        return ""
    return "Nobody signed it as it is shown: the store, or the file, that it is in was changed."


def _revoke(cert_id: str, key: SigningKey, place: ListPlace) -> None:
    """Add an id to the list at a place. Raises `ConfigurationError`."""
    file = None if isinstance(place.place, Path) else place.place.file
    if file is not None and not file.exists():
        raise ConfigurationError("there is no such store: no gateway reads it", "correct store in desk.toml")
    revoke(cert_id, key, place)


def _sentence(gateway: GatewayHealth) -> str:
    """Describe a gateway's answer about the lists in one sentence."""
    who = f"The gateway at {visible_text(gateway.address)}"
    if not gateway.status:
        return f"{who}: {gateway.problem}. Whether it knows is not known."
    if not gateway.counts:
        return f"{who} answers in the clear, where anybody may answer: whether it knows is not known."
    if gateway.has_list is None:
        return f"{who} reads no revocation lists, or does not say so: whether it knows is not known."
    if gateway.has_list:
        return f"{who} says that it goes by this list: it knows."
    if gateway.parts.get("revocations"):
        return f"{who} says that it does NOT go by this list: it reads others."
    return (
        f"{who} says that a list does NOT count for it: its log, or `accredit check`, says which."
        " With one whose issuer it does not know it does not start again."
    )
