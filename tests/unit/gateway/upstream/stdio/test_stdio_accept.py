"""Which `Accept` headers allow an answer."""

import pytest

from accredit.gateway.upstream.stdio.accept import accepts
from accredit.jsonrpc.era import DUPLICATED

JSON = b"application/json"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"*/*",
        b"application/*",
        b"application/json",
        b"Application/JSON; charset=utf-8",
        b"text/event-stream, application/json;q=0.1",
        b"text/html" + DUPLICATED + b"application/json",
        b"*/*;q=0, application/json",
    ],
)
def test_json_is_accepted(value: bytes | None) -> None:
    assert accepts(value, JSON)


@pytest.mark.parametrize(
    "value",
    [
        b"text/event-stream",
        b"text/*",
        b"application/jsonsomething",
        b"application/json;q=0",
        b"application/json; q=0.000, */*",
        b"application/*;q=0",
        b"nonsense",
    ],
)
def test_json_is_not_accepted(value: bytes) -> None:
    assert not accepts(value, JSON)
