"""Clients that speak only OAuth: their calls are proved by the gateway with the agent's key, and decided as all are."""

import dataclasses
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.authorization import Signed, Trust
from tests.world.calls import post
from tests.world.decisions import Known
from tests.world.guests import CHATGPT, CLAUDE, FrontDoor, Visit, sha256, text_of
from tests.world.recorded import calls_of, records_at, verified
from tests.world.routes import Route, messages_of

from accredit.base.clock import unix_seconds
from accredit.errors import ConfigurationError
from accredit.gateway import create_app
from accredit.gateway.oauth_settings import IdpSettings
from accredit.gateway.settings import HttpUpstream
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.holds("gateway/admission/guests")

INBOX: dict[str, Any] = {"name": "list_inbox", "arguments": {"limit": 3}}
PAY: dict[str, Any] = {"name": "pay", "arguments": {"amount": 10, "currency": "EUR"}}
SEND: dict[str, Any] = {"name": "send_email", "arguments": {"to": "a@example.com"}}
everywhere = pytest.mark.parametrize("name", ["http-legacy", "sse-modern", "stdio-legacy"])


@pytest.fixture
def front(trust: Trust) -> FrontDoor:
    return FrontDoor(trust)


def route(name: str, front: FrontDoor, folder: Path, visit: Visit, **more: Any) -> Route:
    return Route(name, front.trust, folder, oauth=front.settings, door=front.door, token=visit.token, **more)


async def ask(way: Route, token: str, params: dict[str, Any], method: str = "tools/call") -> dict[str, Any]:
    """A request with a token; gives the response."""
    answer = await way.send(post(way.era, method, params), token=token)
    assert answer.status == 200, answer
    return messages_of(answer)[-1]


def word(answer: dict[str, Any]) -> tuple[int, str]:
    """A refusal's code and word."""
    return answer["error"]["code"], answer["error"]["data"]["error"]


@pytest.mark.holds("gateway/admission/guests", "agent", "call")
@everywhere
async def test_a_client_s_call_is_made_by_its_agent_on_what_people_signed__and_its_record_proves_itself(
    name: str, front: FrontDoor, tmp_path: Path
) -> None:
    visit = await front.visit()
    records = records_at(tmp_path / "log.db")
    async with route(name, front, tmp_path, visit, records=records) as way:
        answer = await ask(way, visit.token, INBOX)
        assert answer["result"], answer
    (call,) = calls_of(tmp_path / "log.db")
    record = call["record"]
    assert (record.call.client, record.authority.agent_id) == (CLAUDE, visit.agent.id)
    assert (record.authority.bound, record.authority.proof) == (True, "kept")
    assert (record.token.subject, record.token.sha256) == (visit.agent.id, sha256(visit.token))
    report = verified(tmp_path / "log.db")
    assert report.fault is None


@pytest.mark.holds("gateway/admission/bearer", "guests", "removal")
@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
async def test_what_the_client_came_in_with_goes_on_to_no_server__and_is_in_no_log(
    name: str, front: FrontDoor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    visit = await front.visit()
    async with route(name, front, tmp_path, visit, forward_headers=()) as way:
        posted = post(way.era, "tools/call", INBOX).and_header("DPoP", "a.b.c")
        assert (await way.send(posted, token=visit.token)).status == 200
        (came,) = way.received("tools/call")
        told = came["params"]["_meta"]["dev.accredit/authorization"]
        assert (told["principal_id"], told["agent_id"]) == (front.trust.owner.id, visit.agent.id)
        mark = visit.token.rsplit(".", 1)[1]
        assert mark.encode() not in way.bytes_received()
        for header in ("authorization", "dpop"):
            assert way.headers_received(header) == []
    assert mark not in caplog.text + str([record.__dict__ for record in caplog.records])


@pytest.mark.holds("gateway/admission/guests", "standing")
@everywhere
async def test_a_token_covers_no_more_than_was_signed__and_no_more_than_its_own_scopes(
    name: str, front: FrontDoor, tmp_path: Path
) -> None:
    narrow = await front.visit(CHATGPT, "email:read", tools=["list_inbox"])
    less = await front.visit(CLAUDE, scopes=["email:read"])
    own = await front.visit("https://other.example/c.json", constraints=[MaxAmount(max_amount=5, currency="EUR")])
    async with route(name, front, tmp_path, narrow) as way:
        for visit, params, error in (
            (narrow, PAY, "ratify_scope_denied"),
            (narrow, {**INBOX, "name": "drop_tables"}, "unknown_tool"),
            (less, PAY, "ratify_scope_denied"),
            (own, PAY, "ratify_constraint_denied"),
            (own, SEND, "ratify_scope_denied"),
        ):
            session = await way.another_session(visit.token)
            way.session = session
            code, said = word(await ask(way, visit.token, params))
            assert (code, said) == (-32602 if error == "unknown_tool" else -31003, error), params
        assert way.received("tools/call") == []
        assert (await ask(way, own.token, {**PAY, "arguments": {"amount": 5, "currency": "EUR"}}))["result"]


@pytest.mark.holds("policy/decide", "token-subject")
@pytest.mark.holds("gateway/admission/guests", "other-proof")
@everywhere
async def test_a_token_beside_the_proof_of_another_agent_gives_nothing(
    name: str, front: FrontDoor, tmp_path: Path
) -> None:
    visit = await front.visit()
    async with route(name, front, tmp_path, visit) as way:
        chain = front.trust.chain()
        proof = front.trust.proof(chain, "tools/call", INBOX, Signed(session=way.session))
        with_proof = {**INBOX, "_meta": {"ratify_proof": proof}}
        assert word(await ask(way, visit.token, with_proof)) == (-31003, "ratify_invalid")
        spoofed = json.loads(json.dumps(proof).replace(front.trust.agent.id, visit.agent.id))
        with_proof = {**INBOX, "_meta": {"ratify_proof": spoofed}}
        assert word(await ask(way, visit.token, with_proof)) == (-31003, "ratify_invalid")
        assert way.received("tools/call") == []


@pytest.mark.holds("gateway/admission/guests", "login")
@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
async def test_a_token_is_worth_nothing_once_its_login_or_its_delegation_has_ended(
    name: str, front: FrontDoor, tmp_path: Path
) -> None:
    visit, now = await front.visit(), unix_seconds()
    lists = RevocationLists((), {front.trust.owner.id: front.trust.owner.public_key})
    path = tmp_path / "revoked.json"
    async with route(name, front, tmp_path, visit, revocations=lists) as way:
        assert (await ask(way, visit.token, INBOX))["result"]
        for changes in ({"client_id": CHATGPT}, {"subject": "bob"}, {"login": "ab" * 32}, {"expires_at": now - 60}):
            other = front.token(visit.grant, visit.name, ["email:read"], **changes)
            assert (await way.send(post(way.era, "tools/call", INBOX), token=other)).status == 401, changes
        elsewhere = front.token(visit.grant, visit.name, ["email:read"], resource="http://127.0.0.1:8484/other")
        assert (await way.send(post(way.era, "tools/call", INBOX), token=elsewhere)).status == 401
        assert await front.door.end_login(bytes.fromhex(visit.name), client_id=CLAUDE, now=now)
        assert (await way.send(post(way.era, "tools/call", INBOX), token=visit.token)).status == 401
        assert len(way.received("tools/call")) == 1
    assert path.exists() is False


@pytest.mark.holds("gateway/admission/guests", "login")
async def test_a_client_that_is_struck_from_the_list_is_out_at_once__whatever_its_token_says(
    front: FrontDoor, tmp_path: Path
) -> None:
    visit = await front.visit()
    for clients, status in (((CLAUDE,), 200), ((CHATGPT,), 401)):
        front.settings = dataclasses.replace(front.settings, clients=clients)
        async with route("http-modern", front, tmp_path, visit) as way:
            found = await way.send(post(way.era, "tools/call", INBOX), token=visit.token)
            assert (found.status, len(way.received("tools/call"))) == (status, int(status == 200))


async def test_a_delegation_that_is_taken_back_ends_the_client_s_power_at_once(
    front: FrontDoor, tmp_path: Path
) -> None:
    visit = await front.visit()
    lists = _Revoked()
    async with route("http-modern", front, tmp_path, visit, revocations=lists) as way:
        assert (await ask(way, visit.token, INBOX))["result"]
        lists.every = True
        assert word(await ask(way, visit.token, INBOX)) == (-31003, "ratify_revoked")
        assert len(way.received("tools/call")) == 1


class _Revoked(Known):
    """Revocations: of nothing, until it is of everything."""

    every = False

    async def is_revoked(self, cert_id: str) -> bool:
        return self.every


async def test_limits_of_a_delegation_hold_for_a_client_as_for_any_agent(front: FrontDoor, tmp_path: Path) -> None:
    visit = await front.visit(constraints=[MaxRate(count=2, window_s=60)])
    async with route("http-modern", front, tmp_path, visit) as way:
        answers = [await ask(way, visit.token, INBOX) for _ in range(3)]
        assert ["result" in answer for answer in answers] == [True, True, False]
        assert word(answers[2]) == (-31003, "ratify_constraint_denied")


@pytest.mark.holds("gateway/admission/guests", "agent")
async def test_a_chain_that_nobody_trusts__or_for_another_key__gives_a_client_nothing(
    front: FrontDoor, trust: Trust, tmp_path: Path
) -> None:
    stranger = await front.visit(issuer=trust.stranger)
    async with route("http-modern", front, tmp_path, stranger) as way:
        assert word(await ask(way, stranger.token, INBOX)) == (-31004, "ratify_untrusted_root")
        for number, chain in enumerate((text_of(trust.chain()), b"", b"[]", b"{", b"[1]", b"x" * 140_000)):
            visit = await front.visit(f"https://other.example/{number}")

            await front.door.change(visit.grant, partial(replace, chain=chain), now=unix_seconds())
            assert word(await ask(way, visit.token, INBOX)) == (-31003, "ratify_scope_denied"), chain[:20]
        assert way.received("tools/call") == []


async def test_a_sensitive_tool_needs_an_answer_of_its_own__and_a_challenge_that_is_signed_for_that_call(
    front: FrontDoor, tmp_path: Path
) -> None:
    visit = await front.visit(CLAUDE, "email:send", tools=["send_email"])
    async with route("http-modern", front, tmp_path, visit) as way:
        assert word(await ask(way, visit.token, SEND)) == (-31003, "ratify_constraint_denied")
        once = front.sign(visit.agent, "email:send")
        assert await front.door.add_chain(visit.grant, text_of(once), ends=unix_seconds() + 60, now=unix_seconds())
        assert (await ask(way, visit.token, SEND))["result"]


async def test_a_client_sees_the_tools_and_lists_that_its_delegation_covers(front: FrontDoor, tmp_path: Path) -> None:
    visit = await front.visit(CLAUDE, "email:read")
    async with route("http-modern", front, tmp_path, visit) as way:
        tools = (await ask(way, visit.token, {}, "tools/list"))["result"]["tools"]
        assert "list_inbox" in [tool["name"] for tool in tools]


@pytest.mark.holds("gateway/admission/guests", "groups", "standing")
async def test_a_login_whose_groups_are_not_known_any_more_gives_nothing(trust: Trust, tmp_path: Path) -> None:
    """Groups that were read too long ago, a person who consented at a desk before, one who logged in before, and one
    who logged in at another provider."""
    idp = IdpSettings("https://idp.example", "accredit", "s3cret", trust.agent.signer(), (), {}, recheck_seconds=3_600)
    login: dict[str, Any] = {"consent": "idp", "idp": idp}
    at, other = idp.issuer, "https://before.example"
    cases = (
        (login, 60, at, 200),
        (login, 3_700, at, 401),
        (login, 0, "", 401),
        ({}, 60, at, 401),
        (login, 9, other, 401),
    )
    for settings, seconds, provider, status in cases:
        front = FrontDoor(trust, **settings)
        visit = await front.visit()
        now = unix_seconds()
        known = await front.door.change(
            visit.grant,
            lambda one, at=now - seconds, of=provider: replace(one, login="r", checked=at, provider=of),
            now=now,
        )
        assert known is not None
        async with route("http-modern", front, tmp_path, visit) as way:
            answer = await way.send(post(way.era, "tools/call", INBOX), token=visit.token)
            assert answer.status == status, answer
            if status == 200:  # nothing is held: the client is told which scope it lacks
                assert (await way.send(post(way.era, "tools/call", SEND), token=visit.token)).status == 403


def test_without_a_door_there_are_no_guests__and_the_start_says_so(front: FrontDoor) -> None:
    settings = front.trust.settings(HttpUpstream("http://127.0.0.1:9/mcp"), oauth=front.settings)
    with pytest.raises(ConfigurationError, match="no store of theirs"):
        create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
