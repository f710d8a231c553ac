"""What a session that begins where another one ended is told."""

from typing import Any

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest

from accredit.client.legacy_session import MAX_RENEWED_SUBSCRIPTIONS, LegacySession


def request(method: str, **params: Any) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=1, method=method, params=params)


def notification(method: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=method)


def begun(**result: Any) -> LegacySession:
    return LegacySession.begun(request("initialize", capabilities={}), result)


@pytest.mark.holds("client/legacy_session", "restore")
def test_a_new_session_knows_the_level_and_the_subscriptions_that_were_not_ended() -> None:
    session = begun(protocolVersion="2025-11-25")
    level = request("logging/setLevel", level="debug")
    kept, ended = request("resources/subscribe", uri="a:1"), request("resources/subscribe", uri="a:2")
    others = (request("tools/call", name="x"), request("resources/unsubscribe", uri="a:2"))
    for each in (kept, request("logging/setLevel", level="info"), ended, level, *others):
        session.remember_request(each)
    assert session.requests == [level, kept]
    assert session.notifications == [notification("notifications/initialized")]
    assert session.metadata.headers == {"mcp-protocol-version": "2025-11-25"}


def test_subscriptions_without_end_are_forgotten__the_oldest_first() -> None:
    session = begun()
    for number in range(MAX_RENEWED_SUBSCRIPTIONS + 1):
        session.remember_request(request("resources/subscribe", uri=f"a:{number}"))
    assert session.requests[0] == request("resources/subscribe", uri="a:1")
    assert len(session.requests) == MAX_RENEWED_SUBSCRIPTIONS


@pytest.mark.holds("client/legacy_session", "roots")
def test_that_roots_have_changed_is_said_again_only_if_it_was_said() -> None:
    session = begun()
    session.remember_notification(notification("notifications/progress"))
    changed = notification("notifications/roots/list_changed")
    session.remember_notification(changed)
    assert session.notifications == [notification("notifications/initialized"), changed]


@pytest.mark.holds("client/legacy_session", "lists-changed")
def test_lists_that_a_server_announces_changes_of_are_said_to_have_changed__no_other() -> None:
    session = begun(capabilities={"tools": {"listChanged": True}, "prompts": {"listChanged": False}, "resources": []})
    assert session.list_changes == [notification("notifications/tools/list_changed")]


def test_a_server_that_says_nonsense_of_itself_has_no_capabilities_and_no_revision() -> None:
    session = begun(capabilities=["tools"], protocolVersion=7)
    assert session.list_changes == []
    assert session.metadata.headers == {}
