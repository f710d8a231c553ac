"""Records of calls that are refused before the gate sees them. I/O: the log, through the recorder.

A refused request is recorded if its body is a valid message that holds a call, or a batch that holds several.

- [cases] If the Authorization header or the session of HTTP+SSE is refused, the body is still unread. It is then read
  for the record alone, if it is short and comes at once. It is never read if the client waits to be asked for it
  (`Expect`).
- [same-answer] The client gets the same answer as without a record, but only after the record is made. If the log
  fails, the call stays refused.
- [anonymous-budget] Callers without a valid token are anonymous. What they can write to the log is bounded: the rate of
  records, and the length of a message. Their arguments are not recorded. Calls beyond these bounds are counted
  (`/readyz`) and logged, and the next such record states their number.

Not recorded, as they hold no call: GET and DELETE, another Content-Type, two session ids, an invalid message, a
disallowed `Host` or `Origin`.
"""

import asyncio
from time import monotonic
from typing import Protocol

from accredit.errors import AccreditError, ClientGone, KeysUnavailable, ProofRefused, RequestError, TokenError
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.headers import RequestHead
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.turns import turn
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import BATCH_REVISION
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.policy import GUARDED

STRANGER_RECORDS = 1_000
"""How many records a process may write in a burst for unauthenticated calls that are refused before the gate. Each
takes some 1.3 KiB. Somebody who can merely reach the gateway must neither fill its disk nor displace others'
records."""
STRANGER_RECORDS_PER_SECOND = 1.0
"""How many more such records are allowed each second: 100 MB a day at most. A person who tries tokens by hand causes
fewer."""
MAX_STRANGER_MESSAGE_BYTES = 262_144
"""How long a message with such a call may be, in bytes. Calls have some 10 KB at most, and digesting 4 MiB takes some
20 ms."""
STRANGER_BODY_SECONDS = 1.0
"""How long to wait for the body of a request whose header was refused. It usually follows the head at once; otherwise
it is not awaited."""


REFUSALS = (RequestError, TokenError, KeysUnavailable)
"""The errors with which a message is refused before the gate."""


class UnreadRequest(Protocol):
    """A request whose body is still unread."""

    head: RequestHead

    async def body(self, limit: int) -> bytes:
        """Return the whole body, of at most `limit` bytes. Raises `RequestError` and `ClientGone`."""
        ...


class AnonymousRecordBudget:
    """How many records anonymous callers may cause in a process ([anonymous-budget]). All servers share one budget."""

    def __init__(self) -> None:
        self.left_out = 0
        """How many calls were left out since the last record of an anonymous caller."""
        self._room = float(STRANGER_RECORDS)
        self._filled = monotonic()

    def has_room(self) -> bool:
        """Return whether one more record is allowed now."""
        now = monotonic()
        more = (now - self._filled) * STRANGER_RECORDS_PER_SECOND
        self._room, self._filled = min(self._room + more, STRANGER_RECORDS), now
        return self._room >= 1

    def take(self) -> None:
        """Count one more record as written."""
        self._room -= 1


class EarlyRefusals:
    """Records calls that are refused before the gate. One per server; without a `recorder` it does nothing."""

    def __init__(
        self,
        recorder: Recorder | None,
        bearer: Bearer | None,
        counters: Counters,
        strangers: AnonymousRecordBudget | None = None,
    ) -> None:
        """`strangers` is the process's budget for anonymous callers. By default this object has its own."""
        self._recorder = recorder
        self._bearer = bearer
        self._counters = counters
        self._strangers = strangers or AnonymousRecordBudget()

    async def of_request(self, unread: UnreadRequest | None, call: Call, error: AccreditError) -> None:
        """Record the calls of a refused request. `unread` gives its body, if that is still unread."""
        if self._recorder is None:
            return
        if call.message is None and unread is not None and (not isinstance(error, RequestError) or error.word):
            call = Call(await self._unread(unread, call), revision=call.revision, token=call.token)
        if call.message is not None:
            await self.of_message(call, error)

    async def of_message(self, call: Call, error: AccreditError) -> None:
        """Record the calls in a refused message."""
        for each in call.each():
            if isinstance(each.message, Request) and each.message.method in GUARDED:
                await turn(len(call.message.text) if call.message is not None else 0)
                await self._record(each.message, each, error)

    async def _record(self, request: Request, call: Call, error: AccreditError) -> None:
        if self._recorder is None:
            return
        token = call.token
        if token is None and (len(request.text) > MAX_STRANGER_MESSAGE_BYTES or not self._strangers.has_room()):
            self._leave_out()
            return
        if token is None:
            self._strangers.take()
        kept = self._bearer.without(request, call.brought) if self._bearer is not None else request
        if not isinstance(kept, Request):
            return
        strangers = self._strangers
        left_out, strangers.left_out = strangers.left_out, 0
        reason = f"{left_out} refused requests before this one left no record" if left_out else None
        try:
            # The session is left out: nobody has checked whose it is.
            source = Call(revision=call.revision, token=token)
            await self._recorder.begin(kept, source, error, reason=reason, omit_arguments=token is None)
        except (ProofRefused, RequestError):
            strangers.left_out += left_out
            self._leave_out()

    async def _unread(self, unread: UnreadRequest, call: Call) -> Frame | Batch | None:
        """Read the body for the record, within the bounds of [cases] and [anonymous-budget]. Return None if it does not
        fit."""
        if b"expect" in unread.head.headers:
            return None
        if call.token is None and not self._strangers.has_room():
            self._leave_out()
            return None
        try:
            async with asyncio.timeout(STRANGER_BODY_SECONDS):
                text = await unread.body(MAX_STRANGER_MESSAGE_BYTES)
        except (TimeoutError, RequestError):
            self._leave_out()
            return None
        except ClientGone:
            return None
        try:
            return decode_request(text, batch_allowed=call.revision == BATCH_REVISION)
        except RequestError:
            return None

    def _leave_out(self) -> None:
        self._strangers.left_out += 1
        self._counters.unrecorded(logged=self._strangers.left_out == 1)
