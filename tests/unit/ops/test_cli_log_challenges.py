"""`accredit log` of a call that was asked for a proof over a challenge, and of one that a server took on as a task."""

import json
from pathlib import Path

import pytest
from tests.unit.ops.conftest import Folder
from tests.world.in_process import Run
from tests.world.recorded import records_at
from tests.world.records import DENY, decided
from tests.world.running import run as run_loop

from accredit.attest import CallDecision, Outcome, RecordedDecision

CHALLENGED = RecordedDecision(verdict="challenge", error="ratify_challenge_required")


@pytest.fixture
def calls(folder: Folder) -> list[CallDecision]:
    """In another log of the folder: asked for a proof, denied, taken on as a task."""
    made = [decided(decision=CHALLENGED, authority=None), decided(decision=DENY), decided()]

    async def writing() -> None:
        records = records_at(Path("other.db"))
        for call in made:
            await records.begin(call)
        await records.finish(made[2], Outcome(status="task"))
        await records.aclose()

    run_loop(writing())
    return made


def rows(run: Run, *options: str) -> list[tuple[str, str, str | None]]:
    done = run("log", "list", "--store", "sqlite:///other.db", "--json", *options)
    assert done.code == 0
    found = [json.loads(line) for line in done.out.splitlines()]
    return [(row["call"], row["decision"], row["outcome"]) for row in found]


def test_a_challenge_is_told_from_a_denial__whoever_counts_denials_would_count_each_sensitive_call(
    run: Run, calls: list[CallDecision]
) -> None:
    challenged, denied, task = (call.call.id for call in calls)
    assert rows(run) == [(task, "allow", "task"), (denied, "deny", None), (challenged, "challenge", None)]
    assert rows(run, "--decision", "deny") == [(denied, "deny", None)]
    assert rows(run, "--decision", "challenge") == [(challenged, "challenge", None)]
    assert rows(run, "--outcome", "task") == [(task, "allow", "task")]
    assert rows(run, "--outcome", "open") == []


def test_a_challenge_is_shown_in_words(run: Run, calls: list[CallDecision]) -> None:
    listed = run("log", "list", "--store", "sqlite:///other.db").out
    assert "challenge ratify_challenge_required" in listed
    shown = run("log", "show", calls[0].call.id, "--store", "sqlite:///other.db").out
    for line in ("decision.verdict  ", "decision.enforced  ", "policy.digest  "):
        assert line in shown


def test_following_tells_a_challenge_at_once__it_has_no_outcome_to_wait_for(
    run: Run, calls: list[CallDecision], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("accredit.ops.log_list.time.sleep", interrupt)
    assert [decision for _, decision, _ in rows(run, "-f")] == ["challenge", "deny", "allow"]
