"""Whose a session is: 404 for everybody else, the same for every cause, and one id for its owner."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.world.asgi import Told

from accredit.errors import AnswerError, RequestError
from accredit.gateway.front import callers
from accredit.gateway.front.callers import NOBODY, PlainSessions, SealedSessions, Sessions, sessions_of
from accredit.gateway.front.session_ids import Principal, SessionIds
from accredit.gateway.headers import RequestHead
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RoundsSettings, TokenSettings
from accredit.limits import MAX_SESSION_ID_BYTES, SESSION_ID_SECONDS
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/front/callers")

KEYS = KeyRing([b"k" * 32])
ALICE, BOB = ("https://issuer.example", "alice"), ("https://issuer.example", "bob")
REVISION = "2025-11-25"


def sealing(ring: KeyRing = KEYS) -> SealedSessions:
    return SealedSessions(SessionIds(ring))


def entered(sessions: Sessions, named: bytes | None = None, principal: Principal = ALICE) -> Told:
    """A request that was let in, with what its server sees in its exchange's head. Raises `RequestError`."""
    told = Told("POST", [] if named is None else [(b"mcp-session-id", named)])
    sessions.enter(told.exchange, told.exchange.head, principal)
    return told


def answered(told: Told, id: bytes) -> bytes:
    """The id that the client gets, of a session that the server calls `id`."""
    assert told.exchange.session_shown is not None
    shown = told.exchange.session_shown(id, "")
    assert shown is not None
    return shown


def begun(sessions: SealedSessions, principal: Principal = ALICE, id: bytes = b"own") -> bytes:
    """The id of a session that begins."""
    told = entered(sessions, None, principal)
    told.exchange.negotiated(id, REVISION)
    return answered(told, id)


def refusal(sessions: Sessions, named: bytes, principal: Principal = ALICE) -> tuple[object, ...]:
    with pytest.raises(RequestError) as refused:
        entered(sessions, named, principal)
    error = refused.value
    return error.status, error.code, str(error), error.data, error.word, error.id


@pytest.mark.holds("gateway/front/callers", "owner", "stable-id")
def test_a_session_goes_on_at_any_gateway_with_the_keys__under_one_name() -> None:
    id = begun(sealing())
    other = sealing(KeyRing([b"new" * 10 + b"er", b"k" * 32]))
    for _ in range(2):
        told = entered(other, id)
        assert told.exchange.head.headers[b"mcp-session-id"] == b"own"
        assert other.revision(Told("POST", [(b"mcp-session-id", id)]).exchange.head) == REVISION
        assert answered(told, b"own") == id
        assert answered(told, b"another") not in (id, b"another")


@pytest.mark.holds("gateway/front/callers", "unknown-session")
def test_a_session_that_is_not_ones_own_is_one_that_never_was__whatever_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = sealing()
    id = begun(sessions)
    causes = [
        refusal(sessions, id, BOB),
        refusal(sessions, id, NOBODY),
        refusal(sessions, begun(sessions, NOBODY)),
        refusal(sessions, b"own"),
        refusal(sessions, b""),
        refusal(sessions, b"a1." + b"A" * 200),
        refusal(sessions, id[:-1] + bytes([id[-1] ^ 1])),
        refusal(sessions, id + b"\0" + id),
        refusal(sealing(KeyRing([b"f" * 32])), id),
        refusal(SealedSessions(SessionIds(KEYS, "0" * 16)), id),
        refusal(sessions, b"\xff" * 6_000),
    ]
    late = callers.unix_seconds() + SESSION_ID_SECONDS + 1
    monkeypatch.setattr(callers, "unix_seconds", lambda: late)
    assert {*causes, refusal(sessions, id)} == {(404, -32600, "Session not found", None, "session_not_found", None)}


def test_an_id_that_a_connection_knows_expires_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = sealing()
    head = Told("POST", [(b"mcp-session-id", begun(sessions))]).exchange.head
    sessions.enter(Told().exchange, head, ALICE)
    late = callers.unix_seconds() + SESSION_ID_SECONDS + 1
    monkeypatch.setattr(callers, "unix_seconds", lambda: late)
    with pytest.raises(RequestError):
        sessions.enter(Told().exchange, head, ALICE)


def test_an_id_is_opened_once_for_a_head_and_its_owner_compared_each_time() -> None:
    opened: list[bytes] = []

    class Counting(SessionIds):
        def open(self, value: bytes) -> Any:
            opened.append(value)
            return super().open(value)

    sessions = SealedSessions(Counting(KEYS))
    id = begun(sessions)
    for named, lets_in in ((id, True), (b"forged", False)):
        opened.clear()
        head = Told("POST", [(b"mcp-session-id", named)]).exchange.head
        for principal in (ALICE, BOB, ALICE):
            exchange = Told().exchange
            sessions.look(exchange)
            if lets_in and principal == ALICE:
                sessions.enter(exchange, head, principal)
                assert exchange.head.session == "own"
            else:
                with pytest.raises(RequestError):
                    sessions.enter(exchange, head, principal)
        assert opened == [named]


def test_what_is_asked_before_the_owner_is_known_is_asked_in_the_session__or_in_none() -> None:
    sessions = sealing()
    for named, found in ((begun(sessions), b"own"), (b"own", None)):
        exchange = Told("POST", [(b"mcp-session-id", named)]).exchange
        sessions.look(exchange)
        assert exchange.head.headers.get(b"mcp-session-id") == found


def test_an_id_of_the_servers_that_no_client_could_bring_back_is_no_answer() -> None:
    assert begun(sealing(), id=b"x" * MAX_SESSION_ID_BYTES)
    with pytest.raises(AnswerError):
        begun(sealing(), id=b"x" * (MAX_SESSION_ID_BYTES + 1))
    told = entered(sealing())
    headers = [(b"mcp-session-id", b"x" * (MAX_SESSION_ID_BYTES + 1)), (b"x-kept", b"1")]
    asyncio.run(told.exchange.reply(200, b"", headers))
    assert told.headers == [(b"x-kept", b"1"), (b"content-length", b"0")]


def test_ids_are_sealed_where_sessions_belong_to_somebody_or_to_several_gateways__and_else_are_the_servers() -> None:
    plain = GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"))
    with_tokens = replace(plain, tokens=TokenSettings((), "http://127.0.0.1/mcp"))
    in_cluster = replace(plain, rounds=RoundsSettings(KEYS, shared=True))
    assert isinstance(sessions_of(plain, live_here=True), PlainSessions)
    for settings in (with_tokens, in_cluster):
        here, there = sessions_of(settings, live_here=True), sessions_of(settings, live_here=True)
        anywhere = sessions_of(settings, live_here=False)
        assert isinstance(here, SealedSessions)
        id = begun(here)
        assert re.fullmatch(rb"a1\.[0-9a-f]{16}\.[\w-]+", id)
        assert entered(here, id).exchange.head.session == "own"
        refusal(there, id)
        refusal(anywhere, id)
    # Without a file of keys they are drawn for a process and its forks.
    assert isinstance(anywhere, SealedSessions)
    assert entered(sessions_of(in_cluster, live_here=False), begun(anywhere)).exchange.head.session == "own"
    drawn = sessions_of(with_tokens, live_here=False)
    assert isinstance(drawn, SealedSessions)
    assert entered(sessions_of(with_tokens, live_here=False), begun(drawn)).exchange.head.session == "own"
    refusal(sessions_of(replace(with_tokens, rounds=RoundsSettings()), live_here=False), begun(drawn))


def test_a_plain_session_has_the_servers_id__and_the_revision_that_it_began_with() -> None:
    sessions = PlainSessions()
    told = entered(sessions, b"own", NOBODY)
    assert told.exchange.session_shown is None
    assert told.exchange.head.session == "own"
    told.exchange.negotiated(b"new", REVISION)
    for named, revision in ((b"new", REVISION), (b"own", None)):
        assert sessions.revision(RequestHead("POST", "/mcp", [(b"mcp-session-id", named)])) == revision
    assert sessions.revision(RequestHead("POST", "/mcp", [])) is None
