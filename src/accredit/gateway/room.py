"""Bounded room that anonymous callers share with authenticated ones: bounds, reserves, and eviction. No I/O.

A room has a fixed number of places (or bytes), which callers hold for a time.

- [reserve] A share is reserved for callers who have authenticated: with a valid token, or a proof in the same session.
  Anonymous callers never hold it. Where nobody can authenticate (tokens and proofs are off), nothing is reserved.
- [eviction] Before a newcomer is refused, a holder that allows it is evicted, if that is fair. For an authenticated
  newcomer, any anonymous holder may be evicted. For an anonymous newcomer, a holder may be evicted only if its address
  then still holds as much as the newcomer's. Behind a proxy that is not trusted all have one address:
  then no anonymous caller evicts another, and nobody is refused because of an address.
- [wait] A caller without a place waits a moment (`wait`), or is refused (`take`): 503 with `Retry-After`.

- [own-requests] The gateway's own requests keep their room until the answer was read (`until_read`), not only until it
  has arrived.

A place gives no rights: its holder is judged like every other caller.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.errors import RequestError
from accredit.jsonrpc.encode import UPSTREAM_ERROR
from accredit.limits import (
    BUSY_RETRY_SECONDS,
    MAX_CALLS,
    MAX_REMEMBERED_SESSION_BYTES,
    MAX_REMEMBERED_SESSIONS,
    MAX_STREAMS,
)

RESERVED_SHARE = 0.25
"""The share of each room that unauthenticated callers never get. It applies where tokens or proofs are required."""
MAX_LARGEST_BODIES = 16
"""How many requests of `max_request_bytes` are in memory at once, each until it is answered: 64 MiB by default. Smaller
requests share that room."""
MAX_BODIES_BYTES = 67_108_864
"""The room for the bodies of requests, in bytes, where `max_request_bytes` is smaller than 4 MiB."""
MAX_WAITING_BODIES = 64
"""How many requests may wait for room for their bodies, each with up to 320 KiB already read."""


class Holder(Protocol):
    """The holder of a place."""

    @property
    def peer(self) -> str:
        """The holder's address. All holders with the same address count as one caller."""
        ...

    @property
    def proved(self) -> bool:
        """Whether the holder has authenticated by now."""
        ...


class Slot(Struct, eq=False):
    """A place in a room, which must be given back. Used as a context manager, it cancels the task in the context if the
    place is evicted."""

    _room: "Room"
    holder: Holder
    size: int
    strange: bool
    _task: asyncio.Task[object] | None = None
    _gave_way: bool = False

    def give_way(self) -> None:
        """Give the place back, and cancel the task inside its `with`."""
        self.leave()
        if self._task is not None:
            self._gave_way = True
            self._task.cancel()

    def leave(self) -> None:
        """Give the place back. A second time does nothing."""
        self._room.left(self)

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._room.yields(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._room.yields_no_more(self)
        task, self._task = self._task, None
        if self._gave_way and task is not None and task.uncancel() == 0 and kind is asyncio.CancelledError:
            # `uncancel` counts: above zero, the task was cancelled by another as well (say, as the process stops),
            # which must stay.
            raise self._room.full() from None


class Reservation(Protocol):
    """Holds room. Calling `leave` a second time does nothing."""

    def leave(self) -> None:
        """Give the room back."""
        ...


_reading: ContextVar[list[Reservation] | None] = ContextVar("accredit_reading", default=None)


@contextmanager
def until_read() -> Generator[None]:
    """Until this context ends, keep all room that is requested in it, in any task."""
    kept: list[Reservation] = []
    before = _reading.set(kept)
    try:
        yield
    finally:
        _reading.reset(before)
        for each in kept:
            each.leave()


def leave_once_read(held: Reservation) -> None:
    """Give room back at the end of the current `until_read` context. Outside of one, give it back at once."""
    kept = _reading.get()
    if kept is None:
        held.leave()
    else:
        kept.append(held)


class Room:
    """Has `most` places, of which anonymous callers hold at most `most - reserved`. `what` names, in the plural, the
    things that take places.

    At most `waiting` callers wait for a place.
    """

    def __init__(self, what: str, most: int, reserved: int = 0, *, waiting: int = 0) -> None:
        self._what = what
        self._most = most
        self._for_strangers = most - reserved
        self._waiting = waiting
        self._places: set[Slot] = set()
        self._taken = 0
        self._taken_by_strangers = 0
        self._by_peer: dict[str, int] = {}
        self._yielding: dict[str, dict[Slot, None]] = {}
        self._waiters: set[asyncio.Future[None]] = set()

    def fit(self, most: int, reserved: int = 0) -> None:
        """Change the number of places; current holders keep theirs."""
        self._most, self._for_strangers = most, most - reserved

    def most_of(self, holder: Holder) -> int:
        """Return the most that this holder could ever have."""
        return self._most if holder.proved else self._for_strangers

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._taken

    def take(self, holder: Holder, size: int = 1) -> Slot:
        """Take a place. Raises `RequestError` (503) if there is none."""
        place = self._taken_place(holder, size)
        if place is None:
            raise self.full()
        return place

    @contextmanager
    def held(self, holder: Holder, *, yields: bool = False) -> Generator[None]:
        """Hold a place until the context ends. With `yields` it may be evicted. Raises `RequestError` (503)."""
        place = self.take(holder)
        try:
            with place if yields else nullcontext():
                yield
        finally:
            place.leave()

    async def wait(self, holder: Holder, size: int, seconds: float) -> Slot:
        """Take a place, waiting at most `seconds` until others leave. Raises `RequestError` (503)."""
        place = self._taken_place(holder, size)
        if place is not None:
            return place
        if len(self._waiters) >= self._waiting:
            raise self.full()
        try:
            async with asyncio.timeout(seconds):
                while place is None:
                    await self._next_left()
                    place = self._taken_place(holder, size)
        except TimeoutError:
            raise self.full() from None
        return place

    def left(self, place: Slot) -> None:
        """Take back a place, and wake waiting callers."""
        if place not in self._places:
            return
        self._places.remove(place)
        self._taken -= place.size
        if place.strange:
            self._no_strangers(place)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def yields(self, place: Slot) -> None:
        """From now on, allow the eviction of a place if an anonymous caller holds it."""
        if place.strange:
            self._yielding.setdefault(place.holder.peer, {})[place] = None

    def yields_no_more(self, place: Slot) -> None:
        """Stop allowing the eviction of a place."""
        places = self._yielding.get(place.holder.peer, {})
        if places.pop(place, place) is None and not places:
            del self._yielding[place.holder.peer]

    def recount(self) -> None:
        """Check again which holders have authenticated: their places no longer count as anonymous."""
        for place in self._places:
            if place.strange and place.holder.proved:
                self._no_strangers(place)

    def full(self) -> RequestError:
        """Return the refusal for lack of a place."""
        detail = f"Too many {self._what}"
        return RequestError(UPSTREAM_ERROR, detail, status=503, retry_after=BUSY_RETRY_SECONDS)

    def _taken_place(self, holder: Holder, size: int) -> Slot | None:
        strange = not holder.proved
        while self._taken + size > self._most or (strange and self._taken_by_strangers + size > self._for_strangers):
            if not self._make_room(holder, size, strange=strange):
                return None
        place = Slot(self, holder, size, strange)
        self._places.add(place)
        self._taken += size
        if strange:
            self._taken_by_strangers += size
            self._by_peer[holder.peer] = self._by_peer.get(holder.peer, 0) + size
        return place

    def _make_room(self, holder: Holder, size: int, *, strange: bool) -> bool:
        """Evict a holder by [eviction]. Return whether one could be evicted.

        The oldest place of the address that holds most goes first.
        """
        held = self._by_peer
        least = held.get(holder.peer, 0) + size if strange else 0
        for peer in sorted(self._yielding, key=held.__getitem__, reverse=True):
            place = next(iter(self._yielding[peer]))
            if held[peer] - place.size >= least:
                place.give_way()
                return True
        return False

    def _no_strangers(self, place: Slot) -> None:
        """Stop counting a place as an anonymous caller's."""
        if self._yielding:
            self.yields_no_more(place)
        place.strange = False
        self._taken_by_strangers -= place.size
        peer = place.holder.peer
        self._by_peer[peer] -= place.size
        if not self._by_peer[peer]:
            del self._by_peer[peer]

    async def _next_left(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


class EqualShares:
    """Divides a process's bounds among its `servers`. A reload may change their number."""

    __slots__ = ("servers",)

    def __init__(self, servers: int = 1) -> None:
        self.servers = servers

    def of(self, most: int, least: int = 1) -> int:
        """Return a server's equal part of `most`, but no less than `least`."""
        return max(most // self.servers, min(least, most))


ALONE = EqualShares()
"""The division for a single server, which gets everything."""


class Rooms:
    """The rooms for one server in one process, and the sessions that have authenticated. `proving` says that callers
    can authenticate, by tokens or proofs.

    `max_body` is the largest size of a request's body, in bytes. If there are several `servers`, each has an equal
    part: otherwise two servers that hang could take every client's connection. One body fits in any part.
    """

    def __init__(self, max_body: int, *, proving: bool, servers: int = 1, merged: int = 0) -> None:
        """`merged` is the number of servers behind a merged endpoint. Only the room for bodies is divided by it: the
        endpoint's calls and streams are bounded by the rooms of these servers."""
        self._sessions = RecentlyUsed[bytes, bool](MAX_REMEMBERED_SESSIONS)
        self.streams, self.calls = Room("streams", 0), Room("calls", 0)
        self.bodies = Room("large or slow requests", 0, waiting=MAX_WAITING_BODIES)
        self.fit(max_body, proving=proving, servers=servers, merged=merged)

    def fit(self, max_body: int, *, proving: bool, servers: int, merged: int = 0) -> None:
        """Resize the rooms to new settings; current holders keep their places."""
        self._proving = proving
        bodies, shares = max(MAX_BODIES_BYTES, MAX_LARGEST_BODIES * max_body), max(servers, merged)
        if shares > 1:
            bodies = max(bodies // shares, 2 * max_body)
        streams, calls = map(EqualShares(servers).of, (MAX_STREAMS, MAX_CALLS))
        reserved = RESERVED_SHARE if proving else 0.0
        self.streams.fit(streams, int(streams * reserved))
        self.calls.fit(calls, int(calls * reserved))
        self.bodies.fit(bodies, int(bodies * reserved))

    def proved(self, session: bytes) -> None:
        """Note that a session has authenticated. `session` is the client's id for it."""
        if len(session) > MAX_REMEMBERED_SESSION_BYTES:
            return
        known = session in self._sessions
        self._sessions.put(session, True)
        if not known:
            self.streams.recount()

    def has_proved(self, session: bytes) -> bool:
        """Return whether a session has authenticated, as far as is remembered."""
        return self._proving and session in self._sessions
