"""The fast yes: that it is there, what it is given for, and that nothing depends on it."""

import importlib
import importlib.util
import platform
import sys
from collections.abc import Iterator

import pytest

from accredit.jsonrpc import text
from accredit.jsonrpc.text import ONE_PASS_BYTES, check_text

HAS_WHEEL = importlib.util.find_spec("simdjson") is not None


@pytest.fixture
def without_a_wheel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "simdjson", None)
    importlib.reload(text)
    yield
    monkeypatch.undo()
    importlib.reload(text)


def test_where_there_is_no_wheel_it_says_nothing__and_every_text_is_still_judged(without_a_wheel: None) -> None:
    assert not text.reads_well(b"[1]")
    check_text(b"[1]")


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "arm64", "aarch64") or sys.version_info >= (3, 14), reason="no wheel for it"
)
def test_where_there_is_a_wheel_it_is_used() -> None:
    if not HAS_WHEEL:
        pytest.skip("it is not installed")
    assert text.reads_well(b'{"a":[1,-2.5e-3,"\xc3\xa9",true,null]}')


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf[1]", b"[1e999]", b'["\xff"]', b"[1", b"[1" + b"0" * 400 + b"]"])
def test_what_is_not_surely_good_gets_no_yes(data: bytes) -> None:
    assert not text.reads_well(data)


def test_a_long_text_gets_no_yes__its_reader_would_keep_as_much_memory() -> None:
    assert not text.reads_well(b'"' + b"x" * ONE_PASS_BYTES + b'"')


@pytest.mark.skipif(not HAS_WHEEL, reason="there is no wheel for this machine")
def test_after_a_text_that_is_no_json_the_next_one_is_read() -> None:
    for bad in (b"[", b'["\xff"]', b"[123456789012345678901234567890]", b"[" * 2_000 + b"]" * 2_000):
        assert not text.reads_well(bad)
        assert text.reads_well(b"[1]")
