"""Calls that are refused before the gate sees them: these have records as well. Asks the log, through the recorder.

A refused request is a call, or several in a batch, where its body is a valid message that says so.

1. Where the Authorization header is refused, or the session of HTTP+SSE, nobody has asked for the body: it is read for
   the record alone, as far as it comes at once and is short, and never when the client waits to be asked (`Expect`).
2. The answer is what it would be without a record, and waits for it. Where the log can't take it, it stays a refusal.
3. Callers without a good token are strangers. What they can write is bounded: so many records in so much time, none for
   a long message, and no arguments. What is left out is counted (`/readyz`), logged, and told by the next such record.

Not recorded, as they say of no call: GET and DELETE, another Content-Type, two session ids, what is no valid message,
a disallowed `Host` or `Origin`.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from msgspec import Struct

from accredit.errors import AccreditError, ClientGone, KeysUnavailable, ProofRefused, RequestError, TokenError
from accredit.gateway.admission.bearer import Bearer, Caller
from accredit.gateway.counters import Counters
from accredit.gateway.headers import RequestHead
from accredit.gateway.recording.recorder import Client, Recorder
from accredit.gateway.turns import turn
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import BATCH_REVISION, Era
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.limits import (
    MAX_STRANGER_MESSAGE_BYTES,
    STRANGER_BODY_SECONDS,
    STRANGER_RECORDS,
    STRANGER_RECORDS_PER_SECOND,
)
from accredit.policy import GUARDED
from accredit.tokens import VerifiedToken

REFUSALS = (RequestError, TokenError, KeysUnavailable)
"""How a message is refused before the gate."""


class InboundRequest(Struct):
    """What is known of what a client sent so far: its message, its era, and the good token of its header or of each of
    the messages in it, as far as they were judged. `session` is the one that it is in, as the client knows it, or "".
    `callers` are who sent its messages, where that is more than a token."""

    revision: str | None = ""
    message: Frame | Batch | None = None
    era: Era = Era.LEGACY
    session: str = ""
    header: VerifiedToken | None = None
    tokens: list[VerifiedToken | None] = []
    callers: list[Caller] | None = None


class Unread(Protocol):
    """A request whose body nobody has read."""

    head: RequestHead

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises `RequestError` and `ClientGone`."""
        ...


class EarlyRefusals:
    """One per gateway. Without a `recorder` it does nothing."""

    def __init__(self, recorder: Recorder | None, bearer: Bearer | None, counters: Counters) -> None:
        self._recorder = recorder
        self._bearer = bearer
        self._counters = counters
        self._room = float(STRANGER_RECORDS)
        self._filled = monotonic()
        self._left_out = 0

    async def of_request(self, unread: Unread | None, inbound: InboundRequest, error: AccreditError) -> None:
        """Records the calls of a message that is refused; `unread` is who has it, as long as nobody has read it."""
        if self._recorder is None:
            return
        message = inbound.message
        if message is None and unread is not None and (not isinstance(error, RequestError) or error.word):
            message = await self._unread(unread, inbound)
        if message is not None:
            await self.of_message(message, Client(revision=inbound.revision), error, inbound.tokens, inbound.header)

    async def of_message(
        self,
        message: Frame | Batch,
        client: Client,
        error: AccreditError,
        tokens: Sequence[VerifiedToken | None] = (),
        header: VerifiedToken | None = None,
    ) -> None:
        """Records the calls of a message that is refused. `tokens` are those of its first members, `header` that of the
        others."""
        for number, frame in enumerate(message.frames if isinstance(message, Batch) else (message,)):
            if isinstance(frame, Request) and frame.method in GUARDED:
                await turn(len(message.text))
                await self._record(frame, client, error, tokens[number] if number < len(tokens) else header)

    async def _record(self, call: Request, client: Client, error: AccreditError, token: VerifiedToken | None) -> None:
        if self._recorder is None:
            return
        if token is None and (len(call.text) > MAX_STRANGER_MESSAGE_BYTES or not self._has_room()):
            self._leave_out()
            return
        if token is None:
            self._room -= 1
        kept = self._bearer.without(call) if self._bearer is not None else call
        if not isinstance(kept, Request):
            return
        left_out, self._left_out = self._left_out, 0
        note = f"{left_out} refused requests before this one left no record" if left_out else None
        try:
            await self._recorder.begin(kept, None, client, error, token=token, note=note, stranger=token is None)
        except (ProofRefused, RequestError):
            self._left_out += left_out
            self._leave_out()

    async def _unread(self, unread: Unread, inbound: InboundRequest) -> Frame | Batch | None:
        """Rule 1."""
        if b"expect" in unread.head.headers:
            return None
        if inbound.header is None and not self._has_room():
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
            return decode_request(text, batch_allowed=inbound.revision == BATCH_REVISION)
        except RequestError:
            return None

    def _has_room(self) -> bool:
        now = monotonic()
        more = (now - self._filled) * STRANGER_RECORDS_PER_SECOND
        self._room, self._filled = min(self._room + more, STRANGER_RECORDS), now
        return self._room >= 1

    def _leave_out(self) -> None:
        self._left_out += 1
        self._counters.unrecorded(logged=self._left_out == 1)
