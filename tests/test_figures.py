"""README's figures are those of the page of performance, whose tables runs of the benchmarks have written."""

import pytest
from bench.errors import BenchError
from bench.report import PEERS_BEGIN, PEERS_END, README_PEERS, highest_ratio, into_page, into_readme
from tests.world.deployed import ROOT

PAGE = (ROOT / "docs" / "reference" / "performance.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def test_readme_shows_the_ratios_of_the_page_of_performance() -> None:
    assert into_readme(README, PAGE) == README


def test_a_ratio_that_the_page_does_not_have_fails_rather_than_leave_an_old_one() -> None:
    with pytest.raises(BenchError, match="the page has no ratios to nginx"):
        highest_ratio(into_page(PAGE, "nothing was measured\n"))
    with pytest.raises(BenchError, match="does not show the page's highest ratio"):
        into_readme("no figures", PAGE)
    with pytest.raises(BenchError, match="no figure of accredit"):
        into_readme(README, into_page(PAGE, "Left out: accredit\n", PEERS_BEGIN, PEERS_END))
    with pytest.raises(BenchError, match="README does not show the page's figure of FastMCP proxy"):
        into_readme(README.replace("| FastMCP proxy |", "| another |"), PAGE)


def test_another_run_is_written_to_both() -> None:
    page = PAGE.replace(f"{highest_ratio(PAGE)} x", "123.4 x")
    assert "up to [123.4](docs/reference/performance.md) times nginx's" in into_readme(README, page)


def test_another_run_of_other_proxies_is_written_to_the_row_of_each() -> None:
    rows = "".join(
        f"| {name} | 1 | HTTP | 9 | {n}23.4 x | 9 | 2026-11-28 |\n" for n, name in enumerate(README_PEERS, 1)
    )
    readme = into_readme(README, into_page(PAGE, rows, PEERS_BEGIN, PEERS_END))
    for number, name in enumerate(README_PEERS, 1):
        (line,) = [each for each in readme.splitlines() if each.replace("*", "").startswith(f"| {name} ")]
        assert f"| [{number}23](docs/reference/performance.md#other-proxies) |" in line
