"""Frames that the gateway writes itself."""

import pytest

from accredit.jsonrpc.encode import cancellation, error_frame, with_members
from accredit.jsonrpc.objects import members


def test_an_error_frame_is_compact_and_leaves_out_what_is_not_there() -> None:
    assert error_frame(7, -32000, "m") == b'{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"m"}}'


def test_an_error_frame_has_the_shape_of_the_contract() -> None:
    text = error_frame(None, -32000, "Invalid upstream JSON-RPC response", "why")
    assert text == (
        b'{"jsonrpc":"2.0","id":null,"error":'
        b'{"code":-32000,"message":"Invalid upstream JSON-RPC response","data":"why"}}'
    )


def test_a_cancellation_names_the_request_and_the_reason() -> None:
    assert cancellation("a", "why") == (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"why"}}'
    )


@pytest.mark.parametrize("id", [0, -1, 2**53 + 1, 2**64, 2**70, -(2**70), 10**300])
def test_an_integer_id_of_any_size_is_written_exactly__a_rounded_one_answers_another_request(id: int) -> None:
    assert b'"id":%d,' % id in error_frame(id, 1, "m")


def test_changed_members_keep_their_place_and_others_their_text() -> None:
    found = members(b'{"a": 1.50, "id":null, "b":{"x": "\\u00e9"}}')
    assert with_members(found, {"id": "n", "c": True}) == b'{"a":1.50,"id":"n","b":{"x": "\\u00e9"},"c":true}'
    assert list(found) == ["a", "id", "b"]
