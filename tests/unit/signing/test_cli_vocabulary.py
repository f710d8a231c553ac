"""Which scopes there can be where no catalog is at hand."""

import pytest

from accredit.signing.vocabulary import canonical_neighbour, catalog_scopes, impossible_scope, scope_slips

KNOWN = ["comms:email:send", "meeting:*", "identity:delegate", "custom:x", "custom:*", "custom:a b", "mcp:tool"]
CATALOG = ["email:send", "payment:initiate", "comms:email:forward", "mcp:other", "Acme:Do-It", "a.b/c:d_e"]
IMPOSSIBLE = [
    "",
    "email",
    "email:*",
    "*",
    "custom:",
    "x-:z",
    "urn:acme:thing",
    "email: send",
    "email:send\n",
    "é:a",
    ":a",
]


@pytest.mark.parametrize("scope", KNOWN)
def test_what_every_gateway_knows_needs_no_catalog(scope: str) -> None:
    assert catalog_scopes([scope]) == frozenset()
    assert impossible_scope([scope]) is None


@pytest.mark.parametrize("scope", CATALOG)
def test_what_a_catalog_could_name_is_possible(scope: str) -> None:
    assert catalog_scopes([scope]) == {scope}
    assert impossible_scope([scope]) is None


@pytest.mark.parametrize("scope", [*IMPOSSIBLE, "x-y:z", "meeting:attend:*", "files:*"])
def test_what_no_vocabulary_can_hold_is_impossible(scope: str) -> None:
    assert catalog_scopes([scope]) == frozenset()
    assert impossible_scope(["comms:email:send", scope]) == scope


@pytest.mark.parametrize(
    ("scope", "meant"),
    [
        ("email:send", "comms:email:send"),
        ("comms:email:sned", "comms:email:send"),
        ("files:reed", "files:read"),
        ("acme:frobnicate", None),
    ],
)
def test_what_may_have_been_meant(scope: str, meant: str | None) -> None:
    assert canonical_neighbour(scope) == meant


def test_a_slip_in_a_tools_scope_is_named_with_the_tool__and_a_scope_of_several_tools_is_none() -> None:
    shared = {"one": "custom:mail:send", "two": "custom:mail:send", "three": "email:read", "four": "acme:do-it"}
    assert list(scope_slips({**shared, "five": "mcp:tol", "six": "custom:mail:snd"})) == [
        "five: the scope mcp:tol is no known one; did you mean mcp:tool?",
        "six: the scope custom:mail:snd is no known one; did you mean custom:mail:send?",
    ]
