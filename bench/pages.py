"""How long the desk's pages take in a long log.

`python -m bench.pages [--calls N]` writes a log of N calls (two records each; all but a hundred are copies), runs
`accredit desk --read-only` and Chromium. Medians of wall time, of the same desk:

- the page Calls, from its address until its first rows are there and it can be used;
- the next page of it ("Show more");
- a call's story: of the newest call, of one that was listed far down, and of the oldest one, which was not;
- *Who may what* and *Health*.
"""

import argparse
import asyncio
import itertools
import os
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.integration.test_desk_log import ReadOnly
from tests.world.browser import chromium
from tests.world.logs import Log
from tests.world.records import OK, decided

REAL = 100
ROUNDS = 9
MAX_INTERACTIVE_SECONDS = 1.0
_LIST = "[aria-label=Calls] tbody tr"
_COPY = "INSERT INTO log_entries (entry, writer, number, key, payload, ed25519) VALUES (?, ?, ?, ?, ?, ?)"


def write_log(path: Path, calls: int) -> str:
    """Write the log; return the id of the oldest call."""

    async def work() -> None:
        async with Log(path, durable=False) as log:
            for _ in range(REAL):
                call = decided()
                await log.port.begin(call)
                await log.port.finish(call, OK)

    with ThreadPoolExecutor(1) as pool:  # the browser's driver has a loop in this thread
        pool.submit(lambda: asyncio.run(work())).result()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        rows = file.execute("SELECT writer, key, payload, ed25519 FROM log_entries ORDER BY entry LIMIT 2").fetchall()
        old = rows[0][2].partition(b'"call":{"id":"')[2][:32]
        ids = [secrets.token_hex(16).encode() for _ in range(calls - REAL)]
        file.execute("BEGIN")
        file.execute("UPDATE log_entries SET entry = entry + ?", (2 * len(ids),))
        file.executemany(_COPY, _copies(rows, old, ids))
        file.execute("COMMIT")
    return ids[0].decode()


def _copies(rows: list[Any], old: bytes, ids: list[bytes]) -> Iterator[tuple[Any, ...]]:
    """Yield the records of calls, from the first entry on."""
    records = itertools.product(ids, rows)
    for entry, (each, (writer, key, payload, signature)) in enumerate(records, 1):
        yield entry, writer, entry, key, payload.replace(old, each), signature


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(page: Any, desk: ReadOnly, oldest: str) -> Iterator[tuple[str, list[float]]]:
    def shown(path: str, selector: str) -> Callable[[], object]:
        def work() -> None:
            page.goto(f"{desk.url}{path}")
            page.wait_for_selector(selector)

        return work

    def more() -> None:
        before = page.locator(_LIST).count()
        page.click("text=Show more")
        page.wait_for_function(f"() => document.querySelectorAll('{_LIST}').length > {before}")

    told = "text=Told by the log"
    calls = shown("calls", _LIST)
    calls()
    yield "Calls", [timed(calls) for _ in range(ROUNDS)]
    yield "the next page of it", [timed(more) for _ in range(ROUNDS)]
    newest, listed = (page.locator(f"{_LIST} a").nth(place).get_attribute("href")[1:] for place in (0, -1))
    yield "the story of the newest call", [timed(shown(newest, told)) for _ in range(ROUNDS)]
    yield f"of the {50 * (ROUNDS + 1)}th, which was listed", [timed(shown(listed, told)) for _ in range(ROUNDS)]
    yield "of the oldest one, which was not", [timed(shown(f"calls/{oldest}", told)) for _ in range(3)]
    yield "Who may what", [timed(shown("people", "text=What is not here")) for _ in range(ROUNDS)]
    yield "Health", [timed(shown("health", "text=entries")) for _ in range(ROUNDS)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description="How long the desk's pages take.")
    parser.add_argument("--calls", type=int, default=500_000)
    options = parser.parse_args()
    interactive = 0.0
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        oldest = write_log(Path(name) / "log.db", max(options.calls, 2 * REAL))
        with ReadOnly(Path(name)) as desk, chromium() as browser:
            page = browser.new_page()
            page.goto(desk.link)
            page.wait_for_selector(_LIST)
            print(f"| of {options.calls:,} calls | median |\n|---|---|")
            for text, seconds in measured(page, desk, oldest):
                interactive = interactive or statistics.median(seconds)
                print(f"| {text} | {statistics.median(seconds) * 1e3:.0f} ms |", flush=True)
    print(f"load: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    return 0 if interactive <= MAX_INTERACTIVE_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
