"""`initialize` of several servers as one answer, and the sessions in the id that comes with it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from accredit.gateway.headers import RequestHead
from accredit.gateway.upstream.merged.initialize import hello_in, merge_initialize
from accredit.gateway.upstream.merged.sessions import (
    NONCE_BYTES,
    MemberSession,
    in_session,
    longest_id,
    pack_sessions,
    sessions_in,
)
from accredit.limits import MAX_SESSION_ID_BYTES

INFO = {"name": "gate", "version": "1"}
names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True)
sessions = st.builds(MemberSession, st.binary(max_size=40), st.sampled_from(["", "0" * 16]), st.just("2025-11-25"))


def hello(revision: str, **more: Any) -> Any:
    return hello_in(Raw(json.dumps({"protocolVersion": revision, "capabilities": {}, **more}).encode()))


@pytest.mark.holds("gateway/upstream/merged/initialize", 1)
def test_a_client_is_told_the_oldest_revision_of_all() -> None:
    hellos = {"new": hello("2025-11-25"), "old": hello("2024-11-05"), "middle": hello("2025-06-18")}
    revision, result = merge_initialize(hellos, [], INFO)
    assert (revision, json.loads(result)["protocolVersion"]) == ("2024-11-05", "2024-11-05")


@pytest.mark.holds("gateway/upstream/merged/initialize", 1)
@pytest.mark.parametrize("result", [b"{}", b"[]", b'{"protocolVersion":7}', b'{"protocolVersion":"1999-01-01"}', b"7"])
def test_one_odd_server_takes_nothing_from_the_others(result: bytes) -> None:
    assert hello_in(Raw(result)) is None
    assert hello("2026-07-28") is None


@pytest.mark.holds("gateway/upstream/merged/initialize", 2)
def test_what_any_server_can_do_the_merged_endpoint_can() -> None:
    hellos = {
        "mail": hello(
            "2025-11-25", capabilities={"tools": {}, "tasks": {"list": {}, "x": {}}}, instructions="Be kind."
        ),
        "files": hello("2025-11-25", capabilities={"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}),
    }
    result = json.loads(merge_initialize(hellos, ["down"], INFO)[1])
    assert result["capabilities"] == {
        "tools": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    }
    assert "Be kind." in result["instructions"]
    assert result["serverInfo"] == INFO
    assert result["_meta"] == {"dev.accredit/unavailable": ["down"]}


@pytest.mark.holds("gateway/upstream/merged/sessions")
@given(st.dictionaries(names, sessions, max_size=5))
def test_each_server_is_asked_in_its_own_session(all_of: dict[str, MemberSession]) -> None:
    head = RequestHead(
        "POST",
        "/mcp",
        [(b"mcp-session-id", pack_sessions(all_of, b"n" * NONCE_BYTES)), (b"mcp-protocol-version", b"2024-11-05")],
    )
    assert sessions_in(head) == all_of
    for session in all_of.values():
        own = in_session(head, session)
        assert own.headers.get(b"mcp-session-id", b"") == session.id
        assert own.headers[b"mcp-protocol-version"] == b"2025-11-25"
        assert own.replica == session.replica
    assert b"mcp-session-id" not in in_session(head, None).headers


@pytest.mark.holds("gateway/upstream/merged/sessions")
@given(st.binary(max_size=60))
def test_what_holds_no_sessions_is_none(text: bytes) -> None:
    found = sessions_in(RequestHead("POST", "/mcp", [(b"mcp-session-id", text)]))
    assert all(isinstance(each, MemberSession) for each in found.values())
    assert sessions_in(RequestHead("POST", "/mcp", [])) == {}


@pytest.mark.holds("gateway/upstream/merged/sessions")
@pytest.mark.parametrize("servers", [1, 2, 20, 37])
def test_the_longest_ids_of_all_servers_have_room_in_one(servers: int) -> None:
    longest = longest_id(servers)
    assert longest >= 36
    all_of = {f"{number:032}": MemberSession(b"x" * longest, "0" * 16, "2025-11-25") for number in range(servers)}
    assert len(pack_sessions(all_of, b"n" * NONCE_BYTES)) <= MAX_SESSION_ID_BYTES
