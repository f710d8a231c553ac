"""The comparison's own rules: what counts as passed, and which differences fail a run."""

import os
from collections import Counter
from pathlib import Path

import pytest
from tests.conformance.__main__ import PAGE
from tests.conformance.door import run_door
from tests.conformance.node import NodeMissing, find_node, install_suite
from tests.conformance.report import EXPLAINED, Comparison
from tests.conformance.suite import REVISIONS, Outcome, read_outcomes, renamed
from tests.conformance.targets import TARGETS

GOOD = Outcome(Counter({("check", "SUCCESS"): 2}), requests=1)


def compared(through: Outcome, direct: Outcome = GOOD) -> Comparison:
    return Comparison("2025-11-25", ["ping"], {"direct": {"ping": direct}, "http": {"ping": through}})


def test_the_same_checks_with_the_same_results_are_no_problem() -> None:
    comparison = compared(GOOD)
    assert comparison.problems() == []
    assert comparison.total("http") == "1/1"


def test_a_gateway_that_answers_itself_passes_nothing() -> None:
    comparison = compared(Outcome(GOOD.checks, requests=0))
    assert comparison.total("http") == "0/1"
    assert comparison.problems() == [
        "2025-11-25 ping (http): passes directly and not here, with 0 requests that reached the server"
    ]


def test_a_check_that_ran_less_often_is_a_problem_though_the_scenario_passes() -> None:
    comparison = compared(Outcome(Counter({("check", "SUCCESS"): 1}), requests=1))
    assert comparison.total("http") == "1/1"
    assert comparison.problems() == ["2025-11-25 ping (http): check: 2 SUCCESS directly, 1 SUCCESS here"]


def test_a_warning_in_place_of_a_success_is_a_problem() -> None:
    checks = Counter({("check", "SUCCESS"): 1, ("check", "WARNING"): 1})
    assert compared(Outcome(checks, requests=1)).problems() == [
        "2025-11-25 ping (http): check: 2 SUCCESS directly, 1 SUCCESS + 1 WARNING here"
    ]


def test_a_required_scenario_that_fails_directly_is_a_problem() -> None:
    bad = Outcome(Counter({("check", "FAILURE"): 1}), requests=1)
    assert compared(bad, direct=bad).problems() == ["2025-11-25 ping: does not pass directly"]


def test_a_scenario_that_did_not_run_is_a_problem() -> None:
    comparison = Comparison("2025-11-25", ["ping"], {"direct": {"ping": GOOD}, "http": {}})
    assert comparison.problems() == ["2025-11-25 ping (http): did not run"]


def test_an_explanation_of_nothing_is_a_problem() -> None:
    known = EXPLAINED[0]
    outcomes = {known.scenario: GOOD}
    for target in known.targets:
        comparison = Comparison(known.revision, [], {"direct": outcomes, target: outcomes})
        assert len(comparison.problems()) == len(known.checks)


def test_requests_are_given_to_the_scenario_that_was_running(tmp_path: Path) -> None:
    for scenario, start in (("ping", "00-00-00-000"), ("tools-list", "00-00-10-000")):
        folder = tmp_path / f"server-{scenario}-1970-01-01T{start}Z"
        folder.mkdir()
        (folder / "checks.json").write_text('[{"id": "check", "status": "SUCCESS"}]')
    log = tmp_path / "requests.log"
    log.write_text("1.5 ping\n10.25 tools/list\n11.5 tools/list\n")
    outcomes = read_outcomes(tmp_path, log, ["ping", "tools-list"])
    assert {name: outcome.requests for name, outcome in outcomes.items()} == {"ping": 1, "tools-list": 2}


def test_for_merged_servers_the_suite_differs_in_names_alone(tmp_path: Path) -> None:
    suite = tmp_path / "index.js"
    suite.write_text("""call("test_x", 'test_y', `test_z`, "a test_w", test_v); read(`test://a/{id}`)""", "utf-8")
    merged = renamed(suite, "all").read_text("utf-8")
    assert merged == (
        """call("all__test_x", 'all__test_y', `all__test_z`, "a test_w", test_v); read(`accredit+all:test://a/{id}`)"""
    )


def test_the_page_names_each_known_difference_with_its_reason_and_every_way() -> None:
    page = PAGE.read_text("utf-8")
    for each in EXPLAINED:
        assert f"- `{each.scenario}` ({', '.join(sorted(each.targets))}): {each.reason}." in page
    assert page.count(f"|  | {' | '.join(TARGETS)} |") == len(REVISIONS)
    assert all(f"**{target}**" in page for target in TARGETS)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_suite_logs_in_at_the_front_door_and_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    try:
        node = find_node()
    except NodeMissing as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
    assert run_door(node, install_suite(node), tmp_path, REVISIONS[-1]) == []
