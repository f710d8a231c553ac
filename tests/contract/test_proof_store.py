"""What all stores promise (`ports.ProofStore`), and that they promise the same."""

import asyncio
import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.running import run
from tests.world.stores import NOW, SHARED_URLS, URLS, Model, challenge, opened, request

from accredit.errors import ChallengesFull, ClockSetBack, StoreUnavailable
from accredit.limits import CHALLENGE_WINDOW_SECONDS, CLOCK_BACK_SECONDS, CLOCK_LEAD_SECONDS, USE_MARKS
from accredit.ports import ProofStore, RateLimit, Spending
from accredit.stores.postgres.forgetting import DATABASE_KEEP_SECONDS

pytestmark = [pytest.mark.holds("ports"), pytest.mark.holds("stores/rules")]

Opening = contextlib.AbstractAsyncContextManager[ProofStore]

FIRST, SPENT, NOT_ISSUED = Spending.FIRST, Spending.SPENT, Spending.NOT_ISSUED
KEPT = NOW + 300


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opening(url: str, tmp_path: Path) -> Opening:
    return opened(url, tmp_path)


async def issue(store: ProofStore, hash_: bytes, now: int = NOW, life: int = 60) -> bytes:
    return (await store.issue(hash_, expires_at=now + life)).challenge


async def spend(
    store: ProofStore, found: bytes, hash_: bytes, *, issued: bool = False, now: int = NOW, keep_until: int = KEPT
) -> Spending:
    return await store.spend(found, hash_, issued=issued, keep_until=keep_until, now=now)


# --- challenges that the store issued ---


async def test_an_issued_challenge_is_fresh_and_ends_when_it_was_told_to(opening: Opening) -> None:
    async with opening as store:
        issued = [await store.issue(request(1), expires_at=NOW + 60) for _ in range(20)]
        assert {len(each.challenge) for each in issued} == {32}
        assert len({each.challenge for each in issued}) == 20
        assert {each.expires_at for each in issued} == {NOW + 60}


@pytest.mark.parametrize("issued", [True, False])
async def test_an_issued_challenge_is_good_for_its_own_request_until_its_last_second(
    issued: bool, opening: Opening
) -> None:
    async with opening as store:
        found = await issue(store, request(1))
        for _ in range(2):
            assert await store.look(found, request(1), issued=issued, now=NOW + 60) is FIRST
        assert await spend(store, found, request(1), issued=issued, now=NOW + 60) is FIRST


@pytest.mark.parametrize("issued", [True, False])
async def test_an_issued_challenge_is_worth_nothing_for_another_request__and_is_not_burnt_by_it(
    issued: bool, opening: Opening
) -> None:
    async with opening as store:
        found = await issue(store, request(1))
        assert await store.look(found, request(2), issued=issued, now=NOW) is NOT_ISSUED
        assert await spend(store, found, request(2), issued=issued) is NOT_ISSUED
        assert await spend(store, found, request(1), issued=issued) is FIRST


@pytest.mark.parametrize("issued", [True, False])
async def test_an_expired_challenge_is_not_mistaken_for_one_that_a_client_made(issued: bool, opening: Opening) -> None:
    async with opening as store:
        found = await issue(store, request(1))
        for now in (NOW + 61, KEPT):
            assert await store.look(found, request(1), issued=issued, now=now) is NOT_ISSUED
            assert await spend(store, found, request(1), issued=issued, now=now) is NOT_ISSUED


async def test_what_nobody_issued_is_not_good_where_it_must_have_been(opening: Opening) -> None:
    async with opening as store:
        assert await store.look(challenge(1), request(1), issued=True, now=NOW) is NOT_ISSUED
        assert await spend(store, challenge(1), request(1), issued=True) is NOT_ISSUED
        assert await spend(store, challenge(1), request(1)) is FIRST


# --- once ---


@pytest.mark.parametrize("again", [(request(1), True), (request(1), False), (request(2), True), (request(2), False)])
@pytest.mark.parametrize("made_here", [True, False])
async def test_a_challenge_is_spent_once_whatever_it_is_presented_for_then(
    made_here: bool, again: tuple[bytes, bool], opening: Opening
) -> None:
    async with opening as store:
        found = await issue(store, request(1)) if made_here else challenge(1)
        assert await spend(store, found, request(1), issued=made_here) is FIRST
        hash_, issued = again
        assert await store.look(found, hash_, issued=issued, now=NOW) is SPENT
        assert await spend(store, found, hash_, issued=issued) is SPENT
        assert await spend(store, found, hash_, issued=issued, now=KEPT) is SPENT


async def test_looking_spends_nothing(opening: Opening) -> None:
    async with opening as store:
        for _ in range(3):
            assert await store.look(challenge(1), request(1), issued=False, now=NOW) is FIRST
        assert await spend(store, challenge(1), request(1)) is FIRST


async def test_a_spent_challenge_that_was_issued_is_remembered_as_long_as_it_is_alive(opening: Opening) -> None:
    async with opening as store:
        found = await issue(store, request(1))
        assert await spend(store, found, request(1), keep_until=NOW + 1) is FIRST
        for number in range(9):
            await spend(store, challenge(number), request(1), now=NOW + 60, keep_until=KEPT)
        assert await spend(store, found, request(1), now=NOW + 60) is SPENT
        for now in (NOW + 61, KEPT, KEPT + 10_000):  # forgotten or not, it is no good any more
            assert await spend(store, found, request(1), now=now) is not FIRST


@pytest.mark.parametrize("issued", [True, False])
async def test_a_challenge_that_was_changed_anywhere_is_not_one_that_was_issued(issued: bool, opening: Opening) -> None:
    async with opening as store:
        found = await issue(store, request(1))
        for place in range(32):
            changed = found[:place] + bytes([found[place] ^ 1]) + found[place + 1 :]
            said = await store.look(changed, request(1), issued=issued, now=NOW)
            # Without its mark it is like any that a client made; with it, and another seal, it is good for nothing.
            assert said is (FIRST if place < 21 and not issued else NOT_ISSUED)
        assert await store.look(found, request(1), issued=issued, now=NOW) is FIRST


async def test_no_two_stores_take_each_other_s_challenges(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for url in URLS:
        async with opened(url, tmp_path) as one, opened(url, tmp_path / "other") as other:
            found = await issue(one, request(1))
            assert await spend(other, found, request(1), issued=True) is NOT_ISSUED
            assert await spend(one, found, request(1), issued=True) is FIRST


async def test_of_64_who_spend_one_challenge_at_once_one_is_the_first(opening: Opening) -> None:
    async with opening as store:
        made_here = await issue(store, request(1))
        for found, issued in ((challenge(1), False), (made_here, True), (challenge(2), False)):
            verdicts = await asyncio.gather(*(spend(store, found, request(1), issued=issued) for _ in range(64)))
            assert sorted(verdict.value for verdict in verdicts) == ["first", *["spent"] * 63]


# --- bounds ---


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Stores with room for eight of each."""
    monkeypatch.setattr("accredit.stores.sqlite.database.MAX_SPENT_CHALLENGES", 8)
    monkeypatch.setattr("tests.world.stores.MAX_SPENT_IN_DATABASE", 8)
    for module in ("sqlite.database", "postgres.store"):
        monkeypatch.setattr(f"accredit.stores.{module}.MAX_USE_MARKS", 8)
    return 8


async def test_who_asks_for_many_challenges_keeps_nobody_from_one__nor_from_spending_it(
    small: int, opening: Opening
) -> None:
    async with opening as store:
        for _ in range(20 * small):
            await issue(store, request(1))
        found = await issue(store, request(2))
        assert await spend(store, challenge(1), request(1)) is FIRST
        assert await spend(store, found, request(2), issued=True) is FIRST


async def test_where_no_more_can_be_remembered_as_spent_nothing_is_spent_and_what_was_spent_stays_so(
    small: int, opening: Opening
) -> None:
    async with opening as store:
        made_here = await issue(store, request(1))
        for number in range(small):
            assert await spend(store, challenge(number), request(1)) is FIRST
        for found in (challenge(99), made_here):
            with pytest.raises(ChallengesFull):
                await spend(store, found, request(1))
            assert await store.look(found, request(1), issued=False, now=NOW) is FIRST
        for number in range(small):
            assert await spend(store, challenge(number), request(1)) is SPENT
        assert len(await issue(store, request(1))) == 32


async def test_what_has_expired_makes_room(small: int, opening: Opening) -> None:
    async with opening as store:
        for number in range(small):
            await spend(store, challenge(number), request(1))
            await store.use([RateLimit(str(number), 60, 9)], now=NOW)
        later = KEPT + DATABASE_KEEP_SECONDS + 1
        for number in range(small):
            assert await spend(store, challenge(100 + number), request(1), now=later, keep_until=later) is FIRST
            assert await store.use([RateLimit(str(number), 60, 1)], now=later)


async def test_where_no_more_uses_can_be_noted_there_is_no_yes(small: int, opening: Opening) -> None:
    async with opening as store:
        for number in range(small - 1):
            assert await store.use([RateLimit(str(number), 60, 9)], now=NOW)
        with pytest.raises(StoreUnavailable):
            await store.use([RateLimit("another", 60, 9), RateLimit("0", 60, 9)], now=NOW)
        assert await store.uses("another", 60, now=NOW) == 0
        assert await store.uses("0", 60, now=NOW) == 1


@pytest.mark.parametrize("url", URLS[:2])
async def test_many_that_expire_at_once_are_removed_little_by_little(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.stores.sqlite.database.STORE_SWEEP_ROWS", 100)
    async with opening as store:
        many = 300
        for number in range(many):
            await spend(store, challenge(number), request(1), keep_until=NOW)
        for number in range(many):
            assert await spend(store, challenge(many + number), request(1), now=NOW + 1) is FIRST
            assert await spend(store, challenge(number), request(1), now=NOW + 2 + number) is FIRST


# --- uses ---


async def test_a_limit_is_reached_and_has_room_again_when_its_window_has_passed(opening: Opening) -> None:
    async with opening as store:
        limit = [RateLimit("one", 60, 3)]
        for at in (NOW, NOW, NOW + 10):
            assert await store.use(limit, now=at)
        assert await store.uses("one", 60, now=NOW + 59) == 3
        assert not await store.use(limit, now=NOW + 59)
        assert await store.uses("one", 60, now=NOW + 60) == 1
        assert await store.use(limit, now=NOW + 60)
        assert await store.use(limit, now=NOW + 60)
        assert not await store.use(limit, now=NOW + 69)
        assert await store.uses("one", 60, now=NOW + 1000) == 0
        assert await store.uses("nobody", 60, now=NOW) == 0


async def test_of_several_limits_one_that_is_reached_keeps_all_from_being_noted(opening: Opening) -> None:
    async with opening as store:
        assert await store.use([RateLimit("one", 60, 1)], now=NOW)
        assert not await store.use([RateLimit("two", 60, 5), RateLimit("one", 60, 1)], now=NOW)
        assert await store.uses("two", 60, now=NOW) == 0
        assert await store.use([RateLimit("two", 60, 5), RateLimit("three", 3600, 5)], now=NOW)
        assert [await store.uses("two", 60, now=NOW), await store.uses("three", 3600, now=NOW)] == [1, 1]


async def test_the_same_certificate_twice_is_one_use_and_the_smaller_count_holds(opening: Opening) -> None:
    async with opening as store:
        for cert_id, counts in (("one", (5, 2)), ("two", (2, 5))):
            both = [RateLimit(cert_id, 60, count) for count in counts]
            assert [await store.use(both, now=NOW) for _ in range(3)] == [True, True, False]
            assert await store.uses(cert_id, 60, now=NOW) == 2


async def test_a_use_counts_for_its_amount__up_to_the_limit_itself(opening: Opening) -> None:
    async with opening as store:

        async def use(amount: int, at: int) -> bool:
            return await store.use([RateLimit("one", 60, 500, amount)], now=at)

        assert await use(300, NOW)
        assert not await use(201, NOW + 1)
        assert await use(0, NOW + 1)
        assert await use(200, NOW + 2)
        assert not await use(1, NOW + 2)
        assert await use(0, NOW + 2)
        assert await store.uses("one", 60, now=NOW + 3) == 500
        assert await use(300, NOW + 60)
        assert not await use(1, NOW + 61)


async def test_it_is_told_when_there_is_room_again_and_then_there_is(opening: Opening) -> None:
    async with opening as store:

        def limit(amount: int) -> RateLimit:
            return RateLimit("one", 60, 10, amount)

        assert await store.room_at(limit(1), now=NOW) == NOW
        assert await store.room_at(limit(11), now=NOW) is None
        for amount, at in ((4, NOW), (3, NOW + 10), (3, NOW + 20)):
            assert await store.use([limit(amount)], now=at)
        at = NOW + 21
        found = {amount: await store.room_at(limit(amount), now=at) for amount in (0, 1, 4, 5, 7, 8, 10)}
        assert found == {0: at, 1: NOW + 60, 4: NOW + 60, 5: NOW + 70, 7: NOW + 70, 8: NOW + 80, 10: NOW + 80}
        for amount, when in ((4, NOW + 60), (1, NOW + 70)):
            assert not await store.use([limit(amount)], now=when - 1)
            assert await store.use([limit(amount)], now=when)
        assert await store.room_at(limit(1), now=NOW + 1_000) == NOW + 1_000


async def test_amounts_that_no_database_could_add_up_are_counted_anew_in_time(opening: Opening) -> None:
    async with opening as store:
        most = 1 << 58
        limit = RateLimit("one", 60, most, most)
        for turn in range(40):  # 2**63 is passed
            assert await store.use([limit], now=NOW + 60 * turn)
            assert not await store.use([RateLimit("one", 60, most)], now=NOW + 60 * turn + 59)
            assert await store.uses("one", 60, now=NOW + 60 * turn + 59) == most


async def test_no_limits_no_notes_and_a_limit_of_nothing_is_always_reached(opening: Opening) -> None:
    async with opening as store:
        assert await store.use([], now=NOW)
        assert not await store.use([RateLimit("one", 60, 0)], now=NOW)


async def test_of_64_uses_at_once_no_more_are_noted_than_may_be(opening: Opening) -> None:
    async with opening as store:
        noted = await asyncio.gather(*(store.use([RateLimit("one", 60, 10)], now=NOW) for _ in range(64)))
        assert sum(noted) == 10


async def test_a_clock_that_goes_back_gives_no_use_back(opening: Opening) -> None:
    async with opening as store:
        limit = [RateLimit("one", 60, 2)]
        assert await store.use(limit, now=NOW)
        assert await store.use(limit, now=NOW - 30)
        assert not await store.use(limit, now=NOW - 30)
        assert not await store.use(limit, now=NOW + 40)
        assert await store.use(limit, now=NOW + 60)


async def test_in_a_long_window_a_use_counts_for_at_least_as_long_and_little_longer(opening: Opening) -> None:
    async with opening as store:
        window = 30 * 86_400
        part = window // USE_MARKS
        assert await store.use([RateLimit("one", window, 1)], now=NOW + 1)
        assert not await store.use([RateLimit("one", window, 1)], now=NOW + window)
        assert await store.use([RateLimit("one", window, 1)], now=NOW + 1 + window + part)


@pytest.mark.parametrize("cert_id", ["", "\ud800", "\0", "é\U0001f600", "x" * 100_000, "'; DROP TABLE uses; --"])
async def test_no_id_of_a_certificate_breaks_a_store(cert_id: str, opening: Opening) -> None:
    async with opening as store:
        limit = [RateLimit(cert_id, 60, 1)]
        assert [await store.use(limit, now=NOW) for _ in range(2)] == [True, False]
        assert await store.uses(cert_id, 60, now=NOW) == 1


# --- a clock that was ahead, and is set back ---

AHEAD = NOW + 4_000


async def forget(store: ProofStore, at: int) -> None:
    """Has a store forget what has ended by then."""
    await spend(store, challenge(1_000 + at - NOW), request(1), now=at, keep_until=at + 300)
    await store.use([RateLimit("forgetting", 60, 9)], now=at)


@pytest.mark.parametrize("made_here", [True, False])
async def test_what_was_spent_is_not_good_again__though_a_clock_that_was_ahead_had_it_forgotten(
    made_here: bool, opening: Opening
) -> None:
    async with opening as store:
        found = await issue(store, request(1)) if made_here else challenge(1)
        assert await spend(store, found, request(1), issued=made_here) is FIRST
        await forget(store, AHEAD)
        for now in (NOW, NOW + 60):
            with pytest.raises(ClockSetBack):
                await spend(store, found, request(1), issued=made_here, now=now)


async def test_what_can_not_have_been_forgotten_is_good_however_far_the_clock_was_ahead(opening: Opening) -> None:
    async with opening as store:
        assert await spend(store, challenge(1), request(1)) is FIRST
        await forget(store, AHEAD)
        with pytest.raises(ClockSetBack):
            await spend(store, challenge(2), request(1), now=NOW + 1, keep_until=KEPT)
        # What ends later than anything that was forgotten: no more than five minutes are lost to a year.
        assert await spend(store, challenge(2), request(1), now=NOW + 1, keep_until=KEPT + 1) is FIRST
        assert await spend(store, challenge(2), request(1), now=NOW + 1, keep_until=KEPT + 1) is SPENT


async def test_a_challenge_of_the_store_s_own_is_held_against_its_own_end(opening: Opening) -> None:
    async with opening as store:
        found = await issue(store, request(1), life=900)
        await spend(store, challenge(1), request(1), keep_until=NOW + 600)
        await forget(store, AHEAD)
        assert await spend(store, found, request(1), issued=True, keep_until=NOW + 1) is FIRST


async def test_no_rate_is_exceeded_by_a_clock_that_was_ahead_and_is_set_back(opening: Opening) -> None:
    async with opening as store:
        limit = [RateLimit("one", 60, 1)]
        assert await store.use(limit, now=NOW)
        await forget(store, AHEAD)
        for now in (NOW, NOW + 59):
            with pytest.raises(ClockSetBack):
                await store.use(limit, now=now)
            with pytest.raises(ClockSetBack):
                await store.uses("one", 60, now=now)
        assert await store.use([], now=NOW)
        assert await store.uses("one", 60, now=NOW + 60) == 0
        assert await store.use(limit, now=NOW + 60)


async def test_a_clock_that_is_kept_in_step_and_set_back_by_seconds_costs_nobody_a_call(
    url: str, opening: Opening
) -> None:
    step = 40 if url == URLS[2] else 5  # a database is asked four times for each

    async with opening as store:
        limits = [RateLimit("one", 1, 9)]
        for now in range(NOW, NOW + 400, step):
            assert await store.use(limits, now=now)
            assert await spend(store, challenge(now), request(1), now=now, keep_until=now + 301) is FIRST
            back = now - CLOCK_BACK_SECONDS
            assert await store.use(limits, now=back)
            assert await spend(store, challenge(now + 1), request(1), now=back, keep_until=back + 301 - 30) is FIRST


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_what_was_forgotten_by_a_clock_that_was_ahead_is_known_after_a_restart__and_to_all_who_share_the_file(
    url: str, tmp_path: Path
) -> None:
    async with opened(url, tmp_path) as one, opened(url, tmp_path) as other:
        assert await spend(one, challenge(1), request(1)) is FIRST
        assert await one.use([RateLimit("one", 60, 1)], now=NOW)
        await forget(other, AHEAD)
        with pytest.raises(ClockSetBack):
            await spend(one, challenge(1), request(1))
    async with opened(url, tmp_path) as again:
        with pytest.raises(ClockSetBack):
            await spend(again, challenge(1), request(1))
        with pytest.raises(ClockSetBack):
            await again.use([RateLimit("one", 60, 1)], now=NOW)


# --- a store that is new, as the one before was lost ---


@pytest.mark.parametrize("seconds", [0, 1, 60])
async def test_what_a_client_made_before_a_store_knew_what_is_spent_has_to_be_issued_here(
    url: str, seconds: int, tmp_path: Path
) -> None:
    """Whoever kept a proof that a lost store had spent would have it taken once more."""

    made = NOW - CLOCK_LEAD_SECONDS - 1 - seconds
    async with opened(url, tmp_path, since=NOW) as store:
        end = made + CHALLENGE_WINDOW_SECONDS + 1
        for _ in range(2):
            assert await spend(store, challenge(1), request(1), now=NOW + 1, keep_until=end) is NOT_ISSUED
        found = await issue(store, request(1), now=NOW + 1)
        assert await spend(store, found, request(1), now=NOW + 1, keep_until=end) is FIRST, "one issued here is good"
        assert await spend(store, found, request(1), now=NOW + 1, keep_until=end) is SPENT


async def test_an_honest_clients_first_call_is_good_in_a_stores_first_second(url: str, tmp_path: Path) -> None:
    """Clients date their challenges back."""

    async with opened(url, tmp_path, since=NOW) as store:
        end = NOW - CLOCK_LEAD_SECONDS + CHALLENGE_WINDOW_SECONDS + 1
        assert await spend(store, challenge(1), request(1), now=NOW, keep_until=end) is FIRST
        assert await spend(store, challenge(1), request(1), now=NOW, keep_until=end) is SPENT


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_who_opens_a_store_later_knows_what_was_spent_as_long_as_the_store_does(url: str, tmp_path: Path) -> None:
    async with opened(url, tmp_path, since=NOW - 100) as one:
        assert await spend(one, challenge(1), request(1)) is FIRST
        async with opened(url, tmp_path, since=NOW) as later:
            end = NOW - 50 + CHALLENGE_WINDOW_SECONDS + 1
            assert await spend(later, challenge(2), request(1), keep_until=end) is FIRST
            assert await spend(later, challenge(1), request(1)) is SPENT


# --- life ---


async def test_what_a_store_can_t_hold_is_refused_as_by_a_store_that_can_t_be_used(opening: Opening) -> None:
    """An agent's certificate says how long a window is. No other error may pass those who ask a store."""
    async with opening as store:
        for window in (2**63, 2**100):
            with pytest.raises(StoreUnavailable):
                await store.uses("cert", window, now=NOW)
        assert await store.uses("cert", 60, now=NOW) == 0


async def test_a_store_answers_and_can_be_closed_twice(opening: Opening) -> None:
    async with opening as store:
        assert await store.ready()
        await store.aclose()


# --- all together ---

Step = tuple[str, int, int, bool, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["issue", "look", "spend", "use", "uses"]),
        st.integers(0, 5),  # which challenge or certificate
        st.integers(0, 2),  # which request or window
        st.booleans(),
        st.integers(0, 3),  # seconds that have passed
    ),
    max_size=40,
)
WINDOWS = (1, 5, 40)


@pytest.mark.slow
@pytest.mark.parametrize("url", URLS[:2])
@settings(max_examples=40)
@given(steps=STEPS)
def test_whatever_is_asked_in_whatever_order_a_store_says_what_the_model_says(url: str, steps: list[Step]) -> None:
    hold_against_the_model(url, steps)


@pytest.mark.slow
@settings(max_examples=8)
@given(steps=STEPS)
def test_whatever_a_database_is_asked_in_whatever_order_it_says_what_the_model_says(steps: list[Step]) -> None:
    hold_against_the_model(URLS[2], steps)


def hold_against_the_model(url: str, steps: list[Step]) -> None:
    async def main(folder: Path) -> None:
        model, now = Model(), NOW
        made: list[bytes] = []
        async with opened(url, folder) as store:
            for what, which, other, issued, passed in steps:
                now += passed
                found = made[which % len(made)] if issued and made else challenge(which)
                cert_id, window = f"cert {which % 2}", WINDOWS[other]
                limits = [RateLimit(cert_id, window, which)] + [RateLimit("cert 0", 40, 3)] * issued
                match what:
                    case "issue":
                        made.append(await issue(store, request(other), now, life=which))
                        model.issue(made[-1], request(other), now + which)
                    case "look":
                        said = await store.look(found, request(other), issued=issued, now=now)
                        assert said is model.look(found, request(other), issued=issued, now=now)
                    case "spend":
                        said = await spend(store, found, request(other), issued=issued, now=now)
                        assert said is model.spend(found, request(other), issued=issued, now=now)
                    case "uses":
                        said = await store.uses(cert_id, window, now=now)
                        assert said == model.uses(cert_id, window, now=now)
                    case _:
                        assert await store.use(limits, now=now) == model.use(limits, now=now)

    with tempfile.TemporaryDirectory() as folder:
        run(main(Path(folder)))


CLOCK_STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(-400, 400)), max_size=30)


@pytest.mark.slow
@pytest.mark.parametrize("url", URLS[:2])
@settings(max_examples=40)
@given(steps=CLOCK_STEPS)
def test_whatever_a_clock_does_nothing_is_spent_twice_nor_used_more_often_than_it_may_be(
    url: str, steps: list[tuple[bool, int, int]]
) -> None:
    hold_against_the_clock(url, steps)


@pytest.mark.slow
@settings(max_examples=8)
@given(steps=CLOCK_STEPS)
def test_whatever_a_database_s_clock_does_nothing_is_spent_twice_nor_used_more_often_than_it_may_be(
    steps: list[tuple[bool, int, int]],
) -> None:
    hold_against_the_clock(URLS[2], steps)


def hold_against_the_clock(url: str, steps: list[tuple[bool, int, int]]) -> None:
    async def main(folder: Path) -> None:
        now, spent, used = NOW, set[int](), list[int]()
        async with opened(url, folder) as store:
            for is_use, which, passed in steps:
                now += passed
                with contextlib.suppress(ClockSetBack):
                    if is_use:
                        if await store.use([RateLimit("one", 60, 2)], now=now):
                            used.append(now)
                            assert sum(now - 60 < each <= now for each in used) <= 2
                    # A proof that is fresh for as long as it is remembered.
                    elif abs(now - (NOW + which * 100)) <= 300:
                        end = NOW + which * 100 + 301
                        if await spend(store, challenge(which), request(0), now=now, keep_until=end) is FIRST:
                            assert which not in spent
                            spent.add(which)

    with tempfile.TemporaryDirectory() as folder:
        run(main(Path(folder)))
