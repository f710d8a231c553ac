"""Names that another reader takes for one."""

import json
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.objects import check_same_names

NAMES = st.text("aAbB\u212a\u017f\u00e4\u00c4\u0131\u0130iI\\\"/'\x00 \u00df", max_size=4)
VALUES = st.recursive(
    st.sampled_from(["AMOUNT", "amount", "\x00", '\\"', 1, -0.5, 1e300, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def refused(text: str | bytes) -> bool:
    try:
        check_same_names(Raw(text.encode() if isinstance(text, str) else text))
    except FrameError:
        return True
    return False


@pytest.mark.holds("jsonrpc/objects", "case", "nul")
@pytest.mark.parametrize(
    "text",
    [
        '{"amount":1,"AMOUNT":2}',
        '{"amount":1,"b":{"c":[{"Id":1,"x":2,"iD":3}]}}',
        '[[{"a":1,"A":2}]]',
        '{"amount":1,"\\u0041mount":2}',
        '{"k":1,"\u212a":2}',
        '{"s":1,"\\u017f":2}',
        '{"stra\u00dfe":1,"STRASSE":2}',
        '{"id":1,"\u0131d":2}',
        '{"id":1,"\u0130D":2}',
        '{"\u00e4":1,"\u00c4":2}',
        '{"amount":1,"amount\\u0000x":2}',
        '{"amount":1,"AMOUNT\\u0000\\"\\\\x":{"y":1}}',
    ],
)
def test_a_binder_without_regard_to_case_acts_on_no_member_that_nobody_judged(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "7",
        '"AMOUNT"',
        '{"amount":"AMOUNT","b":{"Amount":1}}',
        '{"a":"{\\"A\\":1,\\"a\\":2}","b":"A\\u0000a"}',
        '[{"a":1},{"A":2}]',
        '{"a\\\\u0000b":1,"a\\\\u0000c":2}',
        '{"amount":1,"amounts":2,"\u00e9":1,"e":2}',
        '{"n":[1E5,-0.0,12345678901234567890,true,null]}',
    ],
)
def test_names_that_all_readers_tell_apart_pass(text: str) -> None:
    assert not refused(text)


def as_one(name: str) -> str:
    return name.upper().casefold().replace("i\u0307", "i").split("\0")[0].replace("\\", "/").replace('"', "'")


def collides(value: object) -> bool:
    if isinstance(value, Mapping):
        names = [as_one(str(name)) for name in value]
        return len(set(names)) < len(names) or any(map(collides, value.values()))
    return isinstance(value, Iterable) and not isinstance(value, str) and any(map(collides, value))


@given(VALUES)
def test_it_finds_what_a_walk_through_the_value_finds(value: object) -> None:
    text = json.dumps(value)
    assert refused(text) == refused(json.dumps(value, ensure_ascii=False))
    if "\\u0000" in text:
        assert refused(text) or not collides(value)
    else:
        plain = text.replace("\\\\", "x").replace('\\"', "y")
        assert refused(plain) == collides(json.loads(plain)) or "x" in plain or "y" in plain
