"""Tells which certificates are revoked, by signed lists in files and in a store. Reads files in threads.

A list is in force if, in this order:

- [decoding] it can be read and decodes strictly;
- [own-row] it lies in its issuer's row, if it is in a store;
- [trusted-issuer] its issuer's public key is one of those given;
- [signature] that key signed it;
- [age] it is not older than the one in force at its place; if it was issued in the same second, it has all ids of that
  one;
- [newest] no worker process that shares memory with this one has had a newer list of its issuer in force
  (`seen_lists`), in any place. If one has, this process answers no questions.

When the gateway starts, an invalid or missing list is an error. An issuer without revocations needs a signed list, too:
an empty one. Later, the last valid list of an issuer stays in force, even if its file disappears; `problem` reports
that.

A reload makes a new object, with the old one as `before`. For each list that was in force, the new one needs a list of
the same issuer, in any place, that may replace it by [age]. An SQLite store remembers the newest list of each issuer
that was in force. After a restart that list counts as well, until one that is at least as new is found. If what the
store remembers is damaged, `on_problem` is told, and the list that is found takes its place.

Questions are not answered while this process has no file descriptors left: otherwise somebody who can use them up could
hide a revocation. The same holds while a database does not answer. An id in any list, in any place, revokes that
certificate, whoever issued it. Not checked: whether the list's issuer has issued that certificate; and, when the
gateway starts, earlier lists that the store does not remember.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from accredit.base.text import excerpt
from accredit.errors import ConfigurationError, StoreUnavailable, WireError
from accredit.limits import REVOCATION_CHECK_SECONDS, STORE_WAIT_SECONDS
from accredit.ratify import HybridPublicKey, RevocationList, revocation_list_fault
from accredit.stores.list_sources import FileOfList, KnownLists, ListSource, MissingList, RemoteLists, StoredLists
from accredit.stores.rules import FoundList
from accredit.stores.seen_lists import SeenLists
from accredit.stores.sqlite.revocation_lists import remember_list

_REMEDY = "restore the list, or make it anew with `accredit revoke`"
_LATE = "the revocation lists can't be read in time"


class RevocationLists:
    """`ports.Revocations` over files of one list each and, if given, a store: an SQLite file, or a database.

    `keys` are the issuers' public keys by id. `on_problem` is called with each new problem, as one line for the
    program's log.
    """

    def __init__(
        self,
        files: Iterable[Path],
        keys: Mapping[str, HybridPublicKey],
        *,
        store: Path | RemoteLists | None = None,
        on_problem: Callable[[str], None] | None = None,
        before: "RevocationLists | None" = None,
    ) -> None:
        """`before` is the object that had the lists until now: its lists stay in force here, and older ones don't
        count."""
        self._keys = keys
        self._on_problem = on_problem
        self._before = before
        self._seen = SeenLists() if before is None else before._seen
        self._watched = [_Watched(FileOfList(path)) for path in files]
        self._remote = None if isinstance(store, Path) else store
        self._memory = store if isinstance(store, Path) else None
        if store is not None:
            self._watched.append(_Watched(StoredLists(store) if isinstance(store, Path) else store))
        self._known = _Watched(KnownLists(store, keys)) if isinstance(store, Path) else None
        """The lists that the store remembers, as long as no current list replaces them."""
        self._places = self._watched if self._known is None else [*self._watched, self._known]
        self._told: str | None = None
        self._unseen: str | None = None
        """Why the last attempt to read the lists failed as a whole, or None."""
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read all lists for the first time. Raises `ConfigurationError` for a list that is invalid or missing, and for
        one that was in force `before` and has no replacement.

        A database that does not answer is not an error here: it is asked again when an answer is needed.
        """
        if self._known is not None:
            with contextlib.suppress(StoreUnavailable):  # reading the store itself reports that
                self._known.look(self._keys)
            if self._known.problem is not None and self._on_problem is not None:
                self._on_problem(
                    f"{self._known.problem.what}; an older list of the same issuer would not be noticed now"
                )
        unread = self._read_all()
        for each in self._watched:
            if each.problem is not None:
                raise ConfigurationError(f"proofs.revocation: {each.problem.what}", each.problem.remedy)
        before, self._before = self._before, None
        for issuer_id, old in [] if before is None else _lists(before._watched):
            if issuer_id in self._keys and (fault := self._unreplaced(issuer_id, old)) is not None:
                what = f"the list of {issuer_id} does not count: {unread or fault}"
                raise ConfigurationError(f"proofs.revocation: {what}", _REMEDY)
        if self._missed() is not None:
            self._read_all()  # it may have come after the first look
        missed = self._missed()
        if missed is not None:
            raise ConfigurationError(f"proofs.revocation: {missed}", _REMEDY)

    def remember(self) -> None:
        """Store the loaded lists in the SQLite store's memory. If that fails, the next reading of the lists does it.
        Blocking."""
        with contextlib.suppress(StoreUnavailable):
            if self._memory is not None:
                self._remember(self._memory)

    async def is_revoked(self, cert_id: str) -> bool:
        """Return whether this id is in a list in force. Raises `StoreUnavailable` if the lists could not be read
        recently."""
        await self.check()
        return any(cert_id in each.revoked for each in self._places)

    def size(self) -> tuple[int, int]:
        """Return the number of lists in force and of the ids in them, as of the last time that the lists were read."""
        return sum(len(each.digests) for each in self._places), len(
            frozenset[str]().union(*(each.revoked for each in self._places))
        )

    async def list_of(self, issuer_id: str) -> bytes | None:
        """Return the text of an issuer's newest list in force, or None. Raises `StoreUnavailable`."""
        await self.check()
        held = [each.in_force[issuer_id] for each in self._places if issuer_id in each.in_force]
        return max(held, key=lambda each: each.list.updated_at).text if held else None

    def has_list(self, sha256: str) -> bool:
        """Return whether a list with this SHA-256 is in force, as of the last time that the lists were read."""
        return any(sha256 in each.digests for each in self._places)

    def problem(self) -> str | None:
        """Return why a list may be out of date, as of the last time that the lists were read; or None."""
        problems = [each.problem.what for each in self._watched if each.problem is not None]
        return "; ".join(([self._unseen] if self._unseen else []) + problems) or None

    async def check(self) -> None:
        """Read the lists, unless that was done in the last half second. Raises `StoreUnavailable`."""
        if not self._watched or time.monotonic() - self._looked_at < REVOCATION_CHECK_SECONDS:
            return
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(STORE_WAIT_SECONDS):
                await asyncio.shield(self._looking)
        except TimeoutError:
            self._unseen = _LATE
            self._tell()
        if self._unseen is not None:
            raise StoreUnavailable(self._unseen)

    async def watch(self) -> None:
        """Read the lists again and again until cancelled, so that `problem` is current even without calls."""
        while True:
            with contextlib.suppress(StoreUnavailable):  # `check` has reported it
                await self.check()
            await asyncio.sleep(REVOCATION_CHECK_SECONDS)

    async def _look(self) -> None:
        begun = time.monotonic()
        try:
            missed = await self._look_once() and await self._look_once()  # it may have come after the first look
            if missed is not None:
                raise StoreUnavailable(missed)
            if self._memory is not None and any(each.new_ones() for each in self._watched):
                await asyncio.to_thread(self._remember, self._memory)
        except StoreUnavailable as error:
            self._unseen = str(error)
        else:
            self._looked_at = begun
            self._unseen = None
        finally:
            self._looking = None
            self._tell()

    async def _look_once(self) -> str | None:
        """Read all lists. Return a message if an issuer's list was newer elsewhere ([newest]), or None. Raises
        `StoreUnavailable`."""
        if self._remote is not None:
            await self._remote.fetch()
        await asyncio.to_thread(self._look_at_all)
        return self._missed()

    def _read_all(self) -> str:
        """Read all lists, without an event loop. Return why the database could not be asked, or ""."""
        unread = ""
        if self._remote is not None:
            try:
                self._remote.fetch_once()
            except StoreUnavailable as error:
                unread = str(error)
        self._look_at_all()
        return unread

    def _look_at_all(self) -> None:
        """Read all lists. Blocking. Raises `StoreUnavailable`."""
        for each in self._watched:
            each.look(self._keys)
        for each in self._places:
            each.leave(self._is_replaced)
        for _, revoked in _lists(self._places):
            self._seen.note(revoked)

    def _is_replaced(self, issuer_id: str, old: RevocationList) -> bool:
        """Return whether a current list can replace `old`, which is gone from its place."""
        return any(
            _rollback(old, each.in_force[issuer_id].list) is None for each in self._watched if each.has(issuer_id)
        )

    def _unreplaced(self, issuer_id: str, old: RevocationList) -> str | None:
        """Return why no current list can replace `old`, which was in force; or None if one can. Remembered lists are
        left out here: they stay in force, but must not hide that a place now has an older list."""
        faults = [_rollback(old, revoked) for issuer, revoked in _lists(self._watched) if issuer == issuer_id]
        return None if None in faults else faults[0] if faults else "it is in none of the places that are named"

    def _missed(self) -> str | None:
        """Return a message if some worker had a newer list of an issuer in force than this one has ([newest]); else
        None."""
        for issuer_id in self._keys:
            here = [revoked for issuer, revoked in _lists(self._places) if issuer == issuer_id]
            if self._seen.misses(issuer_id, here):
                return f"the list of {issuer_id} was newer: {_REMEDY}"
        return None

    def _remember(self, store: Path) -> None:
        """Write the lists in force that are not stored yet to the store's memory. Blocking. Raises
        `StoreUnavailable`."""
        for each in self._watched:
            for issuer_id, held in each.new_ones():
                key = self._keys[issuer_id]
                remember_list(store, issuer_id, held.text, lambda old, held=held, key=key: _replaces(held, old, key))
            each.remembered()

    def _tell(self) -> None:
        problem = self.problem()
        if problem not in (None, self._told) and self._on_problem is not None:
            self._on_problem(problem)
        self._told = problem


class _Problem(NamedTuple):
    what: str
    remedy: str


class _Held(NamedTuple):
    list: RevocationList
    text: bytes
    sha256: str
    """The SHA-256 of the list's text, in lower-case hex."""


class _Watched:
    """A source of lists, and its lists in force. Blocking."""

    def __init__(self, source: ListSource) -> None:
        self.revoked: frozenset[str] = frozenset()
        self.digests: frozenset[str] = frozenset()
        """The SHA-256 of the lists in force, in lower-case hex."""
        self.in_force: dict[str, _Held] = {}
        """The lists in force, by issuer."""
        self._source = source
        self._stamp: object = None
        self._fault: _Problem | None = None
        self._gone: set[str] = set()
        """The issuers whose lists are still in force, but gone from the source."""
        self._remembered: dict[str, _Held] = {}

    @property
    def problem(self) -> _Problem | None:
        """This source's problem, if any."""
        if self._fault is None and self._gone:
            return self._named(f"the list of {min(self._gone)} is gone")
        return self._fault

    def has(self, issuer_id: str) -> bool:
        """Return whether an issuer's list was present when the source was last read."""
        return issuer_id in self.in_force and issuer_id not in self._gone

    def look(self, keys: Mapping[str, HybridPublicKey]) -> None:
        """Read what has changed in the source. An invalid list changes only `problem`. Raises `StoreUnavailable`."""
        try:
            stamp = self._source.stamp()
            if stamp == self._stamp:
                return
            found = self._source.read()
        except StoreUnavailable as error:
            self._stamp = None  # so that the next look reads again
            remedy = error.remedy if isinstance(error, MissingList) else "see to it that it can be read"
            self._fault = _Problem(str(error), remedy)
            _check_descriptors()
            return
        self._stamp = stamp
        gone = set(self.in_force)
        problem = None
        for each in found:
            issuer_id, fault = self._admit(each, keys)
            gone.discard(issuer_id)
            problem = problem or fault
        self._gone, self._fault = gone, problem
        self._count()

    def leave(self, is_replaced: Callable[[str, RevocationList], bool]) -> None:
        """Drop the lists that are gone from this source, if others replace them."""
        if isinstance(self._source, KnownLists):  # a remembered list need not exist any more
            self._gone = set(self.in_force)
        replaced = {each for each in self._gone if is_replaced(each, self.in_force[each].list)}
        if replaced and self._fault is None:
            self._gone -= replaced
            self.in_force = {issuer_id: held for issuer_id, held in self.in_force.items() if issuer_id not in replaced}
            self._count()

    def new_ones(self) -> list[tuple[str, _Held]]:
        """Return the lists that came into force since `remembered` was last called, with their issuers."""
        return [each for each in self.in_force.items() if self._remembered.get(each[0]) != each[1]]

    def remembered(self) -> None:
        """Note that all lists in force are stored in the memory."""
        self._remembered = dict(self.in_force)

    def _count(self) -> None:
        self.revoked = frozenset(cert_id for held in self.in_force.values() for cert_id in held.list.revoked_certs)
        self.digests = frozenset(held.sha256 for held in self.in_force.values())

    def _admit(self, found: FoundList, keys: Mapping[str, HybridPublicKey]) -> tuple[str, _Problem | None]:
        """Put a list in force if it is valid. Return its issuer, and the problem with it, or None."""
        text = found.text
        try:
            revoked = RevocationList.decode(text)
        except WireError as error:
            return "", self._named(f"not a revocation list: {str(error).removeprefix('wire: ')}")
        if found.row not in (None, revoked.issuer_id):
            return "", self._named(f"the list of {excerpt(revoked.issuer_id)} is in another issuer's row")
        key = keys.get(revoked.issuer_id)
        if key is None:
            return revoked.issuer_id, self._named(
                f"its issuer {excerpt(revoked.issuer_id)} is not known here",
                "name the issuer's public key in the configuration, or take the list out",
            )
        old = self.in_force.get(revoked.issuer_id)
        fault = revocation_list_fault(revoked, key) or _rollback(old.list if old is not None else None, revoked)
        if fault:
            return revoked.issuer_id, self._named(f"the list of {revoked.issuer_id} does not count: {fault}")
        self.in_force[revoked.issuer_id] = _Held(revoked, text, hashlib.sha256(text).hexdigest())
        return revoked.issuer_id, None

    def _named(self, what: str, remedy: str = _REMEDY) -> _Problem:
        return _Problem(f"{self._source.name}: {what}", remedy)


def _lists(places: Iterable[_Watched]) -> list[tuple[str, RevocationList]]:
    """Return all lists in force at some sources, with their issuers."""
    return [(issuer_id, held.list) for each in places for issuer_id, held in each.in_force.items()]


def _check_descriptors() -> None:
    """Raise `StoreUnavailable` if this process can't open as many files as reading the lists needs."""
    opened: list[int] = []
    try:
        for _ in range(2):
            opened += os.pipe()
    except OSError as error:
        raise StoreUnavailable(f"the revocation lists can't be read: {error.strerror}") from None
    finally:
        for each in opened:
            os.close(each)


def _rollback(old: RevocationList | None, new: RevocationList) -> str | None:
    if old is None or new.updated_at > old.updated_at:
        return None
    if new.updated_at < old.updated_at:
        return "it is older than the one in force"
    # Times are in seconds, and a list may be extended twice in one second.
    return None if set(old.revoked_certs) <= set(new.revoked_certs) else "it leaves out what one of the same second has"


def _replaces(held: _Held, old: bytes | None, key: HybridPublicKey) -> bool:
    """Return whether a list replaces the remembered one, `old`. It always does if `old` is None, or lacks a valid
    signature of its issuer."""
    if old is None:
        return True
    try:
        remembered = RevocationList.decode(old)
    except WireError:
        return True
    return revocation_list_fault(remembered, key) is not None or _rollback(remembered, held.list) is None
