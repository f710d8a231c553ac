"""What all memories of the front door promise (`ports.DoorStore`), and that they promise the same."""

import asyncio
import hashlib
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.stores import NOW, RING, SHARED_URLS, URLS, opened_door
from tests.world.thief import Thief

from accredit.errors import StoreUnavailable
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.ports import AuthorizationCode, DoorStore, Grant, Login, Rejected
from accredit.rounds.sealing import KeyRing
from accredit.stores.door import steps

pytestmark = [pytest.mark.holds("stores/door/steps"), pytest.mark.holds("stores/door/rows")]

CLIENT, ADA, MAIL = "https://claude.ai/client.json", "ada's id", "https://mcp.example/mcp"
SEEDS, OTHER_SEEDS = b"k" * 64, b"o" * 64
END = NOW + 30 * 86_400
GIVEN = AuthorizationCode(CLIENT, "https://claude.ai/cb", "challenge", MAIL, ("email:read",))


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def fits(given: AuthorizationCode) -> bool:
    return given == GIVEN


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opening(url: str, tmp_path: Path) -> AbstractAsyncContextManager[DoorStore]:
    return opened_door(url, tmp_path)


async def consent(door: DoorStore, code: str = "code", subject: str = ADA, now: int = NOW) -> Grant:
    """A grant to which a person has consented, and its code."""
    grant = await door.begin(CLIENT, subject, MAIL, SEEDS, ends=now + 600, now=now)
    agreed = await door.approve(
        grant, lambda kept: replace(kept, chain=b"[]", ends=END), digest(code), GIVEN, ends=now + 60, now=now
    )
    assert agreed
    return replace(grant, chain=b"[]", ends=END)


async def enter(door: DoorStore, name: str = "login", code: str = "code") -> Login:
    """A login that came of a code."""
    begun = await door.redeem(digest(code), fits, login=digest(name), token=digest(f"{name} 1"), now=NOW)
    assert isinstance(begun, Login)
    return begun


async def test_a_client_that_registered_is_known_until_its_end__and_as_long_as_it_has_a_grant(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        assert await door.registered(CLIENT, now=NOW) is None
        await door.register(CLIENT, b"{}", ends=NOW + 60, now=NOW)
        assert await door.registered(CLIENT, now=NOW + 60) == b"{}"
        assert await door.registered(CLIENT, now=NOW + 61) is None
        await consent(door)
        assert await door.registered(CLIENT, now=END) == b"{}"


@pytest.mark.holds("stores/door/steps", "bounds")
async def test_strangers_who_register_take_no_place_of_a_client_that_has_a_grant(
    opening: AbstractAsyncContextManager[DoorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening as door:
        monkeypatch.setattr(steps, "MAX_REGISTERED_CLIENTS", 2)
        await door.register(CLIENT, b"{}", ends=NOW + 60, now=NOW)
        await consent(door)
        await consent(door, "another code", "bob")
        for number in range(4):
            await door.register(f"{number}", b"{}", ends=END + 60 + number, now=NOW)
        known = [await door.registered(each, now=NOW) for each in (CLIENT, "0", "1", "2", "3")]
        assert known == [b"{}", None, None, b"{}", b"{}"]


@pytest.mark.holds("stores/door/steps", "bounds")
async def test_a_site_that_has_a_person_s_browser_begin_logins_keeps_them_from_none__consents_fill_their_room_alone(
    opening: AbstractAsyncContextManager[DoorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening as door:
        monkeypatch.setattr(steps, "MAX_GRANTS_OF_PERSON", 3)
        kept = await consent(door)
        for number in range(4):
            await door.begin(f"{number}", ADA, MAIL, OTHER_SEEDS, ends=NOW + 600, now=NOW)
        mine = await door.begin("mine", ADA, MAIL, SEEDS, ends=NOW + 600, now=NOW)
        assert await door.change(mine, lambda one: replace(one, chain=b"[]"), now=NOW) is not None
        other = await door.begin("another", ADA, MAIL, SEEDS, ends=NOW + 600, now=NOW)
        assert await door.change(other, lambda one: replace(one, chain=b"[]"), now=NOW) is not None
        with pytest.raises(StoreUnavailable):
            await door.begin("one more", ADA, MAIL, SEEDS, ends=NOW + 600, now=NOW)
        assert await door.change(kept, lambda one: one, now=NOW) == kept
        await door.begin("one more", "bob", MAIL, SEEDS, ends=NOW + 600, now=NOW)


async def test_each_client_of_each_person_at_each_endpoint_has_one_key(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        first = await door.begin(CLIENT, ADA, MAIL, SEEDS, ends=NOW + 60, now=NOW)
        again = await door.begin(CLIENT, ADA, MAIL, OTHER_SEEDS, ends=NOW + 90, now=NOW)
        assert (first.seeds, again) == (SEEDS, replace(first, ends=NOW + 90))
        for other in ((CLIENT + "2", ADA, MAIL), (CLIENT, "bob", MAIL), (CLIENT, ADA, MAIL + "/mail")):
            assert (await door.begin(*other, OTHER_SEEDS, ends=NOW + 60, now=NOW)).seeds == OTHER_SEEDS
        late = await door.begin(CLIENT, ADA, MAIL, OTHER_SEEDS, ends=NOW + 200, now=NOW + 91)
        assert late.seeds == OTHER_SEEDS


@pytest.mark.holds("stores/door/steps", "code", "last-login")
async def test_a_code_gives_one_login__and_its_second_use_ends_what_came_of_the_first(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        grant = await consent(door)
        begun = await enter(door)
        assert (begun.grant, begun.scopes, begun.ends) == (grant, GIVEN.scopes, END)
        assert await door.login(digest("login"), now=NOW) == begun
        again = await door.redeem(digest("code"), fits, login=digest("thief"), token=digest("t"), now=NOW + 3_600)
        assert again is Rejected.REUSED
        assert [await door.login(digest(each), now=NOW) for each in ("login", "thief")] == [None, None]
        fresh = await door.begin(CLIENT, ADA, MAIL, OTHER_SEEDS, ends=END, now=NOW)
        assert fresh.seeds == OTHER_SEEDS, "the agent's key ended with its last login"


@pytest.mark.holds("stores/door/steps", "code")
async def test_a_code_is_good_for_a_minute__and_lost_to_who_presents_it_without_its_verifier(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        await consent(door)
        for now, accepts, why in ((NOW + 61, True, Rejected.UNKNOWN), (NOW, False, Rejected.UNFIT)):
            found = await door.redeem(
                digest("code"), lambda _, a=accepts: a, login=digest("l"), token=digest("t"), now=now
            )
            assert found is why
        lost = await door.redeem(digest("code"), fits, login=digest("l"), token=digest("t"), now=NOW)
        assert lost is Rejected.UNKNOWN
        assert (
            await door.redeem(digest("guess"), fits, login=digest("l"), token=digest("t"), now=NOW) is Rejected.UNKNOWN
        )


@pytest.mark.holds("stores/door/steps", "rotation")
async def test_a_refresh_token_is_replaced_by_its_use__and_an_old_one_ends_the_login(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        await consent(door)
        await enter(door)
        name = digest("login")
        other = await door.rotate(name, digest("login 1"), digest("stolen"), client_id="another", now=NOW)
        assert other is Rejected.UNKNOWN
        for number in (1, 2):
            old, new = digest(f"login {number}"), digest(f"login {number + 1}")
            assert isinstance(await door.rotate(name, old, new, client_id=CLIENT, now=NOW), Login)
        assert await door.login(name, now=NOW) is not None
        old = await door.rotate(name, digest("login 1"), digest("x"), client_id=CLIENT, now=NOW)
        assert old is Rejected.REUSED
        assert await door.login(name, now=NOW) is None
        newest = await door.rotate(name, digest("login 3"), digest("x"), client_id=CLIENT, now=NOW)
        assert newest is Rejected.UNKNOWN


@pytest.mark.holds("stores/door/steps", "last-login")
async def test_the_last_login_that_ends_takes_the_agent_s_key_with_it__and_no_earlier_one(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        await consent(door, "one")
        await enter(door, "one", "one")
        await consent(door, "two")
        await enter(door, "two", "two")
        assert not await door.end_login(digest("one"), client_id="another", now=NOW)
        assert await door.end_login(digest("one"), client_id=CLIENT, now=NOW)
        assert not await door.end_login(digest("one"), client_id=CLIENT, now=NOW)
        assert await door.login(digest("two"), now=NOW) is not None
        grant = await consent(door, "three")
        assert await door.add_chain(grant, b"[1]", ends=END, now=NOW)
        assert await door.end_login(digest("two"), client_id=CLIENT, now=NOW)
        lost = await door.redeem(digest("three"), fits, login=digest("l"), token=digest("t"), now=NOW)
        assert (lost, await door.chains(grant, now=NOW)) == (Rejected.UNKNOWN, ())
        assert await door.change(grant, lambda kept: kept, now=NOW) is None


@pytest.mark.holds("stores/door/steps", "key")
async def test_who_ends_a_grant_that_they_read_before_a_new_consent_does_not_end_that(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    """A refresh at one gateway waits seconds for the identity provider, while the person logs in again at another."""
    async with opening as door:
        grant = await consent(door)
        await door.end_grant(grant)
        anew = await door.begin(CLIENT, ADA, MAIL, OTHER_SEEDS, ends=END, now=NOW)
        assert await door.approve(anew, lambda each: each, digest("new"), GIVEN, ends=END, now=NOW)
        await door.end_grant(grant)
        assert await door.change(anew, lambda each: each, now=NOW) == anew
        await enter(door, "new", "new")
        assert await door.login(digest("new"), now=NOW) is not None


@pytest.mark.holds("stores/door/steps", "key")
async def test_what_people_signed_never_comes_to_another_key_than_theirs(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        grant = await consent(door)
        await door.end_grant(grant)
        await door.begin(CLIENT, ADA, MAIL, OTHER_SEEDS, ends=NOW + 60, now=NOW)
        for kept in (grant, replace(grant, subject="bob")):
            assert not await door.approve(kept, lambda each: each, digest("c"), GIVEN, ends=END, now=NOW)
            assert await door.change(kept, lambda each: each, now=NOW) is None
            assert not await door.add_chain(kept, b"[]", ends=END, now=NOW)
        mine = replace(grant, seeds=OTHER_SEEDS)
        with pytest.raises((ValueError, StoreUnavailable)):
            await door.change(mine, lambda each: replace(each, seeds=SEEDS), now=NOW)
        assert (await door.begin(CLIENT, ADA, MAIL, SEEDS, ends=NOW + 60, now=NOW)).seeds == OTHER_SEEDS


async def test_answers_to_asks_are_kept_until_they_end__beside_what_stands(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        grant = await consent(door)
        for number in range(3):
            assert await door.add_chain(grant, b"[%d]" % number, ends=NOW + number, now=NOW)
        assert await door.chains(grant, now=NOW + 1) == (b"[2]", b"[1]")
        changed = await door.change(
            grant, lambda kept: replace(kept, chain=b"[9]", login="token", checked=NOW), now=NOW
        )
        assert changed == replace(grant, chain=b"[9]", login="token", checked=NOW)
        assert "token" not in repr(changed)
        assert str(SEEDS) not in repr(changed)


async def test_what_a_person_takes_back_ends_whole__and_is_found_among_their_own_alone(
    opening: AbstractAsyncContextManager[DoorStore],
) -> None:
    async with opening as door:
        grant, bobs = await consent(door), await consent(door, "bob's", "bob")
        assert await door.add_chain(bobs, b"[1]", ends=END, now=NOW)
        assert await door.add_chain(bobs, b"[2]", ends=END, now=NOW)
        await enter(door)
        assert not await door.take_back("carol", lambda chain: True, now=NOW)
        assert not await door.take_back(ADA, lambda chain: chain == b"[1]", now=NOW)
        assert await door.take_back("bob", lambda chain: chain == b"[1]", now=NOW)
        assert await door.chains(bobs, now=NOW) == (b"[2]",)
        assert await door.take_back(ADA, lambda chain: chain == b"[]", now=NOW)
        assert await door.login(digest("login"), now=NOW) is None
        assert await door.change(grant, lambda kept: kept, now=NOW) is None
        assert await door.change(bobs, lambda kept: kept, now=NOW) == bobs
        assert not await door.take_back(ADA, lambda chain: True, now=NOW)


async def test_what_was_passed_on_to_many_is_taken_back_from_all__and_from_nobody_else(
    opening: AbstractAsyncContextManager[DoorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person whose delegation a gateway passes on knows none of the people who log in."""
    monkeypatch.setattr(steps, "GRANTS_OF_PAGE", 2)
    async with opening as door:
        grants = [await consent(door, f"code {number}", f"person {number}") for number in range(5)]
        kept = await door.change(grants[3], lambda one: replace(one, chain=b"[9]"), now=NOW)
        assert not await door.take_back_from_all(lambda chain: chain == b"[8]", now=NOW)
        assert await door.take_back_from_all(lambda chain: chain == b"[]", now=NOW)
        left = [await door.change(each, lambda one: one, now=NOW) for each in grants]
        assert left == [None, None, None, kept, None]
        assert not await door.take_back_from_all(lambda chain: chain == b"[]", now=NOW)


@pytest.mark.holds("stores/door/steps", "bounds")
async def test_nobody_uses_up_the_room_of_others(
    opening: AbstractAsyncContextManager[DoorStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opening as door:
        for name, most in (("DOOR_GRANTS", 3), ("GRANTS_OF_PERSON", 2), ("LOGINS_OF_GRANT", 2), ("CHAINS_OF_GRANT", 2)):
            monkeypatch.setattr(steps, f"MAX_{name}", most)
        for number in range(2):
            begun = await door.begin(f"{number}", ADA, MAIL, SEEDS, ends=END, now=NOW)
            await door.change(begun, lambda one: replace(one, chain=b"[]"), now=NOW)
        with pytest.raises(StoreUnavailable):
            await door.begin("more", ADA, MAIL, SEEDS, ends=END, now=NOW)
        grant = await consent(door, "0", "bob")
        with pytest.raises(StoreUnavailable):
            await door.begin("more", "carol", MAIL, SEEDS, ends=END, now=NOW)
        for number in range(3):
            await consent(door, f"{number}", "bob", NOW)
            await enter(door, f"login {number}", f"{number}")
            await door.add_chain(grant, b"[%d]" % number, ends=END + number, now=NOW)
        assert len([each for each in range(3) if await door.login(digest(f"login {each}"), now=NOW)]) == 2
        assert await door.chains(grant, now=NOW) == (b"[2]", b"[1]")
        long = b"x" * (2 * MAX_PROOF_BUNDLE_BYTES)
        with pytest.raises(StoreUnavailable, match="too long"):
            await door.change(grant, lambda kept: replace(kept, chain=long), now=NOW)


@pytest.mark.parametrize("url", SHARED_URLS)
@pytest.mark.holds("stores/runners", "writes", "reads")
async def test_of_three_gateways_that_are_given_one_code_or_token_at_once_one_is_first(
    url: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        doors = [await stack.enter_async_context(opened_door(url, tmp_path)) for _ in range(3)]
        begun = await asyncio.gather(
            *(each.begin(CLIENT, ADA, MAIL, bytes([n]) * 64, ends=END, now=NOW) for n, each in enumerate(doors))
        )
        assert len({each.seeds for each in begun}) == 1
        for number in range(8):
            grant = await doors[0].begin(CLIENT, ADA, MAIL, SEEDS, ends=END, now=NOW)
            await doors[0].approve(grant, lambda kept: kept, digest(f"{number}"), GIVEN, ends=END, now=NOW)
            given = await asyncio.gather(
                *(
                    each.redeem(digest(f"{number}"), fits, login=digest(f"{number} {n}"), token=digest("t"), now=NOW)
                    for n, each in enumerate(doors)
                )
            )
            kinds = [each if isinstance(each, Rejected) else "first" for each in given]
            assert kinds.count("first") == 1
            assert kinds.count(Rejected.REUSED) >= 1
            assert not [n for n in range(3) if await doors[n].login(digest(f"{number} {n}"), now=NOW)]

        for number in range(8):
            await consent(doors[1], f"code {number}")
            await enter(doors[2], "login", f"code {number}")
            old = digest("login 1")
            given = await asyncio.gather(
                *(
                    each.rotate(digest("login"), old, digest(f"{n}"), client_id=CLIENT, now=NOW)
                    for n, each in enumerate(doors)
                )
            )
            assert len([each for each in given if isinstance(each, Login)]) == 1
            assert await doors[0].login(digest("login"), now=NOW) is None


@pytest.mark.parametrize("url", SHARED_URLS)
@pytest.mark.holds("stores/door/rows", "sealed", "ends", "length")
async def test_who_may_write_the_store_gets_no_key_to_another_client__and_no_login_without_the_keys(
    url: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    async with opened_door(url, tmp_path) as door:
        grant = await consent(door)
        await consent(door, "bob's", "bob")
        await enter(door)
        await enter(door, "bob's", "bob's")
        thief = Thief(path)
        ours = thief.run("SELECT kind, key, parent, value, ends FROM door ORDER BY kind, key")
        for text in (CLIENT, ADA, SEEDS.decode(), "email:read"):
            assert text not in str(ours)
            assert text.encode() not in repr(ours).encode()

        grants = [each for each in ours if each[0] == 2]
        for one, two in (grants, grants[::-1]):  # one's key in the other's row
            thief.run("UPDATE door SET value = ?, parent = ? WHERE key = ?", two[3], two[2], one[1])
        assert await door.login(digest("login"), now=NOW) is None
        assert (await door.begin(CLIENT, ADA, MAIL, OTHER_SEEDS, ends=END, now=NOW)).seeds == OTHER_SEEDS

        await consent(door)
        await enter(door, "login")
        (mine,) = thief.run("SELECT value, parent FROM door WHERE kind = 4 AND key = ?", digest("login"))
        thief.run(
            "INSERT INTO door (kind, key, parent, value, ends) VALUES (4, ?, ?, ?, ?)",
            digest("thief"),
            mine[1],
            mine[0],
            END,
        )
        assert await door.login(digest("thief"), now=NOW) is None
        thief.run("UPDATE door SET ends = ?", END + 10**6)
        assert await door.login(digest("login"), now=END) is not None
        assert await door.login(digest("login"), now=END + 1) is None
        long = (
            f"zeroblob({steps.MAX_DOOR_ROW_BYTES + 1})"
            if thief.has_file
            else (f"convert_to(repeat('0', {steps.MAX_DOOR_ROW_BYTES + 1}), 'UTF8')")
        )
        thief.run(f"UPDATE door SET value = {long} WHERE kind = 4")
        assert await door.login(digest("login"), now=NOW) is None
        if thief.has_file:
            thief.run("UPDATE door SET value = 'a text' WHERE kind = 4")
            assert await door.login(digest("login"), now=NOW) is None
            thief.run("UPDATE door SET parent = 5")
            assert await door.end_login(digest("login"), client_id=CLIENT, now=NOW) is False
    async with opened_door(url, tmp_path, KeyRing([b"x" * 32])) as stranger:
        assert await stranger.change(grant, lambda kept: kept, now=NOW) is None


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_what_a_gateway_keeps_another_knows__after_keys_were_turned_as_well(url: str, tmp_path: Path) -> None:
    async with opened_door(url, tmp_path) as one:
        await consent(one)
        await enter(one)
    ring = KeyRing([b"n" * 32, bytes(range(32))])
    assert RING is not ring
    async with opened_door(url, tmp_path, ring) as two:
        assert isinstance(
            await two.rotate(digest("login"), digest("login 1"), digest("n"), client_id=CLIENT, now=NOW), Login
        )
    async with opened_door(url, tmp_path, KeyRing([b"n" * 32])) as without_the_old_key:
        rotated = without_the_old_key.rotate(digest("login"), digest("n"), digest("m"), client_id=CLIENT, now=NOW)
        assert not isinstance(await rotated, Login)  # its consent was sealed with that one


async def test_what_is_over_is_deleted_by_and_by(
    opening: AbstractAsyncContextManager[DoorStore], url: str, tmp_path: Path
) -> None:
    async with opening as door:
        for number in range(3):
            await door.register(f"{number}", b"{}", ends=NOW + number, now=NOW)
        late = NOW + 1_000
        await door.register("late", b"{}", ends=late, now=late)
        if url != URLS[0]:
            assert Thief(tmp_path / "store.db").run("SELECT count(*) FROM door") == [(1,)]
