"""README's figures are those of the page of performance, whose tables a run of `make bench` has written."""

import pytest
from bench.errors import BenchError
from bench.report import PEERS_BEGIN, PEERS_END, into_page, into_readme, shown_ratios
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
    with pytest.raises(BenchError, match="no figure of supergateway"):
        into_readme(README, into_page(PAGE, "Left out: supergateway\n", PEERS_BEGIN, PEERS_END))
    with pytest.raises(BenchError, match="README does not show the page's figure of FastMCP proxy"):
        into_readme(README.replace("| FastMCP proxy |", "| another |"), PAGE)


def test_another_run_is_written_to_both() -> None:
    assert shown_ratios(PAGE)[0] in README
    page = PAGE.replace(f"{shown_ratios(PAGE)[0]} x", "123.4 x")
    assert "[123.4](docs/reference/performance.md)" in into_readme(README, page)


def test_another_run_of_other_proxies_is_written_to_the_row_of_each() -> None:
    names = "supergateway", "FastMCP proxy", "mcp-proxy (PyPI)"
    rows = "".join(f"| {name} | 1.2.3 | HTTP | 9 | {n}23.4 x | 100 | 2026-11-28 |\n" for n, name in enumerate(names, 1))
    readme = into_readme(README, into_page(PAGE, rows, PEERS_BEGIN, PEERS_END))
    for number, name in enumerate(names, 1):
        assert f"| [{number}23.4](docs/reference/performance.md#other-proxies) |" in next(
            line for line in readme.splitlines() if line.startswith(f"| {name} ")
        )
