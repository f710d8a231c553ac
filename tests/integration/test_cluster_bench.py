"""`python -m bench.cluster` with the least that it can measure: real servers, processes and calls."""

import tempfile
from pathlib import Path

import pytest
import uvloop
from bench.cluster import DURABLE, STANDBY, Bench, Plan, Sample, Series, aims, table
from tests.world.postgres import need_postgres

pytestmark = pytest.mark.slow


def test_durable_calls_over_a_server_with_a_standby_are_counted_with_what_they_wrote() -> None:
    need_postgres()
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        bench = Bench(Plan((1,), (0,), (4,), (DURABLE,), rounds=1, calls=16), f"{DURABLE}, {STANDBY}", folder)
        uvloop.run(bench.run())
    ((series, (sample,)),) = bench.found.items()
    assert series == Series(DURABLE, STANDBY, 1, 0, 4)
    assert 3 / 16 <= sample.commits <= 3  # a spend, a decision and an outcome, of up to 4 calls each
    assert 2_000 < sample.written < 20_000
    assert sample.commit_ms > 0
    assert len(list(table(bench.found))) == 3


def test_an_aim_is_judged_by_turns_of_the_same_round__and_what_was_not_measured_is_not_said() -> None:
    fast, slow = (Sample(pace, 1, 1, cost, 0, 0, 0, 0, 1, 1, 1, 0) for pace, cost in ((200, 100), (100, 150)))
    found = {
        Series(DURABLE, "SQLite", 1, None, 256): [fast, slow, fast],
        Series(DURABLE, "PostgreSQL", 1, 1, 256): [slow, slow, slow],
    }
    told = list(aims(found, []))
    assert told[2].endswith("| 1.50 x |")
    assert told[3].endswith("| 2.00 x |")
    assert told[4].endswith("| not measured |")
