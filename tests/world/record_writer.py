"""A process that records calls as a gateway does, to be killed: `python -m tests.world.record_writer LOG CLOCK_MS`.

LOG is a file, or the URL of a database, whose writers count as dead as soon as they are silent and not connected.
For each call a line on stdout: `f ID` once it may be forwarded, `a ID` once the client may see the answer. It never
ends by itself; a call that is refused is followed by another one. I/O: the file, stdout.
"""

import asyncio
import os
import sys
from pathlib import Path

import uvloop
from tests.world.logs import place_in
from tests.world.records import GATEWAY, OK, POLICY, decided, gateway

from accredit.errors import StoreUnavailable
from accredit.stores.audit_log.places import FileLog, LogPlace
from accredit.stores.audit_log.process import LogProcess
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.postgres.address import SCHEME, parse_address

CLIENTS = 16


def say(what: str, call_id: str) -> None:
    os.write(1, f"{what} {call_id}\n".encode())  # one write, so that a kill leaves no half of a line


async def client(records: QueuedRecords) -> None:
    while True:
        call = decided()
        try:
            await records.begin(call)
            say("f", call.call.id)
            await records.finish(call, OK)
        except StoreUnavailable:
            await asyncio.sleep(0.01)  # what writes the log was killed, and is replaced within a second
        else:
            say("a", call.call.id)


def place_of(log: str) -> LogPlace:
    if log.startswith(SCHEME):
        return place_in(parse_address(log))
    return FileLog(Path(log), gateway=GATEWAY)


async def main(place: LogPlace, now_ms: int) -> None:
    records = QueuedRecords(
        LogProcess(place, gateway()[0]),
        durable=True,
        policy_digest=POLICY,
        on_problem=lambda _: None,
        clock=lambda: now_ms,
    )
    await asyncio.gather(*(client(records) for _ in range(CLIENTS)))


if __name__ == "__main__":
    uvloop.run(main(place_of(sys.argv[1]), int(sys.argv[2])))
