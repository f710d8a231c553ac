"""URIs in results: what a client may ask for by them leads back to the server that said them. Nothing else changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.calls import compact

from accredit.base.steps import Steps, at_one_go
from accredit.errors import FrameError
from accredit.gateway.upstream.merged.messages import result_edit, resumed_edit
from accredit.jsonrpc.frames import Success, decode_frame
from accredit.limits import MAX_SPLIT_BYTES

pytestmark = pytest.mark.holds("gateway/upstream/merged/messages")

LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///b", "text": "uri"}, "annotations": {}}
TEXT = {"type": "text", "text": 'see "uri": file:///c', "uri": "file:///c"}
MAPPED_LINK = {**LINK, "uri": "accredit+mail:file:///a"}
MAPPED_EMBEDDED = {**EMBEDDED, "resource": {"uri": "accredit+mail:file:///b", "text": "uri"}}


def response(result: Any) -> Success:
    frame = decode_frame(compact({"jsonrpc": "2.0", "id": 1, "result": result}))
    assert isinstance(frame, Success)
    return frame


def mapped(method: str, result: Any) -> Any:
    edit = result_edit("mail", method, None)
    assert edit is not None
    return json.loads(at_one_go(edit(response(result))))["result"]


@pytest.mark.holds("gateway/upstream/merged/messages", "uris")
@pytest.mark.parametrize(
    ("method", "result", "expected"),
    [
        ("tools/call", {"content": [LINK, TEXT, EMBEDDED]}, {"content": [MAPPED_LINK, TEXT, MAPPED_EMBEDDED]}),
        ("tasks/result", {"content": [LINK], "_meta": {}}, {"content": [MAPPED_LINK], "_meta": {}}),
        (
            "prompts/get",
            {"messages": [{"role": "user", "content": EMBEDDED}, {"role": "user", "content": [LINK, TEXT]}]},
            {
                "messages": [
                    {"role": "user", "content": MAPPED_EMBEDDED},
                    {"role": "user", "content": [MAPPED_LINK, TEXT]},
                ]
            },
        ),
        (
            "resources/read",
            {"contents": [{"uri": "file:///a", "text": "x"}, {"text": "no uri"}], "ttlMs": 5},
            {"contents": [{"uri": "accredit+mail:file:///a", "text": "x"}, {"text": "no uri"}], "ttlMs": 5},
        ),
    ],
)
def test_what_a_client_may_ask_for_is_mapped(method: str, result: Any, expected: Any) -> None:
    assert mapped(method, result) == expected
    anywhere = at_one_go(resumed_edit("mail", None)(response(result)))
    assert json.loads(anywhere)["result"] == expected


@pytest.mark.holds("gateway/upstream/merged/messages", "nothing-else", "size")
@pytest.mark.parametrize(
    "result",
    [
        {"content": [TEXT], "structuredContent": {"uri": "file:///a", "content": [LINK]}},
        {"content": [{"type": "image", "uri": "file:///a"}, {"icons": [{"uri": "file:///a"}]}]},
        {"content": "no array", "contents": [{"uri": "file:///a"}]},
        {"content": [1, None, "uri", [LINK], {"type": "resource", "resource": "uri"}, {"type": "resource", "uri": 5}]},
        {"content": [{"type": "resource_link", "uri": 5}]},
        [],
        "uri",
        None,
    ],
)
def test_all_else_stays_as_it_is(result: Any) -> None:
    assert mapped("tools/call", result) == result


@pytest.mark.holds("gateway/upstream/merged/messages", "size")
def test_a_result_without_a_uri_keeps_its_bytes() -> None:
    text = b'{ "jsonrpc": "2.0", "id": 1, "result": {"content":[ {"type":"text","text":"\\u0041"} ]} }'
    frame = decode_frame(text)
    edit = result_edit("mail", "tools/call", None)
    assert isinstance(frame, Success)
    assert edit is not None
    assert at_one_go(edit(frame)) == text


def test_a_name_that_is_spelled_with_escapes_is_mapped_as_well() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"result":{"contents":[{"\\u0075ri":"file:///a"}]}}'
    frame, edit = decode_frame(text), result_edit("mail", "resources/read", None)
    assert isinstance(frame, Success)
    assert edit is not None
    assert json.loads(at_one_go(edit(frame)))["result"] == {"contents": [{"uri": "accredit+mail:file:///a"}]}


def test_a_server_can_name_no_resource_but_its_own() -> None:
    said = {"contents": [{"uri": "accredit+files:file:///etc/passwd"}]}
    assert mapped("resources/read", said) == {"contents": [{"uri": "accredit+mail:accredit+files:file:///etc/passwd"}]}


def test_what_edits_next_is_given_what_came_of_it() -> None:
    def outer(response: Success) -> Steps[bytes]:
        yield
        assert b"accredit+mail:file:///a" in bytes(response.result)
        return b"edited " + response.text

    edit = result_edit("mail", "tools/call", outer)
    assert edit is not None
    assert at_one_go(edit(response({"content": [LINK]}))).startswith(b"edited ")
    assert result_edit("mail", "completion/complete", outer) is outer
    assert result_edit("mail", "completion/complete", None) is None


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/merged/messages", "size")
def test_a_result_that_is_too_long_to_be_mapped_is_none__one_without_a_uri_passes() -> None:
    long = {"type": "text", "text": "A" * MAX_SPLIT_BYTES}
    with pytest.raises(FrameError, match="more than"):
        mapped("tools/call", {"content": [long, LINK]})
    for passes in ({"content": [long]}, {"content": [], "structuredContent": [long, LINK]}):
        assert mapped("tools/call", passes) == passes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["uri", "resource", "resource_link", "file:///a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["uri", "type", "resource", "content", "contents", "messages", "text"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_a_server_says_it_stays_json__and_differs_only_in_uris(result: Any) -> None:
    text = at_one_go(resumed_edit("mail", None)(response(result)))
    assert json.loads(text.replace(b"accredit+mail:", b""))["result"] == result
