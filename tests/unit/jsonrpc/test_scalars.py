"""Scalars are read without guessing: 7 is not "7", and 1.0 is not 1."""

import pytest
from msgspec import Raw

from accredit.jsonrpc.scalars import as_integer, as_string
from accredit.limits import MAX_NUMBER_LENGTH


@pytest.mark.parametrize(
    ("text", "value"), [(b'""', ""), (b'"a\\u00e9\\n"', "a\u00e9\n"), ('"\u00e9"'.encode(), "\u00e9")]
)
def test_a_string_is_read(text: bytes, value: str) -> None:
    assert as_string(Raw(text)) == value


@pytest.mark.parametrize("text", [b"1", b"null", b"true", b'["a"]', b"{}", b'"\xff"', b'"\\ud800"', b"x", b""])
def test_what_is_no_string_is_none(text: bytes) -> None:
    assert as_string(Raw(text)) is None


@pytest.mark.parametrize(("text", "value"), [(b"0", 0), (b"-0", 0), (b"-12", -12), (b"1" + b"0" * 300, 10**300)])
def test_an_integer_is_read_at_any_size_that_json_allows(text: bytes, value: int) -> None:
    assert as_integer(Raw(text)) == value


@pytest.mark.parametrize(
    "text", [b"1.0", b"1.5", b"1e3", b'"1"', b"true", b"null", b"01", b"[1]", b"9" * (MAX_NUMBER_LENGTH + 1)]
)
def test_what_is_no_integer_is_none(text: bytes) -> None:
    assert as_integer(Raw(text)) is None


def test_an_absent_value_is_none() -> None:
    assert as_string(None) is None
    assert as_integer(None) is None
