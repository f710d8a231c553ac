"""Which certificates are revoked, by signed lists in files and in a store. Reads files in threads.

A list is in force if, in this order:

1. it can be read and decodes strictly;
2. its issuer's public key is among those that were given;
3. that key signed it;
4. it is not older than the one in force; if it is of the same second, it has all ids of the one in force;
5. no worker that shares memory with this one has had a newer one in force (`seen_lists`): else there is no answer.

At the start, a list that is not valid is an error. A file that is not there yet, in a folder that is, holds no list:
`problem` says so until `accredit revoke` makes it. Later, the last good list of its issuer stays in force, and so it
does if the list disappears; `problem` says so. If this process has no file descriptors left to look with, there is no
answer: otherwise whoever can use them up could hide a revocation. Nor is there one while a database can't be asked. An
id counts for all certificates, whoever listed it.
Not checked: whether the list's issuer has issued that certificate.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from accredit.base.files import open_file
from accredit.base.text import excerpt
from accredit.errors import ConfigurationError, StoreUnavailable, WireError
from accredit.limits import (
    MAX_STATEMENT_BYTES,
    REVOCATION_CHECK_SECONDS,
    STORE_WAIT_SECONDS,
)
from accredit.ratify import HybridPublicKey, RevocationList, revocation_list_fault
from accredit.stores.seen_lists import SeenLists
from accredit.stores.sqlite.revocation_lists import list_versions, read_lists

_REMEDY = "restore the list, or make it anew with `accredit revoke`"
_LATE = "the revocation lists can't be read in time"


class ListSource(Protocol):
    """A place of lists. Both methods raise `StoreUnavailable`."""

    @property
    def name(self) -> str:
        """The place, for people."""
        ...

    def stamp(self) -> object:
        """Return a value that changes when the lists do, and is fast to get."""
        ...

    def read(self) -> Sequence[bytes]:
        """Return the present lists."""
        ...


class RemoteLists(ListSource, Protocol):
    """A place that has to be asked first. Both methods raise `StoreUnavailable`."""

    async def fetch(self) -> None:
        """Ask for what is new: `stamp` and `read` return that."""
        ...

    def fetch_once(self) -> None:
        """Do the same without an event loop, and leave nothing open."""
        ...


class RevocationLists:
    """`ports.Revocations` over files of one list each and, if given, a store: an SQLite file, or a database.

    `keys` are the issuers' public keys by id. `on_problem` is called with each new problem, in a line for the log.
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
        """`before` is who looked until now: what it has seen in one of these places is in force here, too, and an older
        list is none."""
        self._keys = keys
        self._on_problem = on_problem
        self._seen = SeenLists() if before is None else before._seen
        self._watched = [_Watched(_File(path)) for path in files]
        self._remote = None if isinstance(store, Path) else store
        if store is not None:
            self._watched.append(_Watched(_Stored(store) if isinstance(store, Path) else store))
        seen = {each.name: each for each in before._watched} if before is not None else {}
        for each in self._watched:
            each.go_on(seen.get(each.name), keys)
        self._told: str | None = None
        self._unseen: str | None = None
        """Why the last attempt could not even look at the lists, or None."""
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read all lists for the first time. Raises `ConfigurationError` for one that is not valid, or is gone.

        A file that is not there yet is a problem, which the next look tells. A database that does not answer is asked
        again when it is needed.
        """
        if self._remote is not None:
            with contextlib.suppress(StoreUnavailable):
                self._remote.fetch_once()
        for each in self._watched:
            each.look(self._keys)
            each.note(self._seen)
            if each.problem is not None and not each.awaited:
                raise ConfigurationError(f"proofs.revocation: {each.problem.what}", each.problem.remedy)

    async def is_revoked(self, cert_id: str) -> bool:
        """Return whether a list in force has this id. Raises `StoreUnavailable` if the lists could not be looked at
        lately."""
        await self.check()
        return any(cert_id in each.revoked for each in self._watched)

    def size(self) -> tuple[int, int]:
        """Return how many lists are in force, and how many certificates are in them, as of the last look."""
        return sum(len(each.digests) for each in self._watched), len(
            frozenset[str]().union(*(each.revoked for each in self._watched))
        )

    def has_list(self, sha256: str) -> bool:
        """Return whether a list with this SHA-256 is in force, as of the last look."""
        return any(sha256 in each.digests for each in self._watched)

    def problem(self) -> str | None:
        """Return why a list may be out of date, as of the last look, or None."""
        problems = [each.problem.what for each in self._watched if each.problem is not None]
        return "; ".join(([self._unseen] if self._unseen else []) + problems) or None

    async def check(self) -> None:
        """Look at the lists, unless that was done in the last half second. Raises `StoreUnavailable`."""
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
        """Check until cancelled, so that `problem` is known without calls, too."""
        while True:
            with contextlib.suppress(StoreUnavailable):  # `check` has reported it
                await self.check()
            await asyncio.sleep(REVOCATION_CHECK_SECONDS)

    async def _look(self) -> None:
        begun = time.monotonic()
        try:
            if self._remote is not None:
                await self._remote.fetch()
            for each in self._watched:
                await asyncio.to_thread(each.look, self._keys)
                each.note(self._seen)
            for each in self._watched:
                each.check_seen(self._seen, self._keys)
        except StoreUnavailable as error:
            self._unseen = str(error)
        else:
            self._looked_at = begun
            self._unseen = None
        finally:
            self._looking = None
            self._tell()

    def _tell(self) -> None:
        problem = self.problem()
        if problem not in (None, self._told) and self._on_problem is not None:
            self._on_problem(problem)
        self._told = problem


class _Problem(NamedTuple):
    what: str
    remedy: str


class _NotThere(StoreUnavailable):
    """A file that does not exist, in a folder that does."""


class _Watched:
    """A source, and which of its lists are in force. Blocking."""

    def __init__(self, source: ListSource) -> None:
        self.revoked: frozenset[str] = frozenset()
        self.digests: frozenset[str] = frozenset()
        """The SHA-256 of the lists in force, in lower-case hex."""
        self.problem: _Problem | None = None
        self.awaited = False
        """Whether the source is a file that is not there, and none of its lists was ever seen."""
        self._source = source
        self._stamp: object = None
        self._in_force: dict[str, RevocationList] = {}
        self._digests: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The place, for people."""
        return self._source.name

    def go_on(self, before: "_Watched | None", keys: Mapping[str, HybridPublicKey]) -> None:
        """Begin with what was in force until now, as far as its issuers are known."""
        if before is not None:
            self._in_force = {issuer: each for issuer, each in before._in_force.items() if issuer in keys}
            self._digests = {issuer: before._digests[issuer] for issuer in self._in_force}

    def look(self, keys: Mapping[str, HybridPublicKey]) -> None:
        """Read what is new. A list that is not valid changes only `problem`. Raises `StoreUnavailable`."""
        try:
            stamp = self._source.stamp()
            if stamp == self._stamp:
                return
            texts = self._source.read()
        except StoreUnavailable as error:
            self._stamp = None  # so that the next look reads again
            self.awaited = isinstance(error, _NotThere) and not self._in_force
            what = (
                f"{self._source.name}: there is no list yet; `accredit revoke` makes it" if self.awaited else str(error)
            )
            self.problem = _Problem(what, "see to it that it can be read")
            _check_descriptors()
            return
        self._stamp, self.awaited = stamp, False
        missing = dict(self._in_force)
        problem = None
        for text in texts:
            issuer_id, fault = self._admit(text, keys)
            missing.pop(issuer_id, None)
            problem = problem or fault
        for issuer_id in missing:
            problem = problem or self._fault(f"the list of {issuer_id} is gone")
        self.problem = problem
        self.revoked = frozenset(cert_id for each in self._in_force.values() for cert_id in each.revoked_certs)
        self.digests = frozenset(self._digests.values())

    def note(self, seen: SeenLists) -> None:
        """Say what is in force here."""
        for each in self._in_force.values():
            seen.note(self.name, each)

    def check_seen(self, seen: SeenLists, keys: Iterable[str]) -> None:
        """Apply rule 5. Raises `StoreUnavailable`."""
        for issuer_id in keys:
            if seen.misses(self.name, issuer_id, self._in_force.get(issuer_id)):
                raise StoreUnavailable(f"{self.name}: the list of {issuer_id} was newer: {_REMEDY}")

    def _admit(self, text: bytes, keys: Mapping[str, HybridPublicKey]) -> tuple[str, _Problem | None]:
        """Return a list's issuer, and why it is not valid, or None: then it is in force."""
        try:
            revoked = RevocationList.decode(text)
        except WireError as error:
            return "", self._fault(f"not a revocation list: {str(error).removeprefix('wire: ')}")
        key = keys.get(revoked.issuer_id)
        if key is None:
            return revoked.issuer_id, self._fault(
                f"its issuer {excerpt(revoked.issuer_id)} is not known here",
                "name the issuer's public key in the configuration, or take the list out",
            )
        fault = revocation_list_fault(revoked, key) or _rollback(self._in_force.get(revoked.issuer_id), revoked)
        if fault:
            return revoked.issuer_id, self._fault(f"the list of {revoked.issuer_id} does not count: {fault}")
        self._in_force[revoked.issuer_id] = revoked
        self._digests[revoked.issuer_id] = hashlib.sha256(text).hexdigest()
        return revoked.issuer_id, None

    def _fault(self, what: str, remedy: str = _REMEDY) -> _Problem:
        return _Problem(f"{self._source.name}: {what}", remedy)


def _check_descriptors() -> None:
    """Raise `StoreUnavailable` if this process can't open as many files as a look needs."""
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


class _File:
    """A file that holds one list."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def stamp(self) -> object:
        """Return its device, inode, size and time of change."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def read(self) -> Sequence[bytes]:
        """Return the one list."""
        try:
            with open_file(self._path) as file:
                # One byte more than may be decoded, so that a longer list is refused as too long.
                return [file.read(MAX_STATEMENT_BYTES + 1)]
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> StoreUnavailable:
        away = not os.path.lexists(self._path) and self._path.parent.is_dir()
        return (_NotThere if away else StoreUnavailable)(f"{self._path}: can't be read: {error.strerror}")


class _Stored:
    """An SQLite store with one list per issuer. It need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def stamp(self) -> object:
        """Return the file's inode, and the lists' versions."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: can't be read: {error.strerror}") from None
        return inode, list_versions(self._path)

    def read(self) -> Sequence[bytes]:
        """Return all lists."""
        return read_lists(self._path) if self._path.exists() else ()
