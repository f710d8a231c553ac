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
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Protocol

from accredit.base.budget import Budget
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
from accredit.policy.guarded_call import GUARDED

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


class AnonymousRecordBudget(Budget):
    """How many records anonymous callers may cause in a process ([anonymous-budget]). All servers share one budget."""

    __slots__ = ("_left_out",)

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(STRANGER_RECORDS, STRANGER_RECORDS_PER_SECOND, clock)
        self._left_out = 0

    def leave_out(self, counters: Counters) -> None:
        """Count a call that leaves no record."""
        self._left_out += 1
        counters.unrecorded(logged=self._left_out == 1)

    async def record(self, counters: Counters, begin: Callable[..., Awaitable[object]]) -> None:
        """Record a call by calling `begin`, with a `reason` that says how many calls before this one were left out."""
        left_out, self._left_out = self._left_out, 0
        try:
            await begin(reason=f"{left_out} refused requests before this one left no record" if left_out else None)
        except (ProofRefused, RequestError):
            self._left_out += left_out
            self.leave_out(counters)


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
        if token is None and (len(request.text) > MAX_STRANGER_MESSAGE_BYTES or not self._strangers.take()):
            self._strangers.leave_out(self._counters)
            return
        kept = self._bearer.without(request, call.brought) if self._bearer is not None else request
        if not isinstance(kept, Request):
            return
        # The session is left out: nobody has checked whose it is.
        source = Call(revision=call.revision, token=token)
        begin = partial(self._recorder.begin, kept, source, error, omit_arguments=token is None)
        await self._strangers.record(self._counters, begin)

    async def _unread(self, unread: UnreadRequest, call: Call) -> Frame | Batch | None:
        """Read the body for the record, within the bounds of [cases] and [anonymous-budget]. Return None if it does not
        fit."""
        if b"expect" in unread.head.headers:
            return None
        if call.token is None and not self._strangers.has_room():
            self._strangers.leave_out(self._counters)
            return None
        try:
            async with asyncio.timeout(STRANGER_BODY_SECONDS):
                text = await unread.body(MAX_STRANGER_MESSAGE_BYTES)
        except (TimeoutError, RequestError):
            self._strangers.leave_out(self._counters)
            return None
        except ClientGone:
            return None
        try:
            return decode_request(text, batch_allowed=call.revision == BATCH_REVISION)
        except RequestError:
            return None
