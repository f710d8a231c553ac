"""A child's stderr in our log: bounded, and unable to forge anything; and its pipes, each closed once."""

import asyncio
import logging
import os
from typing import Any

import pytest
from tests.world.raw_server import until

from accredit.gateway.upstream.stdio.process import STDERR_LINE_CHARS, STDERR_LINES_PER_SECOND, Process, StderrLog

LOGGER = "accredit.gateway.stdio"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOGGER)
    return caplog


def fields(logged: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.__dict__["accredit_fields"] for record in logged.records]


def test_each_line_is_one_event(logged: pytest.LogCaptureFixture) -> None:
    log = StderrLog(7)
    for part in (b"one\ntw", b"o\n\n", b"three"):
        log.feed(part, 1.0)
    log.close(9.0)
    assert fields(logged) == [{"line": text, "pid": 7} for text in ("one", "two", "three")]


def test_a_line_is_cut__a_child_must_not_fill_the_disk_with_one_line(logged: pytest.LogCaptureFixture) -> None:
    log = StderrLog(7)
    for _ in range(100):
        log.feed(b"x" * 10_000, 1.0)
    log.feed("\u00e9\n".encode(), 1.0)
    assert [len(entry["line"]) for entry in fields(logged)] == [STDERR_LINE_CHARS]


def test_what_can_not_be_printed_is_replaced__it_could_steer_a_terminal(logged: pytest.LogCaptureFixture) -> None:
    StderrLog(7).feed(b"\x1b[2Jgone\r\xff\x00\xe2\x80\xae\n", 1.0)
    assert fields(logged)[0]["line"] == "?[2Jgone?\ufffd??"


def test_a_flood_is_counted_and_dropped(logged: pytest.LogCaptureFixture) -> None:
    log = StderrLog(7)
    log.feed(b"spam\n" * 1_000, 1.0)
    log.feed(b"next\n", 2.0)
    log.feed(b"spam\n" * 100, 2.0)
    log.close(2.0)
    found = fields(logged)
    assert len(found) == 2 * STDERR_LINES_PER_SECOND + 2
    dropped, following = found[STDERR_LINES_PER_SECOND : STDERR_LINES_PER_SECOND + 2]
    assert dropped["lines"] == 1_000 - STDERR_LINES_PER_SECOND
    assert following["line"] == "next"
    assert found[-1]["lines"] == 101 - STDERR_LINES_PER_SECOND


@pytest.mark.parametrize("steps", range(1, 8))
async def test_a_client_that_goes_away_while_its_child_starts_closes_no_descriptor_twice__it_may_be_another_client_s(
    steps: int,
) -> None:
    process = Process(("cat",), dict(os.environ), None)
    pipes = [pipe for pipe in (process._popen.stdin, process._popen.stdout, process._popen.stderr) if pipe]
    connecting = asyncio.create_task(process.connect())
    for _ in range(steps):
        await asyncio.sleep(0)
    connecting.cancel()
    await asyncio.wait([connecting])
    for pipe in pipes:
        os.fstat(pipe.fileno())  # raises for one that was closed behind the back of its file
    process.input.close()
    await process.exited.wait()
    await process.close(1)
    await until(lambda: all(pipe.closed for pipe in pipes))
