"""A moment of each fuzz target: that it runs, bites, and finds nothing at once. `make fuzz` runs for long."""

import importlib.util
import os
import random
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
from tests.fuzz import fuzz_client_target, fuzz_gate_target, fuzz_guard_target, fuzz_wrap_target
from tests.fuzz.__main__ import ROOT, TARGETS
from tests.fuzz.fuzz_gate_target import Hole, Records, corpus, one_input, one_request, readings, runs

from accredit.attest import CallDecision

CORPUS = corpus()
LINES = fuzz_wrap_target.corpus()
CALLS = fuzz_guard_target.corpus()
ANSWERS = fuzz_client_target.corpus()
CHOSEN = 20
"""Inputs of chosen lines for each target that reads lines."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # What takes long to be instrumented runs here as it is (`test_chosen_lines_lead_around_nothing`, and the next).
    [
        pytest.param(name, marks=pytest.mark.long) if name in ("gate", "wrap", "guard", "client") else name
        for name in TARGETS
    ],
)
def test_a_short_run_finds_nothing(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        assert not os.environ.get("CI"), "continuous integration fuzzes: atheris must be installed"
        pytest.skip("atheris is not installed (it has builds for Linux on x86-64 only)")
    command, longest = TARGETS[name]
    # One seed: what another one finds is no fault of the change that is tested just then.
    options = ["-max_total_time=1", "-seed=7", f"-max_len={longest}", f"-artifact_prefix={tmp_path}/"]
    started = [sys.executable, *command, str(tmp_path), *options]
    done = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    assert "Done " in done.stderr


@pytest.mark.parametrize("name", CORPUS)
def test_no_way_around_the_gate_that_was_found_once_is_open(name: str) -> None:
    answered, _, allowed = one_input(CORPUS[name])
    assert answered.startswith(b"HTTP/1.1 ")
    assert allowed == (name == "allowed")


def test_a_good_call_reaches_the_server__or_the_fuzzer_would_look_at_refusals_only() -> None:
    answered, forwarded, allowed = one_input(CORPUS["allowed"])
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert (forwarded, allowed) == (1, 1)


@pytest.mark.parametrize(
    "written",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}',
        b'{"method":"tools/call","method":"ping","params":{"name":"pay"}}',
        b'{"method":"ping","METHOD":"tools/call","params":{"name":"pay"}}',
        b'[{"method":"ping"},{"method":"Tools/Call","params":{"name":"pay"}}]',
    ],
)
def test_the_server_behind_reads_as_freely_as_any(written: bytes) -> None:
    assert "pay" in {target for reading in readings({}, written) for _, target, _ in runs(reading)}


def test_the_oracle_sees_other_charsets_and_codings() -> None:
    call = b'{"method":"tools/call","params":{"name":"pay"}}'
    for headers, body in (
        ({b"content-type": [b"a/b; Charset=UTF-16LE"]}, call.decode().encode("utf-16-le")),
        ({b"content-encoding": [b"x, br"]}, fuzz_gate_target.brotli.compress(call)),
        ({b"content-encoding": [b"gzip"]}, fuzz_gate_target.gzip.compress(call)),
    ):
        assert [run for reading in readings(headers, body) for run in runs(reading)]


@pytest.mark.parametrize("more", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"x"])
def test_two_requests_where_one_was_judged_are_a_hole(more: bytes) -> None:
    with pytest.raises(Hole):
        one_request(b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1" + more)


def test_what_nobody_allowed_is_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(_: Records, decided: CallDecision) -> None: ...

    monkeypatch.setattr(Records, "begin", forget)
    with pytest.raises(Hole, match="tools/call 'list_inbox' runs"):
        one_input(CORPUS["allowed"])


@pytest.mark.parametrize("name", LINES)
def test_no_line_of_a_host_leads_around_wrap(name: str) -> None:
    _, forwarded, allowed = fuzz_wrap_target.one_input(LINES[name])
    assert allowed == name.startswith("allowed") + (name == "batch")
    assert forwarded >= allowed


@pytest.mark.parametrize("name", CALLS)
def test_no_line_of_a_client_leads_around_a_guard(name: str) -> None:
    _, _, case = name.partition("-")
    signed = {"allowed", "twice", "legacy", "version", "answer", "cancelled"}
    expected = {
        "fastmcp-relay": ["relay", "list_inbox"],
        "sdk-spend": ["spend"],
        "sdk-aliased": ["spend"],  # of the 5, which are judged
        "fastmcp-spend": ["spend"],
        "sdk-pay-with-fee": ["spend_with_fee"],
        "fastmcp-pay-with-fee": ["spend_with_fee"],
    }
    assert fuzz_guard_target.one_input(CALLS[name])[1] == expected.get(name, ["list_inbox"] * (case in signed))


@pytest.mark.parametrize("name", ANSWERS)
def test_no_line_of_a_server_leads_a_client_to_a_proof_that_is_good_elsewhere(name: str) -> None:
    told, proofs = fuzz_client_target.one_input(ANSWERS[name])
    assert told
    assert (proofs > 0) == (name in ("claims", "challenges"))


def test_lines_of_a_server_that_are_cut_and_joined_lead_to_none_either() -> None:
    lines, dice = [line for each in ANSWERS.values() for line in each.split(b"\n")], random.Random(7)
    for _ in range(CHOSEN):
        chosen = [dice.choice(lines) for _ in range(6)]
        chosen[dice.randrange(6)] = dice.choice(lines)[: dice.randrange(1, 99)]
        fuzz_client_target.one_input(b"\n".join(chosen))


def test_a_proof_that_a_real_gateway_takes_is_a_hole_in_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_client_target, "KNOWN", {})
    with pytest.raises(Hole, match="a real gateway takes"):
        fuzz_client_target.one_input(ANSWERS["poses"])


@pytest.mark.slow
@pytest.mark.parametrize("target", [fuzz_wrap_target, fuzz_guard_target], ids=["wrap", "guard"])
def test_chosen_lines_lead_around_nothing(target: ModuleType) -> None:
    for seed in range(CHOSEN):
        target.one_input(bytes([128 + seed % 3]) + sha256(b"%d" % seed).digest())


def test_requests_that_are_cut_and_joined_lead_around_nothing() -> None:
    inputs, dice = [*CORPUS.values()], random.Random(7)
    for _ in range(CHOSEN):
        one, other = dice.sample(inputs, 2)
        one_input(one[: dice.randrange(2, len(one))] + other[dice.randrange(len(other)) :])


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\0"])
def test_the_server_behind_wrap_takes_any_line_break_for_the_end_of_a_message(end: str) -> None:
    line = f"{{{end}{fuzz_gate_target.CALL.decode()}{end}}}".encode()
    assert "pay" in {target for _, target, _ in fuzz_wrap_target.runs_of(line)}


def test_a_call_that_nobody_allowed_is_a_hole_behind_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(_: Records, decided: CallDecision) -> None: ...

    monkeypatch.setattr(Records, "begin", forget)
    with pytest.raises(Hole, match="tools/call 'list_inbox' runs"):
        fuzz_wrap_target.one_input(LINES["allowed"])


def test_what_runs_more_often_than_it_was_signed_for_is_a_hole_behind_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_guard_target, "SIGNED_FOR", Counter({"relay": 1}))
    with pytest.raises(Hole, match="list_inbox"):
        fuzz_guard_target.one_input(CALLS["sdk-allowed"])
