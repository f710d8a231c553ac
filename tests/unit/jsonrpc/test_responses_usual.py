"""The fast yes to the usual answers: what gets it, and what does not although it looks the same.

`tests/property/test_one_pass.py` holds it to the verdicts of those who judge without it.
"""

import importlib.util

import pytest

from accredit.jsonrpc.responses import MAX_PLAIN_RESULT_MEMBERS, plain_result
from accredit.jsonrpc.text import ONE_PASS_BYTES
from accredit.limits import MAX_DEPTH

pytestmark = pytest.mark.skipif(importlib.util.find_spec("simdjson") is None, reason="no wheel for this machine")

FORMS = [
    b'{"jsonrpc":"2.0","id":7,"result":%b}',
    b'{"jsonrpc": "2.0", "id": 7, "result": %b}',
    b'{"result":%b,"jsonrpc":"2.0","id":7}',
]


def result(text: bytes, id: int | str = 7, *, modern: bool = False) -> bytes | None:
    found = plain_result(text, id, modern=modern)
    return bytes(found) if found is not None else None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [b"{}", b'{"a":1,"a":{"b":[]}}', b'{ "isError" : false }', b'{"x":"}}"}'])
def test_a_usual_answer_gets_the_yes__with_its_result_as_it_came(form: bytes, value: bytes) -> None:
    assert result(form % value) == value
    assert result((form % value).replace(b"7", b'"a"'), "a") == value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [b"null", b"[{}]", b'"{}"', b"{]", b'{"a":1e999}', b'{"a":"\xff"}', b'{},"x":{}'])
def test_another_result_or_a_member_more_gets_none__it_is_looked_at_closely(form: bytes, value: bytes) -> None:
    assert result(form % value) is None


@pytest.mark.parametrize("form", FORMS)
def test_another_id_gets_none__it_may_be_the_answer_to_another_call(form: bytes) -> None:
    assert result(form % b"{}", 8) is None
    assert result(form % b"{}", "7") is None


def test_an_answer_that_is_nested_too_deep_or_too_long_for_one_pass_gets_none() -> None:
    assert result(FORMS[0] % (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}")) is None
    assert result(FORMS[0] % (b'{"a":"' + b"x" * ONE_PASS_BYTES + b'"}')) is None


@pytest.mark.parametrize("value", [b"{}", b'{"a":{"resultType":"task"}}', b'{"resultType":"complete"}'])
def test_a_modern_answer_that_is_complete_gets_the_yes(value: bytes) -> None:
    assert result(FORMS[0] % value, modern=True) == value


@pytest.mark.parametrize(
    "value",
    [
        b'{"resultType":"task"}',
        b'{"resultType":1}',
        b'{"resultType":"complete","resultType":"complete"}',
        b'{"ResultType":"complete"}',
        b'{"resultType":"complete","requestState":"s"}',
        b'{"inputRequests":{}}',
        b"{" + b",".join(b'"%d":1' % number for number in range(MAX_PLAIN_RESULT_MEMBERS + 1)) + b"}",
    ],
)
def test_a_modern_answer_that_decides_anything_else_gets_none(value: bytes) -> None:
    assert result(FORMS[0] % value, modern=True) is None
    assert result(FORMS[0] % value) == value
