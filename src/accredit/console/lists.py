"""The revocation lists that a desk can read: in a gateway's store, and in the file that `desk.toml` names. Blocking
I/O.

A list is used here if it is readable and signed by its issuer, and the issuer is one of these: the desk's own person, a
person whose public key is in its folder, or the root of a chain in the log. Lists of others, such as an agent's, are
named on the page, but revoke nothing.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from accredit.console.settings import DeskSettings
from accredit.errors import ConfigurationError, StoreUnavailable, WireError
from accredit.keys import public_keys_in, read_file
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ratify import HybridPublicKey, RevocationList, revocation_list_fault
from accredit.stores import LogStore, parse_store_url

OWN_LIST = "revoked.json"
"""The name of the person's revocation list in the desk's folder, if gateways elsewhere are all that they have."""

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
    found = public_keys_in(folder) if folder is not None else ()
    return {key.id: key.public_key for _, key in found if key.kind == "human"}


def see_lists(places: Sequence[ListPlace], key_of: KeyOf) -> list[SeenList]:
    """Read the lists at these places."""
    return [seen for each in places for seen in _at(each, key_of)]


def revoked_ids(lists: Sequence[SeenList]) -> frozenset[str]:
    """Return the ids revoked by the lists without a `fault`."""
    return frozenset(cert_id for each in lists if not each.fault for cert_id in each.revoked)


def _at(place: ListPlace, key_of: KeyOf) -> list[SeenList]:
    try:
        if not isinstance(place.place, Path):
            return [_read_list(place.name, text, key_of) for text in place.place.read_lists()]
        with suppress(OSError):
            if not place.place.exists():
                return []
        return [_read_list(place.name, read_file(place.place, MAX_STATEMENT_BYTES).data, key_of)]
    except StoreUnavailable as error:
        return [SeenList(place.name, fault=f"it can't be read now: {error}")]
    except ConfigurationError as error:
        return [SeenList(place.name, fault=error.what)]


def _read_list(where: str, text: bytes, key_of: KeyOf) -> SeenList:
    try:
        found = RevocationList.decode(text)
    except WireError:
        return SeenList(where, fault="it is no revocation list")
    key = key_of(found.issuer_id)
    fault = revocation_list_fault(found, key) if key is not None else "its issuer's public key is not known here"
    return SeenList(
        where,
        found.issuer_id,
        found.updated_at,
        frozenset(found.revoked_certs),
        fault or "",
        hashlib.sha256(text).hexdigest(),
    )
