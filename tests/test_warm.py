"""What `tests.world.warm` promises: a program that starts at once is otherwise as Python would have started it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.command import wait_until
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm, path, programs, python

TELLS = """
import json, os, sys
told = [__name__, sys.argv, os.getcwd(), sys.path[0], sys.stdin.read(), os.environ.get("OWN"), "mcp" in sys.modules]
print(json.dumps(told))
sys.exit(7)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "tells.py").write_text(TELLS, "utf-8")
    return tmp_path / "tells.py"


def run(*command: str, popen: type[subprocess.Popen[str]], folder: Path, **env: str) -> tuple[int, str]:
    with popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **env}
    ) as process:
        out, _ = process.communicate("in", PATIENCE)
        return process.returncode, out


@pytest.mark.parametrize("words", [["tells.py", "a", "--b"], ["-m", "tells", "a"], ["-c", TELLS, "a"]], ids=str)
def test_a_warm_program_is_as_a_cold_one__but_for_what_it_has_imported(words: list[str], script: Path) -> None:
    folder = script.parent
    status, cold = run(sys.executable, *words, popen=subprocess.Popen, folder=folder, OWN="1")
    assert status == 7
    assert cold.endswith("false]\n")
    for starts, popen in ((sys.executable, Warm), (python(), subprocess.Popen)):
        assert run(starts, *words, popen=popen, folder=folder, OWN="1") == (7, cold.replace("false]", "true]"))


def test_what_only_python_can_start_is_started_by_it(script: Path) -> None:
    status, told = run(python(), "-I", str(script), popen=subprocess.Popen, folder=script.parent)
    assert status == 7
    assert told.endswith("false]\n")


def test_a_program_with_a_library_of_its_own_gets_it__or_its_clock_would_be_right_where_a_test_says_it_is_wrong(
    script: Path,
) -> None:
    status, told = run(sys.executable, str(script), popen=Warm, folder=script.parent, LD_PRELOAD="")
    assert status == 7
    assert told.endswith("false]\n")


def test_a_shell_finds_the_command(tmp_path: Path) -> None:
    told = subprocess.run(
        ["bash", "-c", "command -v accredit; accredit --version"], env={**os.environ, "PATH": path()},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert told.startswith(f"{programs()}/accredit\naccredit ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_reaches_the_process_behind_a_program__and_its_end_the_program(
    number: signal.Signals, tmp_path: Path
) -> None:
    code = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"
    with subprocess.Popen([python(), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert pid != process.pid
        process.send_signal(number)
        assert process.wait(PATIENCE) == -number
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
