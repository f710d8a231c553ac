"""The vocabulary: which scopes there are, what wildcards stand for, and what stays what it is."""

import pytest

from accredit.ratify.scopes import (
    CANONICAL_SCOPES,
    SENSITIVE_SCOPES,
    WILDCARDS,
    expand,
    intersect,
    is_sensitive,
    unknown_scope,
)


def test_so_many_of_each() -> None:
    assert (len(CANONICAL_SCOPES), len(SENSITIVE_SCOPES), len(WILDCARDS)) == (54, 22, 14)


def test_no_wildcard_stands_for_anything_sensitive() -> None:
    for members in WILDCARDS.values():
        assert members
        assert members <= CANONICAL_SCOPES - SENSITIVE_SCOPES


@pytest.mark.parametrize(
    ("wildcard", "members"),
    [
        ("meeting:*", "meeting:attend meeting:chat meeting:share_screen meeting:speak meeting:video"),
        ("comms:message:*", "comms:message:read comms:message:send"),
        ("comms:email:*", "comms:email:read comms:email:send"),
        (
            "comms:*",
            "comms:calendar:read comms:calendar:write comms:email:read comms:email:send"
            " comms:message:read comms:message:send",
        ),
        ("transact:*", "transact:purchase transact:sell"),
        ("payments:*", "payments:receive payments:send"),
        ("data:*", "data:read data:share"),
        ("execute:*", "execute:tool"),
        ("generate:*", "generate:content"),
        ("physical:*", "physical:enter physical:exit"),
        ("robot:*", "robot:interact robot:move robot:operate"),
        ("drone:*", "drone:capture drone:deliver"),
        ("vehicle:*", "vehicle:charge vehicle:transport"),
        ("infrastructure:*", "infrastructure:monitor"),
    ],
)
def test_what_a_wildcard_stands_for(wildcard: str, members: str) -> None:
    assert expand([wildcard]) == members.split()


@pytest.mark.parametrize(
    "scope",
    [
        "*",
        "files:*",
        "identity:*",
        "presence:*",
        "contract:*",
        "actuate:*",
        "comms:calendar:*",
        "custom:",
        "custom",
        "x-acme:do",
        "urn:acme:do",
        "",
        "Meeting:attend",
        " meeting:attend",
        "email:send",
    ],
)
def test_what_is_no_scope(scope: str) -> None:
    assert unknown_scope(["files:read", scope, "also:unknown"]) == scope


def test_custom_scopes_have_no_structure() -> None:
    assert unknown_scope(["custom:x", "custom:*", "custom:a:b"]) is None
    assert expand(["custom:*"]) == ["custom:*"]
    assert not is_sensitive("custom:files:write")


def test_what_a_deployment_adds_stands_for_itself() -> None:
    assert unknown_scope(["email:send", "email:*"], {"email:send", "email:*"}) is None
    assert expand(["email:*"]) == ["email:*"]


def test_sensitive() -> None:
    assert is_sensitive("files:write")
    assert not is_sensitive("files:read")


def test_the_intersection_is_of_what_is_granted_and_sorted() -> None:
    assert intersect([["meeting:*", "files:read"], ["meeting:speak", "files:read", "meeting:record"]]) == [
        "files:read",
        "meeting:speak",
    ]
    assert intersect([["meeting:*"], []]) == intersect([]) == []
