"""What the two ends of a line that is too long say: nobody may read another id there."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.jsonrpc.ends import line_too_long
from accredit.jsonrpc.lines import LineSplitter


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
