"""The trace id of the call at hand."""

import weakref
from collections.abc import Iterator

import pytest

from accredit.gateway.trace import current, set_current, trace_id
from accredit.jsonrpc.requests import decode_request

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def nothing_current() -> Iterator[None]:
    set_current(None)
    yield
    set_current(None)


def traced_by(params: str, id: str = '"id":7,') -> str | None:
    asked = decode_request(f'{{"jsonrpc":"2.0",{id}"method":"x","params":{params}}}'.encode())
    set_current(asked)
    return trace_id()


@pytest.mark.parametrize("id", ['"id":7,', ""])
def test_it_is_read_from_the_message(id: str) -> None:
    assert traced_by(f'{{"_meta":{{"traceparent":"{PARENT}"}}}}', id) == TRACE


def test_a_later_version_may_say_more_than_we_understand() -> None:
    assert traced_by(f'{{"_meta":{{"traceparent":"cc{PARENT[2:]}-more"}}}}') == TRACE


@pytest.mark.parametrize(
    "params",
    [
        "{}",
        '{"_meta":{}}',
        '{"_meta":5}',
        '{"_meta":{"traceparent":5}}',
        '{"_meta":{"traceparent":"x"}}',
        f'{{"_meta":{{"traceparent":"{PARENT}x"}}}}',
        f'{{"_meta":{{"traceparent":"{PARENT.upper()}"}}}}',
        f'{{"_meta":{{"traceparent":"{PARENT}\\n"}}}}',
        f'{{"_meta":{{"traceparent":"{PARENT}-more"}}}}',
        f'{{"_meta":{{"traceparent":"ff{PARENT[2:]}"}}}}',
        f'{{"_meta":{{"traceparent":"00-{"0" * 32}-b7ad6b7169203331-01"}}}}',
        f'{{"_meta":{{"traceparent":"00-{TRACE}-{"0" * 16}-01"}}}}',
    ],
)
def test_what_is_no_trace_parent_is_none__it_would_be_a_stranger_s_text_in_our_log(params: str) -> None:
    assert traced_by(params) is None


def test_without_a_message_there_is_none() -> None:
    assert trace_id() is None
    for text in (b'{"jsonrpc":"2.0","id":7,"result":{}}', b'{"jsonrpc":"2.0","method":"x"}'):
        asked = decode_request(text)
        set_current(asked)
        assert trace_id() is None


def test_it_keeps_no_message__each_timer_that_was_set_meanwhile_would_keep_it_too() -> None:
    asked = decode_request(b'{"jsonrpc":"2.0","id":7,"method":"x"}')
    set_current(asked)
    assert current() is asked
    gone = weakref.ref(asked)
    del asked
    assert gone() is None
    assert current() is None
