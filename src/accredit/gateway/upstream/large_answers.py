"""Room for the large answers of one server: a hundred of 100 MiB would take the memory of all others.

1. An answer, or an event of a stream, takes no room up to `LARGE_ANSWER_BYTES`; beyond, it takes as much again each
   time that it has outgrown what it has, and gives all back when it has gone on.
2. There is `MAX_ANSWERS_BYTES` for all servers, and of several an equal part for each; two of the largest fit in any.
3. An answer that finds none waits for `BODY_ROOM_SECONDS`, unread, and is then refused as one that is too large. That
   of a child has come already, and other callers' answers come behind it: it is refused at once. So is its line that
   has not ended, of which nobody knows yet whose it is.
4. What is held more than once counts as often: an event, as it came and as its data (`EVENT_TIMES`); a list that the
   gateway asks for itself, until it was read (`ASKED_TIMES`). What an edited list becomes counts, where that is
   longer, until its client has read it. What a stream holds beside its event counts once. A Brotli decoder's window
   counts before anything is fed, as some bytes can fill all of it; a body counts at least as much as its window, unless
   it is decoded in one step. What would take more than its caller could ever have takes all of that, and is alone.
"""

from accredit.errors import AnswerError, RequestError
from accredit.gateway.room import RESERVED_SHARE, Holder, Parts, Room, Slot
from accredit.gateway.settings import GatewaySettings
from accredit.limits import BODY_ROOM_SECONDS, LARGE_ANSWER_BYTES

MAX_ANSWERS_BYTES = 134_217_728
"""Bytes of larger ones in memory at once, until each has gone on: eight of the default `max_response_bytes`."""
MAX_WAITING_ANSWERS = 64
"""Answers of one server that wait for such room, each with up to twice `HIGH_WATER_BYTES` that were read already, or
with as much as it holds."""


class _Server:
    """A server itself, as a holder: its own pipe is no stranger's to fill, and one line is all that is ever in it."""

    peer = ""
    proved = True


SERVER = _Server()


class LargeAnswers:
    """The room of one server."""

    def __init__(self, settings: GatewaySettings, parts: Parts) -> None:
        self._parts = parts
        self.room = Room("large answers", 0, waiting=MAX_WAITING_ANSWERS)
        self.fit(settings)

    def fit(self, settings: GatewaySettings) -> None:
        """Have the room that these settings ask for from now on."""
        self._largest = max(settings.max_response_bytes, settings.max_event_bytes)
        most = max(self._parts.of(MAX_ANSWERS_BYTES), 2 * self._largest)
        self.room.fit(most, int(most * RESERVED_SHARE) if settings.proving else 0)

    def of(self, holder: Holder, times: int = 1) -> "Held":
        """Return what one answer holds, which is nothing yet, and will count so many `times` (rule 4). Its owner must
        give it back."""
        return Held(self.room, holder, self._largest, times)


class Held:
    """The room that one answer holds."""

    __slots__ = ("_holder", "_largest", "_places", "_room", "_size", "_times")

    def __init__(self, room: Room, holder: Holder, largest: int, times: int = 1) -> None:
        self._times = times
        self._largest = largest
        self._room = room
        self._holder = holder
        self._places: list[Slot] = []
        self._size = LARGE_ANSWER_BYTES

    async def grow(self, size: int, beside: int = 0) -> None:
        """Have room for so many bytes, and for those `beside` them. Raises `AnswerError` (rule 3)."""
        missing = self._missing(size, beside)
        if missing <= 0:
            return
        try:
            # All at once: of many that each hold a part and wait for the next, none would go on.
            missing = max(missing, min(2 * self._size, self._largest) - self._size)
            self._places.append(await self._room.wait(self._holder, missing, BODY_ROOM_SECONDS))
            self._size += missing
        except RequestError:
            raise _full() from None

    def take(self, size: int) -> None:
        """Have room for so many bytes that have come already. Raises `AnswerError` (rule 3)."""
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
        """Have room for so many bytes, and for those `beside` them; none if they take none. Raises `AnswerError`
        (rule 3)."""
        if size + beside > LARGE_ANSWER_BYTES:
            await self.grow(size, beside)
        elif self._places:
            self.leave()

    def leave(self) -> None:
        """Give all back."""
        for place in self._places:
            place.leave()
        self._places.clear()
        self._size = LARGE_ANSWER_BYTES


def _full() -> AnswerError:
    return AnswerError("too many large answers of this server at once", bound=True)
