"""The fuzz target of the Ratify core: its corpus runs clean, and a short run of the fuzzer finds nothing."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.fuzz_ratify_target import corpus, one_input

ROOT = Path(__file__).parents[2]
CORPUS = corpus()


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_runs_clean(name: str) -> None:
    one_input(CORPUS[name])


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not on this machine")
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    fuzzer = [sys.executable, "-m", "tests.fuzz.fuzz_ratify", str(tmp_path)]
    options = ["-runs=3000", "-seed=1", "-max_len=40000", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run([*fuzzer, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
