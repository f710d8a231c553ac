"""Stdio lines: one message each, bounded also when no newline comes."""

import pytest

from accredit.errors import FrameError, LineTooLong
from accredit.jsonrpc.lines import LineSplitter, encode_line


def split(*chunks: bytes, limit: int = 10) -> list[bytes | None]:
    """The lines; None for one that was too long."""
    splitter = LineSplitter(limit)
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert all(line.bound for line in found if isinstance(line, FrameError))
    return [line if isinstance(line, bytes) else None for line in found]


def test_lines_come_out_when_they_end() -> None:
    assert split(b"a\nb", b"c\n", b"d") == [b"a", b"bc"]


def test_crlf_and_blanks_around_a_line_are_not_part_of_it() -> None:
    assert split(b"a\r\n \tb \n") == [b"a", b"b"]


def test_blank_lines_are_skipped() -> None:
    assert split(b"\n\r\n  \n\t\na\n") == [b"a"]


def test_a_cr_alone_ends_no_line() -> None:
    assert split(b"a\rb\n") == [b"a\rb"]


@pytest.mark.parametrize(
    "chunks", [[b"x" * 11 + b"\nok\n"], [b"x" * 6, b"x" * 6, b"x" * 100, b"\nok\n"], [b"x"] * 30 + [b"\nok\n"]]
)
def test_a_line_past_the_limit_is_dropped_and_the_next_one_is_read__it_would_fill_the_memory(
    chunks: list[bytes],
) -> None:
    assert split(*chunks) == [None, b"ok"]


def test_a_line_past_the_limit_is_told_before_it_ends__its_end_may_never_come() -> None:
    assert split(b"x" * 11) == [None]
    assert split(b"x" * 11, b"x" * 1000) == [None]


def test_a_line_of_exactly_the_limit_passes() -> None:
    assert split(b"x" * 10 + b"\n") == [b"x" * 10]


def test_of_a_line_that_is_given_up_its_ends_are_kept__they_say_whose_answer_it_was() -> None:
    splitter = LineSplitter(1_000_000)
    assert splitter.feed(b'ok\n{"jsonrpc":"2.0","id":7,"result":"' + b"x" * 200_000) == [b"ok"]
    assert splitter.size > 200_000
    splitter.give_up("no room")
    assert splitter.size < 10_000
    assert splitter.feed(b"x" * 200_000) == []
    assert splitter.size < 10_000
    (told, after) = splitter.feed(b'"}\nok\n')
    assert isinstance(told, LineTooLong)
    assert (told.detail, told.id, told.kind, after) == ("no room", 7, "response", b"ok")
    (told,) = splitter.feed(b"x" * 1_000_001)
    assert isinstance(told, LineTooLong)
    assert told.detail == "a line longer than 1000000 bytes"


def test_two_long_lines_are_two_errors() -> None:
    assert split(b"x" * 11 + b"\n" + b"y" * 11 + b"\nok\n") == [None, None, b"ok"]


def test_a_message_is_written_as_one_line__a_break_inside_would_make_it_two() -> None:
    assert encode_line(b'{"a":1}') == b'{"a":1}\n'
    assert encode_line(b'{\r\n"a":\n1}') == b'{  "a": 1}\n'
