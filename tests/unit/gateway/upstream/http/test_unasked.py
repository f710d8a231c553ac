"""A body that answers nothing: read within its bounds, and dropped."""

import asyncio
import logging

import pytest
from tests.world.asgi import MemoryAnswer
from tests.world.virtual_time import run_virtually

from accredit.errors import AnswerError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.counters import UNASKED_LOG_SECONDS, Counters
from accredit.gateway.room import ALONE, EqualShares
from accredit.gateway.upstream.http.unasked import (
    ANSWER_TO_NOTHING_SECONDS,
    MAX_ANSWER_TO_NOTHING,
    MAX_UNASKED_BODIES,
    MIN_UNASKED_BODIES,
    UnaskedBodies,
)

pytestmark = pytest.mark.holds("gateway/upstream/http/unasked")

TYPE = [(b"content-type", b"text/plain")]
SILENCE = UpstreamTimeout("silence")


class Kept(MemoryAnswer):
    """Tells what became of it after it was handed over."""

    def handed_over(self) -> "Kept":
        """Goes on as itself."""
        return self

    @property
    def left(self) -> int:
        """How many pieces were not read."""
        return len(self._pieces)


def dropped(*pieces: bytes | Exception, within: float = 0.0) -> tuple[Kept, dict[str, int]]:
    counters, answer = Counters(), Kept(200, TYPE, *pieces)

    async def case() -> None:
        bodies = UnaskedBodies(counters, ALONE)
        assert not bodies.drop(answer.as_answer())
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})  # type: ignore[arg-type]

    run_virtually(case(), within=within)
    assert answer.closed
    return answer, dict(counters.counts)


@pytest.mark.holds("gateway/upstream/http/unasked", "dropped")
def test_a_body_is_read_to_its_end_and_counted_once() -> None:
    answer, counts = dropped(b"Acc", b"epted")
    assert (answer.left, counts) == (0, {"answer_dropped": 1})
    assert dropped()[1] == {}, "of a body without a byte there is nothing to tell"


@pytest.mark.holds("gateway/upstream/http/unasked", "bounds")
def test_of_a_body_without_an_end_no_more_is_read_than_its_bound() -> None:
    answer, counts = dropped(*[bytes(1_024)] * 1_000)
    assert answer.left == 1_000 - MAX_ANSWER_TO_NOTHING // 1_024 - 1
    assert counts == {"answer_dropped": 1}


@pytest.mark.holds("gateway/upstream/http/unasked", "bounds")
def test_a_body_that_does_not_come_holds_its_connection_for_five_seconds() -> None:
    _, counts = dropped(b"Acc", SILENCE, b"epted", within=ANSWER_TO_NOTHING_SECONDS)
    assert counts == {"answer_dropped": 1}
    assert dropped(SILENCE, within=ANSWER_TO_NOTHING_SECONDS)[1] == {}


@pytest.mark.parametrize("broken", [UpstreamUnavailable("cut off"), AnswerError("no HTTP")])
def test_a_body_that_breaks_off_is_nobody_s_fault(broken: Exception) -> None:
    assert dropped(b"{", broken)[1] == {"answer_dropped": 1}


@pytest.mark.holds("gateway/upstream/http/unasked", "background")
@pytest.mark.parametrize(("servers", "most"), [(1, MAX_UNASKED_BODIES), (1_000, MIN_UNASKED_BODIES)])
def test_bodies_that_hang_take_so_many_connections_and_no_more(servers: int, most: int) -> None:
    async def case() -> None:
        bodies = UnaskedBodies(Counters(), EqualShares(servers))
        first = [Kept(200, TYPE, SILENCE) for _ in range(most)]
        for each in first:
            bodies.drop(each.as_answer())
        one_more = MemoryAnswer(200, TYPE, SILENCE)
        bodies.drop(one_more.as_answer())
        assert one_more.closed
        await asyncio.sleep(0)
        assert not any(each.closed for each in first)
        await bodies.aclose()
        assert all(each.closed for each in first)

    run_virtually(case(), within=0.0)


@pytest.mark.holds("gateway/upstream/http/unasked", "dropped")
def test_a_server_that_says_so_each_time_has_one_line_of_the_log_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "accredit.gateway")
    told: list[str] = []
    shared = Counters(unasked=told.append)
    mail, files = shared.of_server("mail"), shared.of_server("files")
    for now in (0.0, 1.0, UNASKED_LOG_SECONDS - 1, UNASKED_LOG_SECONDS, UNASKED_LOG_SECONDS + 1):
        mail.unasked(now, "2 bytes")
    files.unasked(2.0, "2 bytes")
    assert [vars(record)["accredit_fields"]["server"] for record in caplog.records] == ["mail", "mail", "files"]
    assert {record.message for record in caplog.records} == {"answer_dropped"}
    assert shared.counts == {"answer_dropped": 6}
    assert told == ["mail"] * 5 + ["files"]


def test_what_a_server_calls_its_body_can_t_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "accredit.gateway")

    async def case() -> None:
        bodies = UnaskedBodies(Counters(), ALONE)
        bodies.drop(Kept(200, [(b"content-type", b"\x1b[2Jx" * 100)], b"{}").as_answer())
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})  # type: ignore[arg-type]

    run_virtually(case())
    detail = vars(caplog.records[0])["accredit_fields"]["detail"]
    assert detail.isprintable()
    assert len(detail) < 200
