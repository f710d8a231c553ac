"""What a log says of calls, read as anybody would: for tests. Also a log that fails on demand. I/O: the log's file."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.world.records import GATEWAY, POLICY, gateway

from accredit.attest import CallDecision, CallRecord, LogReport, LogSigner, Outcome, RecordKey, RecordSigner, in_short
from accredit.errors import StoreUnavailable
from accredit.stores.audit_log.places import FileLog
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.writer import LogThread


def thread(path: Path, signer: LogSigner, *, durable: bool = True) -> LogThread:
    """A thread that writes a log, as the gateway has it for one that is or is not `durable`."""
    return LogThread(FileLog(path, "FULL" if durable else "NORMAL", GATEWAY), signer)


def records_at(path: Path, *, durable: bool = True, signer: RecordSigner | None = None) -> QueuedRecords:
    """The log in a file, signed by the gateway of `tests.world.records`, or its records by another signer."""
    signing = replace(gateway()[0], records=signer)
    return QueuedRecords(
        thread(path, signing, durable=durable), durable=durable, policy_digest=POLICY, on_problem=lambda _: None
    )


def records_of(path: Path) -> list[CallRecord]:
    """All records of calls, in their order."""
    if not path.exists():
        return []
    try:
        with LogFile(path) as log:
            return [record for each in log.entries() if (record := each.record()) is not None]
    except StoreUnavailable:  # nothing was written yet
        return []


def calls_of(path: Path) -> list[dict[str, Any]]:
    """Each call with what was decided and what came of it, in the order of the decisions."""
    found: dict[str, dict[str, Any]] = {}
    for record in records_of(path):
        if record.decision is not None:
            plain = msgspec.to_builtins(record.decision)
            found[record.call.id] = {"target": record.call.target, "status": None, **plain, "record": record}
        elif record.outcome is not None:
            call = found[record.call.id]
            assert call["status"] is None, "two outcomes"
            assert call["record"].decision.goes_on, "an outcome of a call that was refused"
            call.update(msgspec.to_builtins(record.outcome))
    return list(found.values())


def outcomes(path: Path) -> list[tuple[str, str | None]]:
    """Target and status of each call, None for one that is open."""
    return [(call["target"], call["status"]) for call in calls_of(path)]


def open_targets(path: Path) -> list[str]:
    """The targets of allowed calls that have no outcome yet."""
    return [call["target"] for call in calls_of(path) if call["status"] is None and call["record"].decision.goes_on]


def verified(path: Path, *more: RecordKey) -> LogReport:
    """The verdict on a log, where the gateway's key is trusted, and `more`."""
    with LogFile(path) as log:
        return log.verify([gateway()[1], *more])


class MemoryRecords:
    """A log in memory that takes everything and keeps nothing, for fakes that keep what they look at."""

    async def begin(self, decided: CallDecision) -> None:
        """As `ports.Records.begin`."""

    def finish(self, decided: CallDecision, outcome: Outcome) -> asyncio.Future[None]:
        """As `ports.Records.finish`."""
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def claim(self, resume: bytes) -> CallDecision | None:
        """Nobody else has begun a call."""
        return None

    def problem(self) -> str | None:
        """Nothing is wrong with it."""

    def unverified(self) -> str | None:
        """All of it is good."""

    async def ready(self) -> bool:
        """It is."""
        return True

    async def aclose(self) -> None:
        """Nothing is open."""


class FailingRecords(MemoryRecords):
    """A log in memory that takes no outcomes, or no decisions either."""

    def __init__(self, *, decisions: bool = True) -> None:
        self._decisions = decisions
        self.begun: list[CallDecision] = []
        self.outcomes: list[Outcome] = []

    async def begin(self, decided: CallDecision) -> None:
        if not self._decisions:
            raise StoreUnavailable("/var/lib/secret-place.db is full")
        self.begun.append(decided)

    def finish(self, decided: CallDecision, outcome: Outcome) -> asyncio.Future[None]:
        assert decided in map(in_short, self.begun)
        self.outcomes.append(outcome)
        return asyncio.ensure_future(self.write())

    async def write(self) -> None:
        raise StoreUnavailable("/var/lib/secret-place.db is full")

    def problem(self) -> str | None:
        return "the disk is full"

    async def ready(self) -> bool:
        return False
