"""A desk elsewhere gets its own person's asks, once for each request; whoever else asks gets one 404."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.asgi import Told
from tests.world.asked import URL, WORLD, a_client_ask, allowed, an_ask, let_in
from tests.world.delegations import NOW
from tests.world.desk_requests import a_request, a_session

from accredit.consent.answers import Answer
from accredit.consent.desk_requests import MAX_DESK_REQUEST_BYTES, DeskRequest
from accredit.errors import RequestError
from accredit.gateway.front import desk_asks
from accredit.gateway.front.desk_asks import DESK_CHECKS, MAX_WAITING_DESKS_OF_PERSON, DeskAsks
from accredit.gateway.holding import HeldAsks
from accredit.keys import make_key
from accredit.ports import Grant
from accredit.ratify import DelegationCert
from accredit.rounds import KeyRing
from accredit.stores import MemoryStore
from accredit.stores.asks import Asks
from accredit.stores.door.steps import Door

OTHER = make_key("human", "Bob", NOW - 9)


class World:
    """Gateways of one store, for two people."""

    def __init__(self) -> None:
        self.holding = HeldAsks(Asks(), KeyRing([bytes(32)]), clock=lambda: NOW)
        self.store = MemoryStore()
        self.door = Door(KeyRing([bytes(32)]))
        self.desks = self.gateway()

    def gateway(self, before: DeskAsks | None = None, *, passes_on: bool = False) -> DeskAsks:
        people = [WORLD.owner.public_key, OTHER.public_key]
        return DeskAsks(people, URL, self.holding, self.store, self.door, before, passes_on=passes_on)

    async def send(self, body: bytes | DeskRequest, desks: DeskAsks | None = None, method: str = "POST") -> Any:
        told = Told(method, (), body if isinstance(body, bytes) else body.encode())
        await (desks or self.desks).serve(told.exchange)
        assert (b"cache-control", b"no-store") in told.headers
        return None if (told.status, told.body) == (404, b"{}") else json.loads(told.body)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(desk_asks, "DESK_POLL_SECONDS", 0)
    return World()


async def test_a_desk_lists_fetches_and_answers_its_person_s_asks(world: World) -> None:
    ask = an_ask()
    held = await world.holding.hold(ask)
    assert await world.send(a_request(session=a_session())) == {"codes": [ask.code]}
    fetched = await world.send(a_request("fetch", code=ask.code, session=a_session()))
    assert fetched == {"ask": ask.to_dict(), "answered": False}
    yes = allowed(ask)
    assert await world.send(a_request("answer", code=ask.code, answer=yes)) == {}
    found = await world.holding.find(held.row.key)
    assert found is not None
    assert found.answer == yes
    assert await world.send(a_request()) == {"codes": []}


@pytest.mark.holds("gateway/front/desk_asks", "answer")
async def test_the_digits_of_a_client_s_ask_are_told_to_who_lets_it_in(world: World) -> None:
    ask = a_client_ask()
    held = await world.holding.hold(ask)
    assert await world.send(a_request()) == {"codes": []}  # pushed to nobody
    fetched = await world.send(a_request("fetch", code=ask.code))
    assert "digits" not in json.dumps(fetched)
    yes = let_in(ask)
    assert await world.send(a_request("answer", code=ask.code, answer=yes)) == {"digits": held.digits}
    assert await world.send(a_request("answer", code=ask.code, answer=yes)) == {"digits": held.digits}
    no = Answer(ask=ask.digest.hex(), decision="deny")
    assert await world.send(a_request("answer", code=ask.code, answer=no)) is None
    another = a_client_ask()
    await world.holding.hold(another)
    no = Answer(ask=another.digest.hex(), decision="deny")
    assert await world.send(a_request("answer", code=another.code, answer=no)) == {}


@pytest.mark.holds("gateway/front/desk_asks", "answer")
async def test_an_answer_that_can_t_be_used_leaves_the_ask_as_it_was(world: World) -> None:
    ask = an_ask()
    held = await world.holding.hold(ask)
    for answer in (
        Answer(ask=ask.digest.hex(), decision="later"),
        Answer(ask="0" * 64, decision="deny"),
        allowed(an_ask()),
        allowed(ask, WORLD.grant("comms:email:send", constraints=())),
    ):
        assert await world.send(a_request("answer", code=ask.code, answer=answer)) is None
    assert await world.holding.find(held.row.key) == held


@pytest.mark.holds("gateway/front/desk_asks", "answer")
async def test_nobody_lets_a_client_in_by_what_another_person_signed(world: World) -> None:
    ask = a_client_ask()
    await world.holding.hold(ask)
    theirs = a_request("answer", code=ask.code, answer=let_in(ask), person=OTHER.id, by=OTHER)
    assert await world.send(theirs) is None


@pytest.mark.holds("gateway/front/desk_asks", "own")
async def test_a_call_s_ask_is_shown_to_the_person_asked_alone(world: World) -> None:
    ask = an_ask()
    await world.holding.hold(ask)
    for theirs in (
        a_request("fetch", code=ask.code, person=OTHER.id, by=OTHER),
        a_request("answer", code=ask.code, answer=allowed(ask), person=OTHER.id, by=OTHER),
        a_request("fetch", code="0000-00"),
    ):
        assert await world.send(theirs) is None
    assert await world.send(a_request(person=OTHER.id, by=OTHER)) == {"codes": []}


@pytest.mark.holds("gateway/front/desk_asks", "for-us")
@pytest.mark.holds("gateway/front/desk_asks", "signed")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        a_request(gateway="https://other.example"),
        a_request(at=NOW - 31),
        a_request(by=WORLD.agent),
        a_request(person=WORLD.agent.id, by=WORLD.agent),
        replace(a_request(), nonce="0" * 32),
        a_request(session=a_session(WORLD.agent)),
    ],
)
async def test_who_has_no_key_of_the_gateway_s_people_is_told_nothing(world: World, body: Any) -> None:
    assert await world.send(body) is None
    assert await world.send(body, method="GET") is None


@pytest.mark.holds("gateway/front/desk_asks", "bounded")
async def test_a_body_that_is_longer_than_any_request_is_not_read(world: World) -> None:
    with pytest.raises(RequestError):
        await world.send(b" " * (MAX_DESK_REQUEST_BYTES + 1))


@pytest.mark.holds("gateway/front/desk_asks", "nonce")
async def test_of_three_gateways_one_answers_a_request__however_often_it_comes(world: World) -> None:
    gateways = [world.desks, world.gateway(), world.gateway()]
    request = a_request()
    told = await asyncio.gather(*(world.send(request, each) for each in gateways * 3))
    assert [each for each in told if each is not None] == [{"codes": []}]


@pytest.mark.holds("gateway/front/desk_asks", "nonce")
async def test_a_request_from_before_a_store_began_is_none(world: World) -> None:
    world.store = MemoryStore(since=NOW)
    assert await world.send(a_request(at=NOW - 9), world.gateway()) is None
    assert await world.send(a_request(), world.gateway()) == {"codes": []}


@pytest.mark.holds("gateway/front/desk_asks", "known")
async def test_signatures_are_verified_for_known_people_alone__and_at_a_bounded_rate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_asks, "DESK_CHECKS_PER_SECOND", 0.0)
    world.desks = world.gateway()
    verified: list[str] = []

    def check(request: DeskRequest, person: Any) -> None:
        verified.append(request.person)

    monkeypatch.setattr(desk_asks, "check_signed", check)
    stranger = make_key("human", "Eve", NOW)
    for _ in range(DESK_CHECKS + 9):
        await world.send(a_request(person=stranger.id, by=stranger))
        await world.send(a_request())
    assert set(verified) == {WORLD.owner.id}
    assert len(verified) == DESK_CHECKS / 2
    assert await world.send(a_request(person=OTHER.id, by=OTHER)) == {"codes": []}
    assert await world.send(a_request(), world.gateway(world.desks)) is None  # a reload gives nobody more


async def test_a_desk_waits_for_news__and_only_so_many_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_asks, "DESK_POLL_SECONDS", 3_600)
    waiting = [asyncio.create_task(world.send(a_request())) for _ in range(MAX_WAITING_DESKS_OF_PERSON)]
    while len(world.desks._waiting) < MAX_WAITING_DESKS_OF_PERSON:
        await asyncio.sleep(0)
    assert await world.send(a_request()) == {"codes": []}
    ask = an_ask()
    await world.holding.hold(ask)
    assert await asyncio.gather(*waiting) == [{"codes": [ask.code]}] * MAX_WAITING_DESKS_OF_PERSON
    assert world.desks._waiting == []
    known = asyncio.create_task(world.send(a_request(known=(ask.code,))))
    await asyncio.sleep(0)
    known.cancel()
    await asyncio.wait([known])
    assert world.desks._waiting == []


async def _kept(
    world: World, chain: bytes, subject: str = WORLD.owner.id, client: str = "https://claude.ai/c"
) -> Grant:
    """A grant for which a person has signed a chain."""
    grant = await world.door.begin(client, subject, f"{URL}/mcp", bytes(64), ends=NOW + 600, now=NOW)
    kept = await world.door.change(grant, lambda one: replace(one, chain=chain, ends=NOW + 900), now=NOW)
    assert kept is not None
    return kept


def _text(*certificates: DelegationCert) -> bytes:
    return b"[%b]" % b",".join(each.encode() for each in certificates)


@pytest.mark.holds("gateway/front/desk_asks", "revoke")
async def test_what_a_person_takes_back_ends_with_the_agent_s_key__and_nothing_else_does(world: World) -> None:
    mine, other = let_in(a_client_ask()).certificates[0], WORLD.grant("comms:email:read")
    added = allowed(an_ask()).certificates[0]
    ended = await _kept(world, _text(mine))
    stays = await _kept(world, _text(other), client="https://other.example/c")
    theirs = await _kept(world, _text(mine), OTHER.id)
    assert await world.door.add_chain(stays, _text(added), ends=NOW + 600, now=NOW)

    async def revoke(cert_id: str, **members: Any) -> Any:
        return await world.send(a_request("revoke", certificate=cert_id, **members))

    assert await revoke(mine.cert_id, person=OTHER.id, by=OTHER) is None  # it does not stand on Bob's word
    assert await revoke("0" * 32) is None
    assert await revoke(mine.cert_id) == {}
    assert await world.door.change(ended, lambda one: one, now=NOW) is None
    assert await revoke(mine.cert_id) is None
    assert await revoke(added.cert_id) == {}
    assert await world.door.chains(stays, now=NOW) == ()
    for each in (stays, theirs):
        assert await world.door.change(each, lambda one: one, now=NOW) == each


@pytest.mark.holds("gateway/front/desk_asks", "revoke")
async def test_an_answer_that_nobody_has_used_yet_is_taken_back_with_its_ask(world: World) -> None:
    ask = an_ask()
    held = await world.holding.hold(ask)
    cert_id = (yes := allowed(ask)).certificates[0].cert_id
    assert await world.send(a_request("revoke", certificate=cert_id)) is None
    assert await world.send(a_request("answer", code=ask.code, answer=yes)) == {}
    assert await world.send(a_request("revoke", certificate="0" * 32)) is None
    assert await world.send(a_request("revoke", certificate=cert_id, person=OTHER.id, by=OTHER)) is None
    assert await world.send(a_request("revoke", certificate=cert_id)) == {}
    assert await world.holding.find(held.row.key) is None


@pytest.mark.holds("gateway/front/desk_asks", "revoke")
async def test_who_has_signed_what_a_gateway_passes_on_takes_that_back__from_people_they_do_not_know(
    world: World,
) -> None:
    front, owner = WORLD.grant("comms:email:read"), WORLD.grant("comms:email:read")
    grants = [await _kept(world, _text(each, owner), f"a person of the provider's {each.cert_id}") for each in (front,)]
    grants.append(await _kept(world, _text(WORLD.grant("comms:email:read"), owner), "another"))
    desks = world.gateway(passes_on=True)

    async def revoke(cert_id: str, **members: Any) -> Any:
        return await world.send(a_request("revoke", certificate=cert_id, **members), desks)

    assert await revoke(front.cert_id, person=OTHER.id, by=OTHER) is None
    assert await revoke(front.cert_id) == {}
    assert [await world.door.change(each, lambda one: one, now=NOW) for each in grants] == [None, grants[1]]
    assert await revoke(owner.cert_id) == {}
    assert await world.door.change(grants[1], lambda one: one, now=NOW) is None


@pytest.mark.holds("gateway/front/desk_asks", "known")
@pytest.mark.parametrize("session", [None, a_session(OTHER)])
async def test_who_asks_in_a_person_s_name_does_not_keep_them_out(world: World, session: Any) -> None:
    """From the same address, as behind a proxy: a person must always be able to take back what they have signed."""
    more = {} if session is None else {"session": session}
    for _ in range(DESK_CHECKS + 9):
        assert await world.send(a_request(by=OTHER, **more)) is None
    assert await world.send(a_request()) == {"codes": []}
    assert await world.send(a_request(session=a_session())) == {"codes": []}


@pytest.mark.holds("gateway/front/desk_asks", "revoke")
async def test_an_answer_that_is_used_just_now_is_taken_back_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page takes the answer between the two places where it can be."""
    ask = an_ask()
    held = await world.holding.hold(ask)
    cert = (yes := allowed(ask)).certificates[0]
    assert await world.send(a_request("answer", code=ask.code, answer=yes)) == {}
    answered, kept = world.holding.store.answered, list[Grant]()

    async def use(after: bytes, *, now: int) -> Sequence[tuple[bytes, bytes]]:
        found = await answered(after, now=now)
        if found:
            await world.holding.take(held.row.key)
            kept.append(await _kept(world, _text(cert)))
        return found

    monkeypatch.setattr(world.holding.store, "answered", use)
    assert await world.send(a_request("revoke", certificate=cert.cert_id)) == {}
    assert [await world.door.change(each, lambda one: one, now=NOW) for each in kept] == [None]
