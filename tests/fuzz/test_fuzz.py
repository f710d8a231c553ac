"""A few seconds of the fuzz target: that it runs, and finds nothing at once. For a long run see its docstring."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_jsonrpc.py")


@pytest.mark.slow
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        assert not os.environ.get("CI"), "continuous integration fuzzes: atheris must be installed"
        pytest.skip("atheris is not installed (it has builds for Linux on x86-64 only)")
    # One seed: what another one finds is no fault of the change that is tested just then.
    command = [sys.executable, str(TARGET), "-max_total_time=6", "-seed=7", f"-artifact_prefix={tmp_path}/"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    assert "Done " in done.stderr
