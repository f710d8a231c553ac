"""A call that a room has edited: what is read of it is what its text says, and nothing else of it has changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from accredit.errors import RequestError
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.methods import META_VERSION, Era
from accredit.jsonrpc.requests import decode_request

TEXT = b"""{ "jsonrpc":"2.0", "more": [ 1.50 ], "id":7,"method":"tools/call",
 "params": {"a": 1e0 ,"\\u006eame":"x","_\\u006deta": { "k" : 1.0, "\\u0074oken":"t" },"arguments":{"v" : [ ]}} }"""


def read(text: bytes) -> Request:
    frame = decode_request(text)
    assert isinstance(frame, Request)
    return frame


def test_who_edits_nothing_sends_the_very_bytes() -> None:
    call = read(TEXT)
    assert (call.target, list(call.members), list(call.meta)) == ("x", ["a", "name", "arguments"], ["k", "token"])
    assert call.text is TEXT


def test_a_name_that_is_spelled_with_escapes_is_edited_as_what_it_means__and_stays_once() -> None:
    edited = read(TEXT).with_meta({}, without=("token",)).with_params({"name": Raw(b'"y"')})
    assert edited.text == (
        b'{"jsonrpc":"2.0","more":[ 1.50 ],"id":7,"method":"tools/call",'
        b'"params":{"a":1e0,"name":"y","_meta":{"k":1.0},"arguments":{"v" : [ ]}}}'
    )
    assert (edited.target, dict(edited.meta)) == ("y", {"k": Raw(b"1.0")})


def test_what_was_read_before_an_edit_is_read_anew_after_it() -> None:
    call = read(
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"%s":"2026-07-28"}}}' % META_VERSION.encode()
    )
    assert (call.era, call.text, call.params is not None, call.target) == (Era.MODERN, call.text, True, None)
    edited = call.with_meta({}, without=(META_VERSION,)).with_id("other")
    assert (edited.era, edited.id, edited.in_meta(META_VERSION)) == (Era.LEGACY, "other", None)
    assert json.loads(edited.text) == {"jsonrpc": "2.0", "id": "other", "method": "ping", "params": {"_meta": {}}}
    assert call.era is Era.MODERN
    assert json.loads(call.text)["id"] == 7


def test_edits_of_several_rooms_are_encoded_once__when_the_text_is_asked_for() -> None:
    edited = (
        read(TEXT).with_params({"a": Raw(b"2")}).with_meta({"w": Raw(b"3")}).with_id(8).with_params({}, without="a")
    )
    assert "text" not in vars(edited)
    assert edited.text is edited.text
    assert json.loads(edited.text)["params"] == {
        "name": "x",
        "_meta": {"k": 1.0, "token": "t", "w": 3},
        "arguments": {"v": []},
    }


def test_a_request_without_params_gets_them_only_where_something_is_put_in() -> None:
    call = read(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
    assert call.with_id(8).text == b'{"jsonrpc":"2.0","id":8,"method":"ping"}'
    assert (
        call.with_meta({"a": Raw(b"1")}).text == b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"a":1}}}'
    )


@pytest.mark.parametrize(
    "params",
    [
        b'{"name":"x","n\\u0061me":"y"}',
        b'{"_meta":{"a":1},"_meta":{"a":2}}',
        b'{"_meta":{"a":1},"\\u005fmeta":{"a":2}}',
        b'{"_meta":{"a":1,"\\u0061":2}}',
        b'{"arguments":{"to":1,"t\\u006f":2}}',
    ],
)
def test_what_two_readers_would_read_differently_is_never_split(params: bytes) -> None:
    with pytest.raises(RequestError):
        decode_request(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":%s}' % params)


_NAMES = st.sampled_from(["a", "b", "_meta", "token", "progressToken", "\u00e9", 'q"'])
_VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
_OBJECTS = st.dictionaries(_NAMES, _VALUES, max_size=4)


@pytest.mark.slow
@given(_OBJECTS, _OBJECTS, _OBJECTS, _OBJECTS, st.sets(_NAMES, max_size=2), st.booleans())
def test_what_is_read_of_an_edited_call_is_what_its_text_says(
    params: dict[str, Any],
    meta: dict[str, Any],
    put: dict[str, Any],
    put_in_meta: dict[str, Any],
    taken: set[str],
    asked: bool,
) -> None:
    sent = {**params, "_meta": meta}
    text = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": sent}).encode()
    call = Notification("notifications/x", Raw(json.dumps(sent).encode()), text)
    if asked:
        assert call.text is text
        assert len(call.meta) == len(meta)
    taken.discard("_meta")
    put.pop("_meta", None)
    edited = call.with_params(raw(put), without=taken).with_meta(raw(put_in_meta), without=taken)
    said = json.loads(edited.text)["params"]
    assert said["_meta"] == {name: value for name, value in meta.items() if name not in taken} | put_in_meta
    kept = {name: value for name, value in params.items() if name not in taken | {"_meta"}} | put
    assert {name: value for name, value in said.items() if name != "_meta"} == kept
    assert {name: json.loads(bytes(value)) for name, value in edited.members.items()} == kept
    assert {name: json.loads(bytes(value)) for name, value in edited.meta.items()} == said["_meta"]
    assert json.loads(bytes(edited.params or b"")) == said


def raw(found: dict[str, Any]) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in found.items()}
