"""Lists as one client gets to see them: our word on scopes, nothing hidden or shown by the upstream's."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests.world.decisions import CATALOG, VERIFIER

from accredit.base.steps import at_one_go
from accredit.errors import FrameError
from accredit.jsonrpc.frames import Success, decode_frame
from accredit.jsonrpc.methods import INPUT_REQUIRED_METHODS
from accredit.pins.definitions import Pins, digest_of
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.guarded_call import GUARDED, LISTS
from accredit.policy.lists import KINDS, Kind, ListView, kinds_in, rewrite_list
from accredit.tokens.claims import VerifiedToken

JUDGED = ListView(catalog=CATALOG, verifier_id=VERIFIER, binding="optional")
TOOLS, RESOURCES, TEMPLATES, PROMPTS = KINDS.values()
OFF = ListView(catalog=CATALOG)
OURS = {"ratify_verifier": VERIFIER, "ratify_binding": "optional"}


def answer(result: str) -> Success:
    frame = decode_frame(f'{{"jsonrpc":"2.0","id":1,"result":{result}}}'.encode())
    assert isinstance(frame, Success)
    return frame


def seen(result: str, view: ListView = JUDGED, kind: Kind = TOOLS, *others: Kind) -> dict[str, Any]:
    """The result as the client gets it."""
    frame = decode_frame(at_one_go(rewrite_list(answer(result), view, kind, *others)))
    assert isinstance(frame, Success)
    assert frame.id == 1
    return json.loads(bytes(frame.result))


def edited(response: Success, view: ListView) -> bytes:
    return at_one_go(rewrite_list(response, view, TOOLS))


def tools(*names: str) -> str:
    return json.dumps({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})


@pytest.mark.holds("policy/lists", "definition")
@pytest.mark.parametrize("view", [JUDGED, OFF])
def test_a_tool_that_is_not_as_it_is_pinned_is_left_out_and_told(view: ListView) -> None:
    page = json.loads(tools("list_inbox", "send_email", "pay"))
    good = {each["name"]: digest_of(json.dumps(each).encode()) or "" for each in page["tools"]}
    del good["pay"]
    page["tools"][1]["description"] = "changed"
    page["tools"].append({**page["tools"][0], "title": "another of that name"})
    told: list[None] = []
    pinned = replace(view, pins=Pins(tools=good), on_other=lambda: told.append(None))
    assert names(seen(json.dumps(page), pinned)) == ["list_inbox"]
    assert len(told) == 3
    warned = replace(pinned, pins=Pins(tools=good, enforced=False))
    assert len(names(seen(json.dumps(page), warned))) == 4
    assert len(told) == 6


def names(result: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in result["tools"]]


def granted(*scope: str) -> ListView:
    return ListView(catalog=CATALOG, verifier_id=VERIFIER, binding="optional", granted=scope)


@pytest.mark.holds("policy/lists", "annotations")
def test_each_tool_says_which_scope_it_needs_and_how_a_proof_is_made() -> None:
    found = seen(tools("list_inbox", "deploy", "wipe"))
    assert [tool["_meta"] for tool in found["tools"]] == [
        {"ratify_scope": "email:read", **OURS},
        {"ratify_scope": "custom:deploy", "ratify_sensitive": True, **OURS},
        {"ratify_scope": "comms:email:delete", "ratify_sensitive": True, **OURS},
    ]
    assert "cacheScope" not in found


def test_where_proofs_are_not_judged_scopes_are_said_all_the_same_and_nothing_is_hidden() -> None:
    found = seen(tools("list_inbox", "unknown", "deploy"), OFF)
    assert [tool.get("_meta") for tool in found["tools"]] == [
        {"ratify_scope": "email:read"},
        None,
        {"ratify_scope": "custom:deploy", "ratify_sensitive": True},
    ]


@pytest.mark.holds("policy/lists", "no-proof")
def test_a_tool_that_no_proof_could_allow_is_hidden_only_where_proofs_are_judged() -> None:
    listing = tools("list_inbox", "unknown", "List_inbox", "list_inbox ")
    assert names(seen(listing)) == ["list_inbox"]
    assert names(seen(listing, OFF)) == ["list_inbox", "unknown", "List_inbox", "list_inbox "]
    lenient = ListView(catalog=Catalog(default_tool=Entry(scope="mcp:tool")), verifier_id=VERIFIER, binding="required")
    found = seen(listing, lenient)
    assert len(found["tools"]) == 4
    assert found["tools"][1]["_meta"] == {"ratify_scope": "mcp:tool", **OURS, "ratify_binding": "required"}


@pytest.mark.holds("policy/lists", "coverage")
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ((), []),
        (("email:read",), ["list_inbox"]),
        (("comms:email:send",), ["send_email"]),
        (("email:read", "email:send", "custom:deploy"), ["list_inbox", "send_email", "deploy"]),
        (("email:*", "*", "EMAIL:READ"), []),
    ],
)
def test_only_what_the_proof_covers_is_listed_and_the_list_is_private(
    scope: tuple[str, ...], expected: list[str]
) -> None:
    found = seen(tools("list_inbox", "send_email", "deploy", "unknown"), granted(*scope))
    assert names(found) == expected
    assert found["cacheScope"] == "private"


def test_the_upstream_can_not_make_a_private_list_public() -> None:
    result = '{"tools":[],"cacheScope":"public","ttlMs":9}'
    assert seen(result, granted("email:read")) == {"tools": [], "cacheScope": "private", "ttlMs": 9}
    assert seen(result) == {"tools": [], "cacheScope": "public", "ttlMs": 9}


@pytest.mark.holds("policy/lists", "annotations")
def test_the_catalog_wins_over_the_upstream() -> None:
    claims = {
        "ratify_scope": "mcp:tool",
        "ratify_sensitive": False,
        "ratify_verifier": "evil",
        "ratify_binding": "none",
    }
    listing = json.dumps({"tools": [{"name": name, "_meta": {**claims, "x": 1}} for name in ("wipe", "list_inbox")]})
    wipe, inbox = seen(listing)["tools"]
    assert wipe["_meta"] == {"x": 1, "ratify_scope": "comms:email:delete", "ratify_sensitive": True, **OURS}
    assert inbox["_meta"] == {"x": 1, "ratify_scope": "email:read", **OURS}
    (_, inbox) = seen(listing, OFF)["tools"]
    assert inbox["_meta"]["ratify_scope"] == "email:read"
    assert "ratify_sensitive" not in inbox["_meta"]


@pytest.mark.parametrize("spelling", ["ratify\\u005fscope", "\\u0072atify_scope"])
def test_the_upstreams_word_is_known_however_it_is_spelled(spelling: str) -> None:
    found = at_one_go(
        rewrite_list(
            answer(f'{{"tools":[{{"name":"list_inbox","_meta":{{"{spelling}":"mcp:tool"}}}}]}}'), JUDGED, TOOLS
        )
    )
    assert b"mcp:tool" not in found


def test_a_scope_that_is_said_twice_is_said_once_and_by_us() -> None:
    found = at_one_go(
        rewrite_list(
            answer('{"tools":[{"name":"wipe","_meta":{"ratify_scope":"a","ratify_scope":"b"}}]}'), JUDGED, TOOLS
        )
    )
    assert found.count(b"ratify_scope") == 1
    assert b'"ratify_scope":"comms:email:delete"' in found


@pytest.mark.parametrize("meta", ["null", "[]", '"x"', "5", "[1]"])
def test_a_meta_that_is_no_object_is_replaced(meta: str) -> None:
    (tool,) = seen(f'{{"tools":[{{"name":"list_inbox","_meta":{meta}}}]}}')["tools"]
    assert tool["_meta"] == {"ratify_scope": "email:read", **OURS}


def test_a_page_of_a_list_stays_one() -> None:
    result = '{"nextCursor":"a\\u002fb","tools":[],"resultType":"complete","_meta":{"k":1.50},"other":[1E2]}'
    text = edited(answer(result), JUDGED)
    assert text == f'{{"jsonrpc":"2.0","id":1,"result":{result}}}'.encode()


def test_a_page_of_which_nothing_is_left_still_leads_to_the_next() -> None:
    assert seen('{"tools":[{"name":"unknown"}],"nextCursor":"c"}') == {"tools": [], "nextCursor": "c"}


def test_what_is_not_ours_to_change_keeps_its_bytes() -> None:
    tool = '{"z":1.50,"name":"\\u006cist_inbox","inputSchema":{ "a" : 1E2 },"_meta":{"y":[ 1 ]},"annotations":{}}'
    text = edited(answer(f'{{"tools":[ {tool} , {{"name":"unknown","x":1.0}} ]}}'), OFF)
    assert tool.replace('{"y":[ 1 ]}', '{"y":[ 1 ],"ratify_scope":"email:read"}').encode() in text
    assert b'{"name":"unknown","x":1.0}' in text


def test_two_tools_of_one_name_are_both_judged() -> None:
    assert names(seen(tools("unknown", "list_inbox", "unknown", "list_inbox"))) == ["list_inbox", "list_inbox"]


BAD = [
    "null",
    "5",
    '"tools"',
    "[]",
    "true",
    '[{"tools":[]}]',
    "{}",
    '{"Tools":[]}',
    '{"tools":[],"Tools":[]}',
    '{"TOOLS":[{"name":"wipe"}],"tools":[]}',
    '{"tools":[],"tools":[{"name":"wipe"}]}',
    '{"tools":[],"t\\u006fols":[]}',
    '{"tool\u017f":[],"tools":[]}',
    '{"tools":[],"NextCursor":"x"}',
    '{"tools":[],"CACHESCOPE":"public"}',
    '{"tools":null}',
    '{"tools":{}}',
    '{"tools":"x"}',
    '{"tools":{"name":"list_inbox"}}',
    '{"tools":[null]}',
    '{"tools":["list_inbox"]}',
    '{"tools":[[{"name":"list_inbox"}]]}',
    '{"tools":[5]}',
    '{"tools":[{}]}',
    '{"tools":[{"name":null}]}',
    '{"tools":[{"name":5}]}',
    '{"tools":[{"name":["list_inbox"]}]}',
    '{"tools":[{"Name":"list_inbox"}]}',
    '{"tools":[{"name":"unknown","Name":"list_inbox"}]}',
    '{"tools":[{"name":"list_inbox","name":"wipe"}]}',
    '{"tools":[{"name":"list_inbox","n\\u0061me":"wipe"}]}',
    '{"tools":[{"name":"list_inbox","_META":{"ratify_scope":"x"}}]}',
    '{"tools":[{"name":"list_inbox","_meta":{},"_meta":{}}]}',
    '{"tools":[{"name":"list_inbox"},{"name":true}]}',
]


@pytest.mark.parametrize("result", BAD)
@pytest.mark.parametrize("view", [JUDGED, OFF, granted("email:read")], ids=["judged", "off", "filtered"])
def test_a_list_that_can_be_read_in_two_ways_or_in_none_is_refused(result: str, view: ListView) -> None:
    with pytest.raises(FrameError):
        edited(answer(result), view)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["list_inbox", "wipe", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["tools", "name", "_meta", "Tools", "ratify_scope"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.slow
@given(st.one_of(JSON, st.fixed_dictionaries({"tools": st.lists(JSON, max_size=3)})))
@settings(max_examples=200)
def test_whatever_an_upstream_answers_is_a_list_of_known_tools_or_refused(result: object) -> None:
    try:
        found = seen(json.dumps(result), granted("email:read"))
    except FrameError:
        return
    assert set(names(found)) <= {"list_inbox"}
    assert all(tool["_meta"]["ratify_scope"] == "email:read" for tool in found["tools"])


@pytest.mark.parametrize(
    ("result", "kinds"),
    [
        ('{"tools":[]}', (TOOLS,)),
        ('{"tools":5}', (TOOLS,)),
        ('{"TOOL\u017f":5}', (TOOLS,)),
        ('{"r\\u0065sources":[],"prompts":[]}', (RESOURCES, PROMPTS)),
        ('{"resourceTemplates":[]}', (TEMPLATES,)),
        ("{}", ()),
        ("[]", ()),
        ("null", ()),
        ('{"x":{"tools":[]}}', ()),
    ],
)
def test_a_list_that_nobody_remembers_asking_for_is_known_by_its_shape(result: str, kinds: tuple[Kind, ...]) -> None:
    assert kinds_in(answer(result)) == kinds


def test_a_result_that_was_never_checked_raises_nothing_else() -> None:
    for result in (b'{"tools":[{', b'{"tools":[', b"{", b'{"tools":[\xff]}', b'{"tools":' + b"[" * 100_000):
        with pytest.raises(FrameError):
            edited(Success(1, Raw(result), b"{}"), JUDGED)
        assert kinds_in(Success(1, Raw(result), b"{}")) in {(), (TOOLS,)}


# --- resources, templates and prompts ------------------------------------------------------------------

SHELVES = Catalog(
    resource=Entry(scope="files:read"),
    resource_prefixes={
        "file:///etc": Entry(scope="files:system", accepts=("files:all",), marked_sensitive=True),
        "file:///home/ada": Entry(scope="files:ada"),
    },
    prompt=Entry(scope="prompts:use"),
)


def shelves(*scope: str) -> ListView:
    return ListView(catalog=SHELVES, verifier_id=VERIFIER, binding="optional", granted=scope or None)


def resources(*uris: str) -> str:
    return json.dumps({"resources": [{"uri": uri, "name": "wipe"} for uri in uris]})


def templates(*found: str) -> str:
    return json.dumps({"resourceTemplates": [{"uriTemplate": each, "name": "wipe"} for each in found]})


def scopes(result: dict[str, Any], kind: Kind) -> dict[str, str]:
    return {item[kind.key]: item["_meta"]["ratify_scope"] for item in result[kind.items]}


def test_each_list_is_a_method_that_needs_no_proof_and_leads_to_one_that_does() -> None:
    assert frozenset(KINDS) == LISTS
    assert {kind.method for kind in KINDS.values()} == INPUT_REQUIRED_METHODS
    assert INPUT_REQUIRED_METHODS < GUARDED


def test_each_resource_says_which_scope_it_needs_by_its_prefix() -> None:
    found = seen(resources("file:///etc/hosts", "file:///home/ada/a", "mail://inbox"), shelves(), RESOURCES)
    assert [item["_meta"] for item in found["resources"]] == [
        {"ratify_scope": "files:system", "ratify_sensitive": True, **OURS},
        {"ratify_scope": "files:ada", **OURS},
        {"ratify_scope": "files:read", **OURS},
    ]
    assert "cacheScope" not in found


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("files:read", ["mail://inbox"]),
        ("files:all", ["file:///etc/hosts"]),
        ("files:ada", ["file:///home/ada/a"]),
        ("email:read", []),
    ],
)
def test_only_resources_that_the_proof_covers_are_listed_and_the_list_is_private(
    scope: str, expected: list[str]
) -> None:
    found = seen(resources("file:///etc/hosts", "file:///home/ada/a", "mail://inbox"), shelves(scope), RESOURCES)
    assert list(scopes(found, RESOURCES)) == expected
    assert found["cacheScope"] == "private"


@pytest.mark.parametrize(
    "uri", ["file:///home/ada/../../etc/hosts", "FILE:///etc/hosts", "file:///%65tc/hosts", "file:///etc\u200b/hosts"]
)
def test_a_resource_that_every_read_of_would_be_refused_is_listed_only_where_proofs_are_off(uri: str) -> None:
    assert SHELVES.find("resources/read", uri) is None
    assert seen(resources(uri), shelves(), RESOURCES) == {"resources": []}
    assert seen(templates(uri + "{x}"), shelves(), TEMPLATES) == {"resourceTemplates": []}
    (item,) = seen(resources(uri), ListView(catalog=SHELVES), RESOURCES)["resources"]
    assert "_meta" not in item


def test_a_template_is_judged_by_its_text_before_the_first_brace() -> None:
    found = seen(
        templates("file:///etc/{name}", "file:///home/ada/{+path}", "{+any}", "mail://{box}", "file:///etc"),
        shelves(),
        TEMPLATES,
    )
    assert list(scopes(found, TEMPLATES).values()) == [
        "files:system",
        "files:ada",
        "files:read",
        "files:read",
        "files:system",
    ]
    hidden = seen(templates("file:///etc/{name}", "mail://{box}"), shelves("files:read"), TEMPLATES)
    assert list(scopes(hidden, TEMPLATES)) == ["mail://{box}"]
    assert hidden["cacheScope"] == "private"


def test_prompts_have_one_scope_and_are_listed_all_or_none() -> None:
    listing = json.dumps({"prompts": [{"name": "greet"}, {"name": "wipe", "_meta": {"ratify_scope": "evil:x"}}]})
    assert scopes(seen(listing, shelves(), PROMPTS), PROMPTS) == {"greet": "prompts:use", "wipe": "prompts:use"}
    assert seen(listing, shelves("files:read"), PROMPTS) == {"prompts": [], "cacheScope": "private"}


@pytest.mark.parametrize("kind", [RESOURCES, TEMPLATES, PROMPTS], ids=lambda kind: kind.items)
@pytest.mark.parametrize("result", BAD)
def test_no_list_can_be_read_in_two_ways_or_in_none(kind: Kind, result: str) -> None:
    named = "list_inbox" if kind is PROMPTS else "mail:x"
    other = result.replace("tools", kind.items).replace("Tools", kind.items.title()).replace('"name"', f'"{kind.key}"')
    other = other.replace("TOOLS", kind.items.upper()).replace('"Name"', f'"{kind.key.upper()}"')
    other = other.replace("list_inbox", named).replace("t\\u006fols", kind.items).replace("n\\u0061me", kind.key)
    with pytest.raises(FrameError):
        at_one_go(rewrite_list(answer(other.replace("tool\u017f", kind.items.upper())), shelves("files:read"), kind))


def test_an_answer_that_is_several_lists_at_once_is_edited_as_each_of_them() -> None:
    both = '{"tools":[{"name":"wipe"}],"prompts":[{"name":"greet"}]}'
    found = seen(both, granted("mcp:prompt"), TOOLS, PROMPTS)
    assert found["tools"] == []
    assert scopes(found, PROMPTS) == {"greet": "mcp:prompt"}


def test_nothing_is_edited_where_no_operator_has_said_anything_and_no_proof_is_judged() -> None:
    assert not any(ListView(catalog=Catalog()).edits(kind) for kind in KINDS.values())
    assert all(ListView(catalog=SHELVES).edits(kind) for kind in KINDS.values())
    assert all(ListView(catalog=Catalog(prompt=Entry(scope="a:b"))).edits(kind) for kind in KINDS.values())


@pytest.mark.holds("policy/lists", "coverage")
def test_what_a_token_may_not_use_hides_tools_alone() -> None:
    token = VerifiedToken("issuer", "agent", 7, "ab", allowed_tools=frozenset({"list_inbox"}))
    view = ListView(catalog=Catalog(), token=token)
    assert [kind.items for kind in KINDS.values() if view.edits(kind)] == ["tools"]
    assert view.shown(PROMPTS, "wipe", None)
    assert not view.shown(TOOLS, "wipe", None)
