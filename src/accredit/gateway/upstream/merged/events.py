"""Maps the judged events of one server's stream for the client of several. No I/O.

1. An answer's text stays: it was mapped where it was judged (`results`). On a resumed stream it passes if it answers
   the stream's own request. Other messages are mapped (`messages`), or dropped, including a request whose id could not
   be kept apart: its server waits in vain.
2. An event's id becomes one of the merged endpoint, or is left out if that would be too long.
3. Notifications that `hears` refuses (others' tasks), or that name another subscription than the stream's, are dropped.
4. On a stream shared by several servers, answers end nothing and comments are the gateway's: neither passes.
"""

import contextlib
import logging
from collections.abc import Callable

from msgspec import Raw

from accredit.base.log_events import log_event
from accredit.base.steps import Steps, at_one_go
from accredit.errors import FrameError, MessageId
from accredit.gateway.counters import Counters
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.merged.messages import Outward
from accredit.jsonrpc.frames import (
    MESSAGE,
    Failure,
    Notification,
    Request,
    Success,
    decode_frame_in_steps,
    frame_of,
    message_id,
    message_in_steps,
)
from accredit.jsonrpc.long_text import may_hold_any
from accredit.jsonrpc.methods import META_SUBSCRIPTION
from accredit.jsonrpc.objects import unambiguous_members
from accredit.jsonrpc.sse import Event, SseParser, encode_event, pieces
from accredit.limits import LONG_ANSWER_BYTES, SHORT_MESSAGE_BYTES

_log = logging.getLogger("accredit.gateway.merged")
Hears = Callable[[Notification], Notification | None]
_ID_LINE = (b"id:", b"id\r", b"id\n")


class EventMapper:
    """Bytes of a server's stream in, bytes for the client out. `id_outside` maps an event's id.

    `subscription` is the id of the request that opened the stream, if that is a subscription; `may_answer` returns
    whether the stream may answer a request's id. On a shared stream `answered` gets the text of each answer (rule 4).
    `seen` gets each notification for the client, and returns whether it passes.
    """

    def __init__(
        self,
        outward: Outward,
        id_outside: Callable[[bytes], bytes | None],
        *,
        max_event_bytes: int,
        counters: Counters,
        hears: Hears | None = None,
        subscription: MessageId | None = None,
        may_answer: Callable[[MessageId], bool] | None = None,
        answered: Callable[[bytes], None] | None = None,
        seen: Callable[[Notification], bool] | None = None,
    ) -> None:
        self._outward = outward
        self._id_outside = id_outside
        self._parser = SseParser(max_event_bytes)
        self._counters = counters
        self._hears = hears
        self._subscription = subscription
        self._may_answer = may_answer
        self._answered = answered
        self._seen = seen

    def feed(self, chunk: bytes) -> bytes:
        """Map a stream's next bytes. Raises `AnswerError` if a bound is exceeded."""
        return b"".join(at_one_go(self._mapped(event)) for event in self._parser.feed(chunk))

    async def feed_in_turns(self, chunk: bytes) -> bytes:
        """Do so in turns if the bytes are many."""
        if len(chunk) <= SHORT_MESSAGE_BYTES:
            return self.feed(chunk)
        mapped: list[bytes] = []
        for piece in pieces(chunk):
            await next_turn()
            mapped += [await in_turns(self._mapped(event)) for event in self._parser.feed(piece)]
        return b"".join(mapped)

    def _mapped(self, event: Event) -> Steps[bytes]:
        if not event.data:
            return self._without_data(event)
        found = yield from self._members(event.data)
        yield
        if "method" not in found:
            return (yield from self._answer(event, event.data))
        try:
            call = frame_of(found, event.data)
            mapped = (yield from self._call(call)) if isinstance(call, Request | Notification) else None
        except FrameError:
            mapped = None  # an error here would come again whenever the stream is resumed
        if mapped is None:
            self._counters.counts["notifications_dropped"] += 1
            return self._place(event)
        yield
        text = mapped.text
        yield
        return encode_event(text, name=event.name, id=self._id(event))

    def _members(self, text: bytes) -> Steps[dict[str, Raw]]:
        """Return the members of a message that may be a call; none if it is invalid and only observed."""
        try:
            if not (yield from may_hold_any(Raw(text), b"method")):
                return {}
            if len(text) > LONG_ANSWER_BYTES:
                return (yield from message_in_steps(text))
            return unambiguous_members(text, MESSAGE)
        except FrameError:
            return {}

    def _call(self, call: Request | Notification) -> Steps[Request | Notification | None]:
        if isinstance(call, Request):
            return self._outward.request(call)
        mapped = self._outward.notification(call)
        yield
        if mapped is None or self._is_of_another(mapped) or (self._seen is not None and not self._seen(mapped)):
            return None
        if self._hears is None:
            return mapped
        yield
        return self._hears(mapped)

    def _is_of_another(self, notification: Notification) -> bool:
        """Return whether a notification names another subscription than the stream's."""
        named = notification.in_meta(META_SUBSCRIPTION)
        return named is not None and message_id(named) != self._subscription

    def _answer(self, event: Event, text: bytes) -> Steps[bytes]:
        if self._answered is None:
            return self._with_id(event) if (yield from self._is_due(text)) else self._place(event)
        self._answered(text)
        return self._place(event)

    def _is_due(self, text: bytes) -> Steps[bool]:
        if self._may_answer is None:
            return True
        with contextlib.suppress(FrameError):
            response = yield from decode_frame_in_steps(text)
            if isinstance(response, Success | Failure) and response.id is not None and self._may_answer(response.id):
                return True
        log_event(_log, logging.WARNING, "response_dropped", detail="it answers what another server was asked")
        return False

    def _without_data(self, event: Event) -> bytes:
        """Return a comment, or an event with an id only."""
        if event.id is not None:
            return self._place(event) if self._answered is not None else self._with_id(event)
        return b"" if self._answered is not None else event.raw

    def _with_id(self, event: Event) -> bytes:
        if event.id is None:
            return event.raw
        id = self._id(event)
        lines = event.raw.splitlines(keepends=True)
        bare = b"".join([line for line in lines if not line.startswith(_ID_LINE)])
        return b"id: %s\n%s" % (id, bare) if id is not None else bare

    def _place(self, event: Event) -> bytes:
        """Return an event that only marks the stream's position."""
        id = self._id(event)
        return b"id: %s\n\n" % id if id is not None else b""

    def _id(self, event: Event) -> bytes | None:
        return self._id_outside(event.id) if event.id else None
