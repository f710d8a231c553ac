"""README's figures are those of the page of performance, whose tables a run of `make bench` has written."""

import pytest
from bench.errors import BenchError
from bench.report import into_page, into_readme, shown_ratios
from tests.world.deployed import ROOT

PAGE = (ROOT / "docs" / "reference" / "performance.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def test_readme_shows_the_ratios_of_the_page_of_performance() -> None:
    assert into_readme(README, PAGE) == README


def test_a_ratio_that_the_page_does_not_have_fails_rather_than_leave_an_old_one() -> None:
    with pytest.raises(BenchError, match="no ratio of 200b-json-x16"):
        shown_ratios(into_page(PAGE, "nothing was measured\n"))
    with pytest.raises(BenchError, match="does not show two ratios"):
        into_readme("no figures", PAGE)


def test_another_run_is_written_to_both() -> None:
    assert shown_ratios(PAGE)[0] in README
    page = PAGE.replace(f"{shown_ratios(PAGE)[0]} x", "123.4 x")
    assert "[123.4](docs/reference/performance.md)" in into_readme(README, page)
