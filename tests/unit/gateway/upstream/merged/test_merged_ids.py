"""Ids of several servers: no two collide, each leads back to its own server as that wrote it, and nobody forges one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import MessageId
from accredit.gateway.headers import RequestHead
from accredit.gateway.upstream.merged.ids import (
    MAX_MERGED_EVENT_ID_BYTES,
    NONCE_BYTES,
    EventIds,
    MemberSession,
    ProgressTokens,
    digest_of,
    in_session,
    inner_id,
    longest_event_id,
    longest_id,
    merged_ring,
    outer_id,
    pack_sessions,
    sessions_in,
)
from accredit.limits import MAX_SESSION_ID_BYTES
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/upstream/merged/ids")

RING = merged_ring(KeyRing([b"k" * 32]))
names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
own_ids: st.SearchStrategy[MessageId] = st.integers(-(10**60), 10**60) | texts | texts.map(lambda text: f"mail:{text}")


@pytest.mark.holds("gateway/upstream/merged/ids", "server-ids")
@given(names, own_ids)
def test_a_servers_id_comes_back_to_it_type_and_all(name: str, id: MessageId) -> None:
    found = inner_id(outer_id(name, id))
    assert found is not None
    assert found == (name, id)
    assert type(found[1]) is type(id)


@pytest.mark.holds("gateway/upstream/merged/ids", "server-ids")
@given(st.tuples(names, own_ids), st.tuples(names, own_ids))
def test_two_servers_ids_never_collide__nor_a_number_with_its_text(
    one: tuple[str, MessageId], other: tuple[str, MessageId]
) -> None:
    same = one == other and type(one[1]) is type(other[1])
    assert (outer_id(*one) == outer_id(*other)) == same
    assert outer_id("mail", 7) != outer_id("mail", "7")


@given(own_ids | texts.map(lambda text: f"mail:{text}"))
def test_what_no_server_gave_is_nobodys(id: MessageId) -> None:
    found = inner_id(id)
    assert found is None or outer_id(*found) == id


@pytest.mark.parametrize(
    "id", [7, None, "", "mail", "mail:", "mail:07", "mail:1.0", 'mail:"\\u0061"', "mail: 7", "mail:7 "]
)
def test_no_other_spelling_of_an_id_is_taken(id: MessageId | None) -> None:
    assert inner_id(id) is None


@pytest.mark.holds("gateway/upstream/merged/ids", "progress-tokens")
@given(names, st.binary(max_size=40), own_ids)
def test_the_clients_token_comes_back_from_the_server_that_has_it(name: str, session: bytes, token: MessageId) -> None:
    tokens = ProgressTokens(RING, name, session)
    found = tokens.inside_out(tokens.outside_in(token))
    assert found == token
    assert type(found) is type(token)


@pytest.mark.holds("gateway/upstream/merged/ids", "progress-tokens")
@given(own_ids, own_ids)
def test_no_server_speaks_of_a_call_that_another_has_got(token: MessageId, other: MessageId) -> None:
    mail, files = ProgressTokens(RING, "mail", b"1"), ProgressTokens(RING, "files", b"1")
    given_to_mail = mail.outside_in(token)
    assert files.inside_out(given_to_mail) is None
    assert ProgressTokens(RING, "mail", b"2").inside_out(given_to_mail) is None
    assert mail.inside_out(token) is None
    forged = given_to_mail[:22] + mail.outside_in(other)[22:]
    assert mail.inside_out(forged) == (token if forged == given_to_mail else None)


def test_a_token_is_good_while_its_key_is_kept() -> None:
    old, new = b"o" * 32, b"n" * 32
    given_out = ProgressTokens(merged_ring(KeyRing([old])), "mail").outside_in(7)
    assert ProgressTokens(merged_ring(KeyRing([new, old])), "mail").inside_out(given_out) == 7
    assert ProgressTokens(merged_ring(KeyRing([new])), "mail").inside_out(given_out) is None
    for bad in (None, 7, "", "x" * 22, "\ud800" * 30, "!" * 40):
        assert ProgressTokens(RING, "mail").inside_out(bad) is None


header_bytes = st.binary(max_size=60).filter(lambda id: all(32 <= byte != 127 for byte in id))


@pytest.mark.holds("gateway/upstream/merged/ids", "event-ids")
@given(st.dictionaries(names, header_bytes, max_size=5), st.binary(max_size=40), own_ids)
def test_each_servers_last_event_comes_back(last: dict[str, bytes], session: bytes, request: MessageId) -> None:
    for ids in (EventIds(last), EventIds(last, digest_of(request))):
        text = ids.text(RING, session)
        assert EventIds.read(text, RING, session) == ids
        assert EventIds.read(text, RING, session + b"x") is None
        assert text.isascii()


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"m1." + base64.urlsafe_b64encode(data)))
def test_nobody_makes_an_event_id(text: bytes) -> None:
    assert EventIds.read(text, RING, b"") is None


def test_no_event_id_carries_what_a_header_must_not() -> None:
    for bad in (b"1\r\nX: y", b"\0", b"\n", b"\x7f"):
        assert EventIds.read(EventIds({"mail": bad}).text(RING, b""), RING, b"") is None


@pytest.mark.parametrize("servers", [1, 2, 20, 38])
def test_the_ids_of_many_servers_fit_in_a_header(servers: int) -> None:
    longest = longest_event_id(servers)
    assert longest >= 36
    ids = EventIds({f"{number:032}": b"x" * longest for number in range(servers)}, digest_of(7))
    text = ids.text(RING, b"session")
    assert len(text) <= MAX_MERGED_EVENT_ID_BYTES
    assert EventIds.read(text, RING, b"session") == ids
    assert EventIds.read(text + b"A" * MAX_MERGED_EVENT_ID_BYTES, RING, b"session") is None


own_sessions = st.builds(MemberSession, st.binary(max_size=40), st.sampled_from(["", "0" * 16]), st.just("2025-11-25"))


@pytest.mark.holds("gateway/upstream/merged/ids", "session-ids")
@given(st.dictionaries(names, own_sessions, max_size=5))
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


@pytest.mark.holds("gateway/upstream/merged/ids", "session-ids")
@given(st.binary(max_size=60))
def test_what_holds_no_sessions_is_none(text: bytes) -> None:
    found = sessions_in(RequestHead("POST", "/mcp", [(b"mcp-session-id", text)]))
    assert all(isinstance(each, MemberSession) for each in found.values())
    assert sessions_in(RequestHead("POST", "/mcp", [])) == {}


@pytest.mark.holds("gateway/upstream/merged/ids", "session-ids")
@pytest.mark.parametrize("servers", [1, 2, 20, 37])
def test_the_longest_ids_of_all_servers_have_room_in_one(servers: int) -> None:
    longest = longest_id(servers)
    assert longest >= 36
    all_of = {f"{number:032}": MemberSession(b"x" * longest, "0" * 16, "2025-11-25") for number in range(servers)}
    assert len(pack_sessions(all_of, b"n" * NONCE_BYTES)) <= MAX_SESSION_ID_BYTES
