"""A worker that can't start ends them all; one that crashed in the middle does not. In processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.command import environment
from tests.world.raw_server import PATIENCE

pytestmark = pytest.mark.slow

PARENT = """
import os, pathlib, signal, socket, sys
from accredit.app.configured import Start
from accredit.app.workers import Reading, run_workers
from accredit.base.log_events import configure_logs

configure_logs("info", "json")

def serve(lifeline, first, orders):
{body}

reading = Reading(Start(None, {{}}, {{}}), b"", None)
sys.exit(run_workers(2, socket.socket(), serve, ending_seconds=60, reading=reading))
"""


def run_parent(body: str, folder: Path) -> subprocess.CompletedProcess[str]:
    text = PARENT.format(body="\n".join(f"    {line}" for line in body.splitlines()))
    return subprocess.run(
        [sys.executable, "-c", text],
        check=False, capture_output=True, text=True, cwd=folder, env=environment(), timeout=PATIENCE,
    )  # fmt: skip


def test_a_worker_that_can_not_start_ends_them_all(tmp_path: Path) -> None:
    body = """
if first:
    return 1
os.read(lifeline, 1)
pathlib.Path("ended").touch()
return 0
"""
    done = run_parent(body, tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "ended").exists()


def test_a_worker_that_raises_says_so_and_is_replaced(tmp_path: Path) -> None:
    body = """
if first:
    raise RuntimeError("broken")
try:
    pathlib.Path("waiting").touch(exist_ok=False)
except FileExistsError:
    pathlib.Path("replaced").touch()
    return 1
os.read(lifeline, 1)
return 0
"""
    done = run_parent(body, tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "replaced").exists()
    assert "RuntimeError: broken" in done.stderr
    assert all(line.startswith("{") for line in done.stderr.splitlines())


def test_an_alarm_for_a_replacement_is_not_the_end_of_the_grace(tmp_path: Path) -> None:
    body = """
if first:
    parent = os.getppid()
    for number in (signal.SIGSTOP, signal.SIGALRM, signal.SIGINT, signal.SIGCONT):  # it finds both at once
        os.kill(parent, number)
os.read(lifeline, 1)
signal.sigtimedwait({signal.SIGUSR1}, 0.5)  # a kill would come now
pathlib.Path(f"ended-{first}").touch()
return 0
"""
    done = run_parent(body, tmp_path)
    assert done.returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ended-False", "ended-True"]
