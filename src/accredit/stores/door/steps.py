"""Stores what the front door, the gateway's OAuth server, has to remember (`ports.DoorStore`), in any kind of store. No
I/O of its own (`runners`).

- [code] A code gives one login. Its first presentation uses it up, even if the request does not fit it. A used code is
  kept as long as its login can last; if it is presented again, that login ends.
- [rotation] Each use replaces a login's newest refresh token. If an older one is used, the login ends.
- [last-login] When its last login ends, a grant is forgotten, with the agent's key, its chains and its codes.
- [key] A grant is changed, or ended, only if it still has the key that the caller knew. So a delegation is never stored
  with a key that it is not for, and whoever ends an earlier consent doesn't end a later one.
- [bounds] The numbers of clients, of all grants, of one person's grants, and of one grant's logins, codes and chains
  are bounded. If one person has too many grants, those without a consent make room.
"""

import hmac
import secrets
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self, TypeVar

from msgspec import Struct, structs

from accredit.base.caching import RecentlyUsedInSize
from accredit.errors import StoreUnavailable
from accredit.limits import CLOCK_BACK_SECONDS
from accredit.ports import AuthorizationCode, Change, Grant, Login, Rejected
from accredit.rounds.sealing import NONCE_BYTES, KeyRing
from accredit.stores.door.rows import (
    MAX_DOOR_ROW_BYTES,
    KeptChain,
    KeptClient,
    KeptCode,
    KeptLogin,
    Kind,
    Place,
    Seals,
    client_key,
    grant_place,
    person_key,
    place_of,
)
from accredit.stores.runners import Runner, SteppedStore, Steps, reads, writes

MAX_REGISTERED_CLIENTS = 10_000
"""The most registered clients that are kept without anybody's consent: at up to 12 KiB each, 120 MB. Strangers can
register, so the one that ends first makes room for the next."""
MAX_DOOR_GRANTS = 100_000
"""The most grants in a store: at some 20 KB each, 2 GB. A grant is begun only for a person who has authenticated."""
MAX_GRANTS_OF_PERSON = 100
"""The most grants of one person, so that nobody uses up the room of others. Few people have so many programs. Those
without a consent make room for the next."""
MAX_LOGINS_OF_GRANT = 16
"""The most logins of one client for one person at one endpoint: that client on each of their computers. If there are
more, the one that would end first is ended."""
MAX_CODES_OF_GRANT = 2 * MAX_LOGINS_OF_GRANT
"""The most codes of one grant, including used ones whose login has not ended."""
MAX_CHAINS_OF_GRANT = 64
"""The most chains that are added to one grant. Each took a person's answer, and most end within the hour."""
GRANTS_OF_PAGE = 50
"""How many grants are read at once, where all are looked through: a megabyte."""
DOOR_SWEEP_ROWS = 200
"""Expired rows that one writing step deletes, in a millisecond or so; it adds two at most."""

MAX_OPENED_LOGINS, MAX_OPENED_LOGIN_BYTES = 1_024, 33_554_432
"""How many logins stay opened, and in how many bytes: each has some 40 KB, with its rows as they are sealed."""

_K = TypeVar("_K", bound=Struct)

_SHORT = f"length(value) <= {MAX_DOOR_ROW_BYTES}"
_FIND = f"SELECT parent, value FROM door WHERE kind = $1 AND key = $2 AND ends >= $3 AND {_SHORT}"  # noqa: S608
_LOGIN = (
    "SELECT l.value, g.key, g.parent, g.value FROM door l JOIN door g ON g.kind = $1 AND g.key = l.parent"  # noqa: S608
    f" WHERE l.kind = $2 AND l.key = $3 AND l.ends >= $4 AND g.ends >= $4 AND length(l.value) <= {MAX_DOOR_ROW_BYTES}"
    f" AND length(g.value) <= {MAX_DOOR_ROW_BYTES}"
)
_BELONGING = (
    f"SELECT key, value FROM door WHERE kind = $1 AND parent = $2 AND ends >= $3 AND {_SHORT}"  # noqa: S608
    " ORDER BY ends DESC LIMIT $4"
)
_PAGE = (
    f"SELECT key, parent, value FROM door WHERE kind = $1 AND key > $2 AND ends >= $3 AND {_SHORT}"  # noqa: S608
    " ORDER BY key LIMIT $4"
)
_PUT = (
    "INSERT INTO door (kind, key, parent, value, ends) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (kind, key) DO UPDATE SET parent = excluded.parent, value = excluded.value, ends = excluded.ends"
)
_DROP = "DELETE FROM door WHERE kind = $1 AND key = $2"
_DROP_BELONGING = "DELETE FROM door WHERE kind = $1 AND parent = $2"
_DROP_FIRST = (
    "DELETE FROM door WHERE kind = $1 AND key IN (SELECT key FROM door WHERE kind = $1 AND parent = $2"
    " ORDER BY ends LIMIT $3)"
)
_COUNT = "SELECT count(*) FROM door WHERE kind = $1"
_COUNT_BELONGING = "SELECT count(*) FROM door WHERE kind = $1 AND parent = $2"
_SWEEP = "DELETE FROM door WHERE (kind, key) IN (SELECT kind, key FROM door WHERE ends < $1 ORDER BY ends LIMIT $2)"

_STRANGERS, _CONSENTED = bytes(32), b"\1" * 32
"""The parents of clients' rows: of those that only registered, and of those to which somebody has consented."""


class Door(SteppedStore):
    """A `DoorStore`, sealed with the keys of `ring`."""

    def __init__(self, ring: KeyRing, runner: Runner | None = None) -> None:
        super().__init__(runner)
        self._seal_with(ring)

    def sealed_with(self, ring: KeyRing) -> Self:
        """Return the same store, whose rows are then sealed and opened with other keys."""
        other = copy(self)
        other._seal_with(ring)
        return other

    def _seal_with(self, ring: KeyRing) -> None:
        self._seals = Seals(ring)
        self._opened = RecentlyUsedInSize[tuple[Any, ...], Login](MAX_OPENED_LOGINS, MAX_OPENED_LOGIN_BYTES)
        """Logins by their sealed rows, as each call of a client asks for its login again."""

    @writes
    def register(self, client_id: str, document: bytes, *, ends: int, now: int) -> Steps[None]:
        """Keep a client's document. If there are too many, it replaces the one that ends first."""
        yield from self._sweep(now)
        yield from self._make_room(Kind.CLIENT, _STRANGERS, MAX_REGISTERED_CLIENTS)
        yield from self._put(Place(Kind.CLIENT, client_key(client_id), _STRANGERS), KeptClient(document, ends), ends)

    @reads
    def registered(self, client_id: str, *, now: int) -> Steps[bytes | None]:
        """Return a client's document, or None."""
        _, kept = yield from self._find(Kind.CLIENT, client_key(client_id), KeptClient, now)
        return kept.document if kept is not None else None

    @writes
    def begin(self, client_id: str, subject: str, resource: str, seeds: bytes, *, ends: int, now: int) -> Steps[Grant]:
        """Return the existing grant, or a new one. Raises `StoreUnavailable` if there is no room."""
        place = place_of(client_id, subject, resource)
        _, known = yield from self._find(Kind.GRANT, place.key, Grant, now)
        if known is not None:
            known = structs.replace(known, ends=max(known.ends, ends))
            yield from self._put(place, known, known.ends)
            return known
        yield from self._sweep(now)
        yield from self._end_grant(place.key)
        ((of_all,),) = yield _COUNT, (Kind.GRANT,)
        ((of_person,),) = yield _COUNT_BELONGING, (Kind.GRANT, place.parent)
        if of_person >= MAX_GRANTS_OF_PERSON:
            ended = yield from self._end_begun(place.parent, now)
            of_all, of_person = of_all - ended, of_person - ended
        if of_all >= MAX_DOOR_GRANTS or of_person >= MAX_GRANTS_OF_PERSON:
            raise StoreUnavailable("no room for one more grant of an OAuth client")
        grant = Grant(client_id, subject, resource, seeds, ends)
        yield from self._put(place, grant, ends)
        return grant

    @writes
    def approve(
        self, grant: Grant, change: Change, code: bytes, given: AuthorizationCode, *, ends: int, now: int
    ) -> Steps[bool]:
        """Change a grant, and keep a code for it. A client that registered is kept as long as the grant."""
        changed = yield from self._change(grant, change, now)
        if changed is None:
            return False
        place = grant_place(grant)
        yield from self._make_room(Kind.CODE, place.key, MAX_CODES_OF_GRANT)
        yield from self._put(Place(Kind.CODE, code, place.key), KeptCode(given, ends), ends)
        client, kept = yield from self._find(Kind.CLIENT, client_key(grant.client_id), KeptClient, now)
        if kept is not None:
            if client.parent != _CONSENTED:
                yield from self._make_room(Kind.CLIENT, _CONSENTED, MAX_DOOR_GRANTS)
            ends = max(kept.ends, changed.ends)
            yield from self._put(client._replace(parent=_CONSENTED), structs.replace(kept, ends=ends), ends)
        return True

    @writes
    def change(self, grant: Grant, change: Change, *, now: int) -> Steps[Grant | None]:
        """Change a grant, if it still exists with the same [key]."""
        return (yield from self._change(grant, change, now))

    def _change(self, grant: Grant, change: Change, now: int) -> Steps[Grant | None]:
        place, known = yield from self._known(grant, now)
        if known is None:
            return None
        changed = change(known)
        if (grant_place(changed), changed.seeds) != (place, known.seeds):
            raise ValueError("a grant keeps its client, person, endpoint and key")
        yield from self._put(place, changed, changed.ends)
        return changed

    @writes
    def redeem(
        self, code: bytes, fits: Callable[[AuthorizationCode], bool], *, login: bytes, token: bytes, now: int
    ) -> Steps[Login | Rejected]:
        """Use up a code: it gives one login."""
        yield from self._sweep(now)
        place, kept = yield from self._find(Kind.CODE, code, KeptCode, now)
        if kept is None:
            return Rejected.UNKNOWN
        if kept.login:
            yield from self._end_login(kept.login, place.parent)
            return Rejected.REUSED
        owner, grant = yield from self._find(Kind.GRANT, place.parent, Grant, now)
        if grant is None or not fits(kept.given):
            yield _DROP, (Kind.CODE, code)
            return Rejected.UNFIT
        yield from self._make_room(Kind.LOGIN, owner.key, MAX_LOGINS_OF_GRANT)
        begun = KeptLogin(token, code, kept.given.scopes, grant.ends)
        yield from self._put(Place(Kind.LOGIN, login, owner.key), begun, grant.ends)
        yield from self._put(place, structs.replace(kept, login=login, ends=grant.ends), grant.ends)
        return Login(grant, begun.scopes, begun.ends, token)

    @writes
    def rotate(self, login: bytes, old: bytes, new: bytes, *, client_id: str, now: int) -> Steps[Login | Rejected]:
        """Replace a login's refresh token. If `old` is not the newest one, end the login ([rotation])."""
        place, kept = yield from self._find(Kind.LOGIN, login, KeptLogin, now)
        if kept is None:
            return Rejected.UNKNOWN
        _, grant = yield from self._find(Kind.GRANT, place.parent, Grant, now)
        if grant is None or grant.client_id != client_id:
            return Rejected.UNKNOWN
        if not hmac.compare_digest(kept.token, old):
            yield from self._end_login(login, place.parent)
            return Rejected.REUSED
        yield from self._put(place, structs.replace(kept, token=new), kept.ends)
        return Login(grant, kept.scopes, kept.ends, new)

    @reads
    def login(self, login: bytes, *, now: int) -> Steps[Login | None]:
        """Return a login that has not ended, or None, with one statement."""
        rows = yield _LOGIN, (Kind.GRANT, Kind.LOGIN, login, now)
        if not rows:
            return None
        sealed = (login, *rows[0])
        known = self._opened.get(sealed)
        if known is None:
            value, key, parent, of_grant = rows[0]
            kept = self._seals.open(Place(Kind.LOGIN, login, key), value, KeptLogin, now)
            grant = self._seals.open(Place(Kind.GRANT, key, parent), of_grant, Grant, now)
            if kept is None or grant is None:
                return None
            known = Login(grant, kept.scopes, kept.ends, kept.token)
            self._opened.put(sealed, known, len(value) + len(of_grant) + len(grant.chain))
        return known if min(known.ends, known.grant.ends) >= now else None

    @writes
    def add_chain(self, grant: Grant, chain: bytes, *, ends: int, now: int) -> Steps[bool]:
        """Keep one more chain of a grant."""
        place, known = yield from self._known(grant, now)
        if known is None:
            return False
        yield from self._make_room(Kind.CHAIN, place.key, MAX_CHAINS_OF_GRANT)
        key = secrets.token_bytes(32)
        yield from self._put(Place(Kind.CHAIN, key, place.key), KeptChain(chain, ends), ends)
        return True

    @reads
    def chains(self, grant: Grant, *, now: int) -> Steps[tuple[bytes, ...]]:
        """Return the chains that were added to a grant."""
        owner = grant_place(grant).key
        rows = yield _BELONGING, (Kind.CHAIN, owner, now, MAX_CHAINS_OF_GRANT)
        opened = (self._seals.open(Place(Kind.CHAIN, key, owner), value, KeptChain, now) for key, value in rows)
        return tuple(each.chain for each in opened if each is not None)

    @writes
    def end_login(self, login: bytes, *, client_id: str, now: int) -> Steps[bool]:
        """End a login. If it was its grant's last one, forget the grant ([last-login]). Return whether there was such a
        login of this client."""
        place, kept = yield from self._find(Kind.LOGIN, login, KeptLogin, now)
        if kept is None:
            return False
        _, grant = yield from self._find(Kind.GRANT, place.parent, Grant, now)
        if grant is not None and grant.client_id != client_id:
            return False
        yield from self._end_login(login, place.parent)
        return True

    @writes
    def end_grant(self, grant: Grant) -> Steps[None]:
        """Forget a grant, and all that belongs to it, if it still has the same [key]."""
        place, known = yield from self._known(grant, 0)
        if known is not None:
            yield from self._end_grant(place.key)

    @writes
    def take_back(self, subject: str, holds: Callable[[bytes], bool], *, now: int) -> Steps[bool]:
        """Forget each grant of a person, and each chain added to one, that holds what the person has taken back. Return
        whether there was any."""
        person, found = person_key(subject), False
        for key, value in (yield _BELONGING, (Kind.GRANT, person, now, MAX_GRANTS_OF_PERSON)):
            grant = self._seals.open(Place(Kind.GRANT, key, person), value, Grant, now)
            if grant is not None and holds(grant.chain):
                yield from self._end_grant(key)
                found = True
                continue
            for name, text in (yield _BELONGING, (Kind.CHAIN, key, now, MAX_CHAINS_OF_GRANT)):
                added = self._seals.open(Place(Kind.CHAIN, name, key), text, KeptChain, now)
                if added is not None and holds(added.chain):
                    yield _DROP, (Kind.CHAIN, name)
                    found = True
        return found

    async def take_back_from_all(self, holds: Callable[[bytes], bool], *, now: int) -> bool:
        """Forget each grant, of whatever person, that holds what was taken back. Return whether there was any."""
        found, after = False, b""
        while True:
            grants, after = await self._page(after, now)
            for grant in grants:
                if holds(grant.chain):
                    await self.end_grant(grant)
                    found = True
            if not after:
                return found

    @reads
    def _page(self, after: bytes, now: int) -> Steps[tuple[Sequence[Grant], bytes]]:
        """Return some grants in the order of their keys, and the key after which the next ones come; b"" at the end."""
        rows = yield _PAGE, (Kind.GRANT, after, now, GRANTS_OF_PAGE)
        opened = (self._seals.open(Place(Kind.GRANT, key, parent), value, Grant, now) for key, parent, value in rows)
        last = rows[-1][0] if len(rows) == GRANTS_OF_PAGE else b""
        return [each for each in opened if each is not None], last

    def _known(self, grant: Grant, now: int) -> Steps[tuple[Place, Grant | None]]:
        place, known = yield from self._find(Kind.GRANT, grant_place(grant).key, Grant, now)
        if known is not None and not hmac.compare_digest(known.seeds, grant.seeds):
            return place, None
        return place, known

    def _end_login(self, login: bytes, owner: bytes) -> Steps[None]:
        yield _DROP, (Kind.LOGIN, login)
        ((left,),) = yield _COUNT_BELONGING, (Kind.LOGIN, owner)
        if not left:
            yield from self._end_grant(owner)

    def _end_begun(self, person: bytes, now: int) -> Steps[int]:
        """End the grants to which a person has not consented, and return how many there were: any website can make the
        browser of a logged-in person begin such grants."""
        ended = 0
        for key, value in (yield _BELONGING, (Kind.GRANT, person, now, MAX_GRANTS_OF_PERSON)):
            grant = self._seals.open(Place(Kind.GRANT, key, person), value, Grant, now)
            if grant is None or not grant.chain:
                yield from self._end_grant(key)
                ended += 1
        return ended

    def _end_grant(self, key: bytes) -> Steps[None]:
        yield _DROP, (Kind.GRANT, key)
        for kind in (Kind.CODE, Kind.LOGIN, Kind.CHAIN):
            yield _DROP_BELONGING, (kind, key)

    def _find(self, kind: Kind, key: bytes, of: type[_K], now: int) -> Steps[tuple[Place, _K | None]]:
        rows = yield _FIND, (kind, key, now)
        parent, value = rows[0] if rows else (b"", None)
        place = Place(kind, key, parent if isinstance(parent, bytes) else b"")
        return place, self._seals.open(place, value, of, now)

    def _put(self, place: Place, kept: Struct, ends: int) -> Steps[None]:
        value = self._seals.seal(place, kept, secrets.token_bytes(NONCE_BYTES))
        if len(value) > MAX_DOOR_ROW_BYTES:
            raise StoreUnavailable("what is to be kept of an OAuth client is too long")
        yield _PUT, (*place, value, ends)

    def _make_room(self, kind: Kind, owner: bytes, most: int) -> Steps[None]:
        ((count,),) = yield _COUNT_BELONGING, (kind, owner)
        if count >= most:
            yield _DROP_FIRST, (kind, owner, count - most + 1)

    def _sweep(self, now: int) -> Steps[None]:
        yield _SWEEP, (now - CLOCK_BACK_SECONDS, DOOR_SWEEP_ROWS)
