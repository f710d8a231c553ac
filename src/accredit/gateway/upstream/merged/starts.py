"""`initialize` at several servers at once, some of which start slowly. I/O through their backends; tasks.

1. The client waits `MERGED_ASK_SECONDS` for them; if none has answered and a command is still starting, it waits for
   the first.
2. A command that has not answered by then continues to start, within its own `timeout_seconds`: its session has an id
   already, so it can be part of the client's. The gateway tells it that it is initialized as soon as it has answered,
   before anything that waits for it.
3. Any other server that has not answered is not in the session. The other attempts leave nothing behind.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Raw

from accredit.gateway.upstream.merged.aside import Aside
from accredit.gateway.upstream.merged.ways import MemberAccess
from accredit.gateway.upstream.stdio.backend import StdioBackend
from accredit.gateway.upstream.stdio.sessions import HeadStart
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import Era
from accredit.limits import MERGED_ASK_SECONDS

Hello = dict[str, Raw]


class Starts:
    """The starts of one client's session, each in a task. `hello_of` returns the `initialize` result of a server that
    starts a session."""

    def __init__(
        self,
        ways: MemberAccess,
        asides: Mapping[str, Aside],
        request: Request,
        hello_of: Callable[[Aside], Hello | None],
    ) -> None:
        self._ways = ways
        self._asides = asides
        self._hello_of = hello_of
        backends = {name: ways.members[name].backend for name in asides}
        self._ahead = {name: HeadStart() for name, each in backends.items() if isinstance(each, StdioBackend)}
        self.tasks = {name: asyncio.create_task(self._begin(name, request)) for name in asides}

    async def answered(self) -> tuple[dict[str, Hello], dict[str, bytes]]:
        """Wait for answers (rule 1). Return the results so far, and the session ids of the servers that are still
        starting (rule 2)."""
        await asyncio.wait(self.tasks.values(), timeout=MERGED_ASK_SECONDS)
        while not (hellos := self._hellos()) and self._starting():
            left = [task for task in self.tasks.values() if not task.done()]
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        going_on = {name: self._ahead[name].session for name in self._starting() if self._ahead[name].session}
        for name, task in self.tasks.items():
            if not task.done():
                self._ways.late(name)
                if name in going_on:
                    self._ahead[name].confirmed = True
                else:
                    task.cancel()
        return hellos, going_on

    def cancel(self) -> None:
        """Cancel the remaining starts."""
        for task in self.tasks.values():
            task.cancel()

    def _hellos(self) -> dict[str, Hello]:
        done = [name for name, task in self.tasks.items() if task.done()]
        for name in done:
            self.tasks[name].result()  # nothing, unless there is a defect here
        return {name: hello for name in done if (hello := self._hello_of(self._asides[name])) is not None}

    def _starting(self) -> list[str]:
        return [name for name in self._ahead if not self.tasks[name].done()]

    async def _begin(self, name: str, request: Request) -> None:
        aside, backend = self._asides[name], self._ways.members[name].backend
        if isinstance(backend, StdioBackend):
            await self._ways.one(name, aside, backend.begin(aside, request, self._ahead[name]))
        else:
            await self._ways.one(name, aside, backend.post(aside, request, Era.LEGACY, {}))
