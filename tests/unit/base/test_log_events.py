"""One event is one line, whatever a peer put into it."""

import io
import json
import logging
import os
import pty
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.terminal import screen

from accredit.base.log_events import MAX_LOG_TEXT, LogFormat, configure_logs, log_event, notice

LOGGER = logging.getLogger("accredit.test")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, own = root.handlers, root.level, logging.getLogger("accredit").level
    yield
    root.handlers = handlers
    root.setLevel(level)
    logging.getLogger("accredit").setLevel(own)
    logging.captureWarnings(False)


def logged(format: LogFormat, event: str = "something happened", **fields: Any) -> str:
    stream = io.StringIO()
    configure_logs("info", format, stream)
    log_event(LOGGER, logging.WARNING, event, **fields)
    return stream.getvalue()


def test_json_has_the_facts() -> None:
    line = json.loads(logged("json", method="tools/call", bytes=7, nothing=None, many=["a"], peer=b"\xff"))
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "accredit.test",
        "event": "something happened",
        "method": "tools/call",
        "bytes": 7,
        "nothing": None,
        "many": ["a"],
        "peer": "b'\\xff'",
    }


def test_a_field_can_not_stand_for_what_every_line_has() -> None:
    line = json.loads(logged("json", ts="forged"))
    assert line["ts"] != "forged"


def test_text_has_the_facts() -> None:
    line = logged("text", method="a b", bytes=7)
    assert line.endswith('Z warning accredit.test: something happened method="a b" bytes=7\n')


@pytest.mark.parametrize("format", ["json", "text"])
@settings(max_examples=60, deadline=None)
@given(text=st.text() | st.sampled_from(["a\nb", "\x1b[2J", "\x9b", "\u2028", "\u202e", "\ud800", "\0", '"', "\\"]))
def test_a_peer_can_not_forge_a_line_or_steer_a_terminal(format: LogFormat, text: str) -> None:
    written = logged(format, "event " + text, field=text, nested=[text])
    assert written.endswith("\n")
    assert written[:-1].isprintable()
    if format == "json":
        assert json.loads(written)["field"] == text


@pytest.mark.parametrize("format", ["json", "text"])
def test_an_exception_is_one_field(format: LogFormat) -> None:
    stream = io.StringIO()
    configure_logs("info", format, stream)
    try:
        raise ValueError("in\nlines")
    except ValueError as error:
        log_event(LOGGER, logging.ERROR, "failed", exc_info=error)
    (line,) = stream.getvalue().splitlines()
    assert "Traceback" in line
    assert "ValueError: in" in line


@pytest.mark.parametrize("format", ["json", "text"])
def test_a_line_is_bounded_and_keeps_its_end(format: LogFormat) -> None:
    line = logged(format, field="a" * 100_000 + "the cause")
    assert len(line) < MAX_LOG_TEXT + 300
    assert "the cause" in line


def test_others_are_heard_from_warnings_on() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    logging.getLogger("uvicorn.error").info("chatter")
    logging.getLogger("asyncio").error("Task %s was never retrieved", "x")
    LOGGER.debug("detail")
    log_event(LOGGER, logging.INFO, "said")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "Task x was never retrieved",
        "said",
    ]


def test_debug_is_everything() -> None:
    stream = io.StringIO()
    configure_logs("debug", "text", stream)
    logging.getLogger("uvicorn.error").debug("chatter")
    LOGGER.debug("detail")
    assert len(stream.getvalue().splitlines()) == 2


def test_a_stderr_that_nobody_reads_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    stream.close()
    log_event(LOGGER, logging.ERROR, "unheard")
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("format", "stream", "reads"),
    [
        ("text", io.StringIO, "accredit: listening on x\\n\n"),
        ("text", Terminal, "accredit: listening on x\\n\n"),
        ("json", Terminal, "accredit: listening on x\\n\n"),
        ("json", io.StringIO, None),
    ],
)
def test_a_notice_is_said_at_every_level__to_people_as_a_sentence(
    format: LogFormat, stream: type[io.StringIO], reads: str | None
) -> None:
    written = stream()
    configure_logs("error", format, written)
    notice("listening on x\n")
    if reads is not None:
        assert written.getvalue() == reads
    else:
        line = json.loads(written.getvalue())
        assert (line["level"], line["event"]) == ("info", "listening on x\n")


@pytest.mark.parametrize("columns", [80, 40])
def test_a_line_of_a_log_that_people_read_makes_no_row_that_reads_as_another_one(columns: int) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(theirs, "w") as stream:
        configure_logs("info", "text", stream)
        told = "x" * 200 + "2026-11-26T00:00:00.000Z info    accredit.gateway: all is well".ljust(columns, ".") * 3
        log_event(logging.getLogger("accredit.test"), logging.INFO, "refused", target=told)
        stream.flush()
        seen = screen(os.read(ours, 65_536).decode().replace("\r\n", "\n"), columns)
    os.close(ours)
    assert all(row.startswith("  | ") for row in seen[1:] if row)
