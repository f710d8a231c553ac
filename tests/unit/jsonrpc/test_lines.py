"""Stdio lines: one message each, bounded also when no newline comes; and what the two ends of a line that is too long
say: nobody may read another id there."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import FrameError, LineTooLong
from accredit.jsonrpc.lines import LineSplitter, encode_line, line_too_long


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


@pytest.mark.parametrize(
    ("head", "tail", "id", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"', b'yyy"}}', 7, "call"),
        (b'{"method":"x","params":{"a":"', b'y\\",\\"id\\":9}"}},"jsonrpc":"2.0","id":"q\\u0061"} \r', "qa", "call"),
        (b'{"result":{"id":3', b'"x":",","id":4}]}}', None, "response"),  # that of something inside
        (b'{"id":1,"result":"', b'","id":2}', None, "response"),
        (b'{"id":1,"result":"', b'","\\u0069d":2}', None, "response"),
        (b'{"id":1,"Id":2,"result":"', b"", None, "response"),
        (b'{"id":1.0,"result":[', b"]}", None, "response"),
        (b'{"result":[', b'],"id":null}', None, "response"),
        (b'{"id":1,"method":"x","result":"', b"", 1, ""),
        (b'{"id":1,"x":"', b"", 1, ""),
        (b"[", b'{"id":1}', None, ""),
        (b"Server started", b',"id":1}', None, ""),
    ],
)
def test_an_id_counts_where_it_is_named_once_among_the_messages_own_members(
    head: bytes, tail: bytes, id: int | str | None, kind: str
) -> None:
    found = line_too_long("too long", head, tail)
    assert (found.id, found.kind) == (id, kind)


TEXTS = st.text(st.sampled_from('",:{}[]\\ id17'), max_size=12)
VALUES = st.one_of(TEXTS, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=3))


@given(st.integers(0, 99), VALUES, TEXTS, st.permutations(["id", "params", "x"]))
def test_whatever_a_message_holds_no_other_id_is_read_than_its_own(
    id: int, value: object, text: str, order: list[str]
) -> None:
    members: dict[str, object] = {"id": id, "params": [value, "y" * 300], "x": text}
    line = json.dumps({name: members[name] for name in order}).encode()
    (found,) = LineSplitter(300).feed(line + b"\n")
    assert getattr(found, "id", None) in (id, None)
    if order[0] == "id" or order[-1] == "id":
        assert getattr(found, "id", None) == id


@pytest.mark.parametrize("end", [b"x}", b"}", b'"}'])
def test_an_end_of_many_short_members_takes_no_time__whatever_it_ends_with(end: bytes) -> None:
    """A server that writes such lines must not keep all others waiting: this is read in the thread that decides calls.
    Were each member read again for each of those before it, this test would not end."""
    found = line_too_long("too long", b"{", b',"a":1' * 100_000 + b',"id":7' + end)
    assert found.id == (7 if end == b"}" else None)
