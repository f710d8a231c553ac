"""A backend whose requests are measured, used only with telemetry. Reads a clock.

It wraps one server's backend, so requests of the merged endpoint are measured at each server.
"""

from collections.abc import Coroutine, Mapping
from time import perf_counter
from typing import Any, cast

from accredit.errors import MessageId
from accredit.gateway.upstream.reply import Backend, Reply
from accredit.jsonrpc.frames import Frame, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.telemetry.operations import Meter, Operation, Operations
from accredit.telemetry.tracing import current_message


class MeasuredBackend:
    """Passes requests to `backend`, and reports each one to `meter`."""

    def __init__(self, backend: Backend, meter: Meter) -> None:
        self._backend = backend
        self._meter = meter

    def post(
        self, reply: Reply, message: Frame | Batch, era: Era, edits: Mapping[MessageId, Edit]
    ) -> Coroutine[Any, Any, None]:
        """Answer a client's message."""
        if isinstance(message, Request):
            operation = message.watcher
            if isinstance(operation, Operation) and operation.meter is self._meter and not operation.sent:
                # Same server in and out: one operation measures both.
                operation.sent = perf_counter()
                if operation.traced is not None:
                    message = self._meter.in_trace(message, operation)
                return self._backend.post(reply, message, era, edits)
        message, operations = self._meter.sent(message)
        return self._followed(operations, self._backend.post(reply, message, era, edits))

    async def _followed(self, operations: Operations, posting: Coroutine[Any, Any, None]) -> None:
        try:
            await posting
        except BaseException as error:
            self._meter.received(operations, error)
            raise
        self._meter.received(operations)

    async def get(self, reply: Reply, otherwise: Edit | None) -> None:
        """Serve a long-lived stream, or resume one."""
        await self._backend.get(reply, otherwise)

    async def delete(self, reply: Reply) -> None:
        """End a session."""
        await self._backend.delete(reply)

    async def ask(self, reply: Reply, era: Era, request: Request, most: int | None = None) -> bytes | None:
        """Send one of the gateway's own requests, as part of the current message."""
        message = current_message()
        parent = message.watcher if isinstance(message, Request) else None
        sent, operations = self._meter.sent(request, parent)
        try:
            answer = await self._backend.ask(reply, era, cast("Request", sent), most)
        except BaseException as error:
            self._meter.received(operations, error)
            raise
        self._meter.received(operations)
        return answer

    async def ready(self) -> bool:
        """Return whether the upstream answers."""
        return await self._backend.ready()

    def drain(self) -> None:
        """End the long-lived streams."""
        self._backend.drain()

    async def aclose(self) -> None:
        """Release all resources."""
        await self._backend.aclose()
