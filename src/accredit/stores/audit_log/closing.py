"""Ends the chains of dead writers: closes their open calls, and signs their chains' heads. I/O: locks (`places`),
and requests.

- [live-writers] A live writer is left alone. In a file, a writer's lock is tested here. In a database, the query that
  named the writer has already found it dead, and locked it.
- [verification] A chain is signed only if it verifies (`author`). If a call or chain of a writer does not, the writer
  is left open and reported. This process does not examine it again; a gateway that trusts more keys may close it.
"""

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from accredit.attest import Head
from accredit.limits import MAX_LEFT_WRITERS
from accredit.stores.audit_log.places import LogPlace
from accredit.stores.audit_log.requests import CloseCalls, End, Heartbeat, Sign, WriterRequest

MAX_UNVERIFIED_CALLS = 1_000
"""After so many open calls of one writer that do not verify, its other open calls are skipped, since checking each
takes a signature verification."""
MAX_LATE_RECORDS = 8
"""How often a dead writer's calls are looked for again, because one was opened since. Each time some process must have
written in the moment before. If calls are listed even then, somebody has listed what no writer lists."""


T = TypeVar("T")


class Run(Protocol):
    """Runs a request. Raises `StoreUnavailable`."""

    async def __call__(self, request: WriterRequest[T], /) -> T:
        """Return the request's answer."""
        ...


class Closing:
    """Ends dead writers in one log. There is one object for each log that is written. All methods raise
    `StoreUnavailable`."""

    def __init__(
        self,
        place: LogPlace,
        run: Run,
        policy_digest: str,
        clock: Callable[[], int],
        on_checkpoint: Callable[[Head], None],
        on_unverified: Callable[[str], None],
    ) -> None:
        """`on_checkpoint` gets each signed head. `on_unverified` is called once for each writer that was left open,
        with the reason."""
        self._place = place
        self._run = run
        self._policy_digest = policy_digest
        self._clock = clock
        self._on_checkpoint = on_checkpoint
        self._on_unverified = on_unverified
        self._told: Head | None = None
        self._left: dict[str, str] = {}
        """Why each writer here was left open, by the writer's name."""
        self._odd = 0

    @property
    def left(self) -> int:
        """How many writers were left open."""
        return len(self._left) + self._odd

    def problem(self) -> str | None:
        """Return, as a text for people, which writers were left open or unsigned because they do not verify; or
        None."""
        if not self.left:
            return None
        whose = next((f"{name}: {why}" for name, why in self._left.items()), "one has a name that no writer has")
        return f"{self.left} writers of the log are left open, as what it holds of them does not verify: {whose}"

    async def look(self, writer: str) -> None:
        """Report that the writer `writer` lives, and end the chains of dead ones."""
        others = await self._run(Heartbeat(writer, list(self._left)))
        self._left = {name: self._left[name] for name in others.still}
        if others.odd > self._odd:
            self._on_unverified("a writer of the log has a name that no writer has: it is left alone")
        self._odd = others.odd
        for other in others.found:
            if len(self._left) >= MAX_LEFT_WRITERS:
                return
            await self._end_if_dead(other, writer)

    async def _end_if_dead(self, other: str, writer: str) -> None:
        lock = await self._place.lock_writer(other)
        if lock is not None:
            with contextlib.closing(lock):
                if await self.end(other, writer):
                    lock.end()

    async def end(self, chain: str, writer: str) -> bool:
        """Close the open calls of a dead writer's chain, sign its head, and end it. Return whether all of that was
        done. If a late record is added to the chain meanwhile, start over."""
        why = ""
        for _ in range(MAX_LATE_RECORDS):
            fault = await self._close_calls(chain, writer)
            unsigned = await self.sign(writer, chain)
            if not unsigned and await self._run(End(writer, chain)):
                self._left.pop(chain, None)
                return True
            why = unsigned or fault
            if why:
                break
        self._leave(chain, why or "calls are listed as open that can't be found")
        return False

    async def sign(self, writer: str, chain: str) -> str:
        """Make sure that a checkpoint covers a chain, and report the chain's head. Return "", or why that was not
        done."""
        signed = await self._run(Sign(writer, chain, self._clock()))
        while signed.further is not None:  # between two steps the gateway's own records are written
            signed = await self._run(Sign(writer, chain, self._clock(), signed.further))
        if signed.head is not None and signed.head != self._told:
            self._told = signed.head
            self._on_checkpoint(signed.head)
        return signed.fault

    async def _close_calls(self, chain: str, writer: str) -> str:
        """Close the calls that a chain's writer left open. Return "", or why some were not closed."""
        after: str | None = ""
        faults, first = 0, ""
        while after is not None and faults < MAX_UNVERIFIED_CALLS:
            closed = await self._run(CloseCalls(writer, chain, self._clock(), self._policy_digest, after))
            after, faults, first = closed.after, faults + closed.faults, first or closed.fault
        return f"{faults} open calls do not verify: {first}" if faults else ""

    def _leave(self, chain: str, why: str) -> None:
        self._left[chain] = why
        self._on_unverified(f"writer {chain} is left open, as what the log holds of it does not verify: {why}")
