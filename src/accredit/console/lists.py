"""Revocation lists, in files or in gateways' stores: reads those of people whom a desk knows, and extends an issuer's
own. Blocking I/O.

A list that is read counts if it is readable and signed by its issuer, and the issuer is one of these: the desk's own
person, a person whose public key is in its folder, or the root of a chain in the log. Lists of others, such as an
agent's, are named on the page, but revoke nothing.

A list is extended by these rules:

- [existing-list] The existing list must be whole, and the issuer's own. If it could be forged, the issuer would sign a
  list that lacks entries.
- [turns] Writers of one list take turns, so that no entry is lost. Somebody who may only read there can't take a turn.
- [time] All entries stay. The list's time never goes back, even if it is ahead of this machine's: gateways ignore a
  list that is older than theirs.
- [new-list] A new list without entries has the lowest time there is. So it is older than any list that was lost, and no
  gateway takes it for a later one.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.base.files import beside, open_locked
from accredit.base.standard import standing_for
from accredit.console.settings import DeskSettings
from accredit.errors import ConfigurationError, StoreUnavailable, WireError
from accredit.keys import SigningKey, public_keys_in, read_file, replace_file, write_file
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ratify import HybridPublicKey, RevocationList, issue_revocation_list, revocation_list_fault
from accredit.stores import LogStore, parse_store_url
from accredit.stores.rules import FoundList, ListChange

OWN_LIST = "revoked.json"
"""The name of the person's revocation list in the desk's folder, if gateways elsewhere are all that they have."""

_BEGINNING = 0
"""The time of a list without entries, in unix seconds ([new-list])."""

_Extend = Callable[[bytes | None], bytes]
"""Takes a list's bytes (None: there is no list yet) and returns those of the new one."""

KeyOf = Callable[[str], HybridPublicKey | None]


class ListPlace(Struct, frozen=True):
    """A place for a list, with its name for people."""

    place: Path | LogStore
    name: str


class SeenList(Struct, frozen=True):
    """A list as found. `fault` says why it is not used, or could not be read. `issuer_id` is "" if it is unreadable.
    `updated_at` is in unix seconds. `sha256` is the digest of the list's bytes, in lower-case hex."""

    where: str
    issuer_id: str = ""
    updated_at: int = 0
    revoked: frozenset[str] = frozenset()
    fault: str = ""
    sha256: str = ""


def list_places(settings: DeskSettings) -> list[ListPlace]:
    """Return the places of the person's own list, from `desk.toml`. If it names only gateways elsewhere, the list is
    in the desk's folder: so the desk remembers what was taken back. Raises `ConfigurationError`."""
    store = parse_store_url(settings.store, settings.folder).lasting if settings.store else None
    places = [] if store is None else [ListPlace(store, store.name)]
    file = settings.revocation_list
    if settings.at and not places and file is None:
        file = settings.folder / OWN_LIST
    return places if file is None else [*places, ListPlace(file, str(file))]


def people_in(folder: Path | None) -> dict[str, HybridPublicKey]:
    """Return the public keys of people in a folder, by id."""
    keys = public_keys_in(folder) if folder is not None else ()
    return {key.id: key.public_key for _, key in keys if key.kind == "human"}


def see_lists(places: Sequence[ListPlace], key_of: KeyOf, *, untouched: bool = False) -> list[SeenList]:
    """Read the lists at these places. With `untouched`, a store's file and its folder stay as they are."""
    return [seen for each in places for seen in _at(each, key_of, untouched)]


def revoked_ids(lists: Sequence[SeenList]) -> frozenset[str]:
    """Return the ids revoked by the lists without a `fault`."""
    return frozenset(cert_id for each in lists if not each.fault for cert_id in each.revoked)


def _at(place: ListPlace, key_of: KeyOf, untouched: bool) -> list[SeenList]:
    try:
        if not isinstance(place.place, Path):
            return [_read_list(place.name, each, key_of) for each in place.place.read_lists(untouched=untouched)]
        with suppress(OSError):
            if not place.place.exists():
                return []
        return [_read_list(place.name, FoundList(read_file(place.place, MAX_STATEMENT_BYTES).data), key_of)]
    except StoreUnavailable as error:
        return [SeenList(place.name, fault=f"it can't be read now: {error}")]
    except ConfigurationError as error:
        return [SeenList(place.name, fault=error.what)]


def _read_list(where: str, found: FoundList, key_of: KeyOf) -> SeenList:
    try:
        said = RevocationList.decode(found.text)
    except WireError:
        return SeenList(where, fault="it is no revocation list")
    if found.row not in (None, said.issuer_id):
        return SeenList(where, fault="it is in another issuer's row")
    key = key_of(said.issuer_id)
    fault = revocation_list_fault(said, key) if key is not None else "its issuer's public key is not known here"
    return SeenList(
        where,
        said.issuer_id,
        said.updated_at,
        frozenset(said.revoked_certs),
        fault or "",
        hashlib.sha256(found.text).hexdigest(),
    )


def revoke(cert_id: str, key: SigningKey, place: ListPlace) -> ListChange:
    """Add a certificate's id to the key's list at a place. Raises `ConfigurationError`; nothing has changed then."""
    return _change_list(place.place, key, lambda old: _extend_list(old, cert_id, key, place.name))


def begin_list(key: SigningKey, place: ListPlace) -> ListChange:
    """Create the key's list at a place, without entries. If there is such an empty list already, it stays as it is.
    Raises `ConfigurationError`, also if the list has entries; nothing has changed then."""

    def begin(old: bytes | None) -> bytes:
        if old is None:
            return issue_revocation_list(key.signer, (), _BEGINNING).encode() + b"\n"
        held = len(_verify_list(old, key, place.name).revoked_certs)
        if held:
            raise ConfigurationError(
                f"{place.name} is there, and holds {held} in all: an empty list would take that back",
                "leave it as it is, or name another file",
            )
        return old

    return _change_list(place.place, key, begin)


def _change_list(place: Path | LogStore, key: SigningKey, extend: _Extend) -> ListChange:
    return _in_file(place, extend) if isinstance(place, Path) else _in_store(place, key, extend)


def _in_file(path: Path, extend: _Extend) -> ListChange:
    if standing_for(path) is not None:  # whoever sent it there writes it, too
        before = read_file(path, MAX_STATEMENT_BYTES).data or None
        return ListChange(before, extend(before))
    with _list_lock(path):
        before = read_file(path, MAX_STATEMENT_BYTES).data if _exists(path) else None
        after = extend(before)
        if before is None:
            write_file(path, after, replace=True)
        elif after != before:  # another user's gateway may read it: its owner and mode are kept
            replace_file(path, after, old=before)
    return ListChange(before, after)


@contextlib.contextmanager
def _list_lock(list_file: Path) -> Generator[None]:
    """Wait for other changes of a list, and keep others out. Anyone who can read the list or its folder could lock it
    forever, and so prevent any revocation. So the lock is a separate, temporary file that no other user can open."""
    real = Path(os.path.realpath(list_file))
    path = beside(real, f".{real.name}.lock")
    try:
        lock = _lock(path)
    except OSError as error:
        raise ConfigurationError(
            f"can't lock {list_file}: {error.strerror}", "name a file in a folder of this machine, yours to write"
        ) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _lock(path: Path) -> int:
    """Make and lock a file, and return its descriptor. Raises `OSError`."""
    while True:
        lock = open_locked(path, waits=True)
        if os.fstat(lock).st_nlink:  # else whoever had it has removed it: the next one makes another
            return lock
        os.close(lock)


def _exists(list_file: Path) -> bool:
    try:
        list_file.stat()
    except FileNotFoundError:
        return False
    except OSError:  # it may exist: an unreadable list is no reason to start a new one
        return True
    return True


def _in_store(store: LogStore, key: SigningKey, extend: _Extend) -> ListChange:
    try:
        return store.change_list(key.about.id, extend)
    except StoreUnavailable as error:
        raise ConfigurationError(f"not revoked: {error}", "try again, or name a file: --list FILE") from None


def _extend_list(old: bytes | None, cert_id: str, key: SigningKey, where: str) -> bytes:
    before: tuple[str, ...] = ()
    updated_at = unix_seconds()
    if old is not None:
        current = _verify_list(old, key, where)
        if cert_id in current.revoked_certs:
            return old
        before, updated_at = current.revoked_certs, max(updated_at, current.updated_at)
    try:
        return issue_revocation_list(key.signer, (*before, cert_id), updated_at).encode() + b"\n"
    except WireError as error:
        raise ConfigurationError(f"{where} can't take another entry: {error.reason}", "begin a new list") from None


def _verify_list(data: bytes, key: SigningKey, where: str) -> RevocationList:
    try:
        current = RevocationList.decode(data)
    except WireError as error:
        what = str(error).removeprefix("wire: ")
        raise ConfigurationError(
            f"{where} is not a revocation list: {what}", "name a file that holds a revocation list"
        ) from None
    if current.issuer_id != key.about.id:
        raise ConfigurationError(
            f"{where} is the list of {current.issuer_id}, and the key is {key.about.name}'s ({key.about.id})",
            "name that issuer's key, or another file: each issuer has a list",
        )
    fault = revocation_list_fault(current, key.about.public_key)
    if fault:
        raise ConfigurationError(
            f"{where} was changed after it was signed: {fault}", "restore it, or begin a new list in another file"
        )
    return current
