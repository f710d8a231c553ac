"""The measure of the cores' tests finds the places that it names, and a score that falls."""

import json
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def measure() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts/mutants.py"))


def test_each_core_and_each_of_its_tests_is_there__a_score_of_nothing_would_stay_as_it_is(
    measure: dict[str, Any],
) -> None:
    for core, tests in measure["CORES"].items():
        found = ROOT / "src/accredit" / core
        assert found.is_dir() or found.with_suffix(".py").exists()
        assert all((ROOT / "tests" / each).exists() for each in tests)
    assert json.loads(measure["SCORES"].read_text("utf-8")).keys() <= measure["CORES"].keys()


def test_a_mutant_is_where_it_says(measure: dict[str, Any]) -> None:
    found = list(measure["mutants"]("rounds/sealing"))
    assert len(found) > 100
    for each in found:
        assert (ROOT / each.path).read_text("utf-8").splitlines()[each.line - 1].strip() == each.was
        assert each.was != each.now


def test_a_score_that_falls_fails__and_is_not_written(
    measure: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"rounds/sealing": 0.95}))
    for surviving, expected, written in [(12, 1, 0.95), (6, 0, 0.95), (3, 0, 0.975)]:
        code = measure["main"](["rounds/sealing"], scores, Surviving(surviving))
        assert (code, json.loads(scores.read_text())) == (expected, {"rounds/sealing": written})
    assert "src/accredit/rounds/sealing.py:" in capsys.readouterr().out


class Surviving(NamedTuple):
    """Tries nothing: so many survive."""

    many: int

    def __call__(self, core: str, drawn: list[Any]) -> list[Any]:
        return drawn[: self.many]
