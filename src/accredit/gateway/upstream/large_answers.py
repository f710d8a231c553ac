"""Room for the large answers of one server. Without this bound, a hundred answers of 100 MiB would use up the memory of
the process.

- [small] Up to `LARGE_ANSWER_BYTES`, an answer, or an event of a stream, needs no room. A larger one reserves room. The
  reservation is doubled each time that it is outgrown, and ends once the answer was forwarded.
- [shares] There is `MAX_ANSWERS_BYTES` for all servers, in equal parts. Each part is at least as large as two of the
  largest answers.
- [wait] An answer without room waits for `BODY_ROOM_SECONDS`, unread, and is then refused as too large. A child's
  answer has arrived already, and other callers' answers are behind it, so it is refused at once. So is a child's
  unfinished line, whose recipient is not known yet.
- [copies] Bytes that are held several times count once for each copy. An event is held raw and as its data
  (`EVENT_TIMES`). A list that the gateway requests itself is held until it was read (`ASKED_TIMES`). An edited list
  counts with its new length, if that is longer, until its client has read it. A stream's other bytes count once. A
  Brotli decoder's window counts before anything is fed to the decoder, as a few bytes can fill it. A body counts at
  least as much as its window, unless it is decoded in one step. An answer may exceed all the room that its caller could
  ever have. It then takes all of that room, alone.
"""

from accredit.errors import AnswerError, RequestError
from accredit.gateway.room import RESERVED_SHARE, EqualShares, Holder, Room, Slot
from accredit.gateway.settings import GatewaySettings
from accredit.limits import BODY_ROOM_SECONDS, LARGE_ANSWER_BYTES

MAX_ANSWERS_BYTES = 134_217_728
"""How many bytes of large answers are in memory at once, each until it was forwarded: eight of the default
`max_response_bytes`."""
MAX_WAITING_ANSWERS = 64
"""How many answers of one server may wait for room. Of each, up to twice `HIGH_WATER_BYTES` were read already, or as
many bytes as it has reserved."""


class _Server:
    """Holds room in the server's own name, for the bytes in a child's pipe. It counts as authenticated, and holds one
    line at most."""

    peer = ""
    proved = True


SERVER = _Server()


class LargeAnswers:
    """The room for the large answers of one server."""

    def __init__(self, settings: GatewaySettings, parts: EqualShares) -> None:
        self._parts = parts
        self.room = Room("large answers", 0, waiting=MAX_WAITING_ANSWERS)
        self.fit(settings)

    def fit(self, settings: GatewaySettings) -> None:
        """Apply these settings' bounds from now on."""
        self._largest = max(settings.max_response_bytes, settings.max_event_bytes)
        most = max(self._parts.of(MAX_ANSWERS_BYTES), 2 * self._largest)
        self.room.fit(most, int(most * RESERVED_SHARE) if settings.proving else 0)

    def of(self, holder: Holder, times: int = 1) -> "AnswerReservation":
        """Return an empty reservation for one answer, whose bytes count `times` times ([copies]). Call `leave()` when
        done."""
        return AnswerReservation(self.room, holder, self._largest, times)


class AnswerReservation:
    """One answer's reservation."""

    __slots__ = ("_holder", "_largest", "_places", "_room", "_size", "_times")

    def __init__(self, room: Room, holder: Holder, largest: int, times: int = 1) -> None:
        self._times = times
        self._largest = largest
        self._room = room
        self._holder = holder
        self._places: list[Slot] = []
        self._size = LARGE_ANSWER_BYTES

    async def grow(self, size: int, beside: int = 0) -> None:
        """Reserve room for `size` bytes of the answer, and for `beside` other bytes. Wait for it if need be. Raises
        `AnswerError` ([wait])."""
        missing = self._missing(size, beside)
        if missing <= 0:
            return
        try:
            # All at once: many that each hold a part and wait for the next would deadlock.
            missing = max(missing, min(2 * self._size, self._largest) - self._size)
            self._places.append(await self._room.wait(self._holder, missing, BODY_ROOM_SECONDS))
            self._size += missing
        except RequestError:
            raise _full() from None

    def take(self, size: int) -> None:
        """Reserve room for `size` bytes that have arrived already, without waiting. Raises `AnswerError` ([wait])."""
        missing = self._missing(size)
        if missing <= 0:
            return
        try:
            self._places.append(self._room.take(self._holder, missing))
            self._size += missing
        except RequestError:
            raise _full() from None

    def _missing(self, size: int, beside: int = 0) -> int:
        if size + beside <= LARGE_ANSWER_BYTES:
            return 0
        return min(size * self._times + beside, LARGE_ANSWER_BYTES + self._room.most_of(self._holder)) - self._size

    async def fit(self, size: int, beside: int = 0) -> None:
        """Make sure that room is reserved for `size` bytes of the answer, and for `beside` other bytes. If these bytes
        are few, give back all room instead. Raises `AnswerError` ([wait])."""
        if size + beside > LARGE_ANSWER_BYTES:
            await self.grow(size, beside)
        elif self._places:
            self.leave()

    def leave(self) -> None:
        """Give back all that is reserved."""
        for place in self._places:
            place.leave()
        self._places.clear()
        self._size = LARGE_ANSWER_BYTES


def _full() -> AnswerError:
    return AnswerError("too many large answers of this server at once", bound=True)
