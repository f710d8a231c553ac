"""Which process ended first, when a terminal ends all of them at once."""

import os
import signal

import pytest

from accredit.setup.up_run import Subprocess, run_together


class _EndsWithItsTerminal(Subprocess):
    """A desk that the terminal's Ctrl-C reaches first: it is gone when `up` looks, and only then has `up` its own
    signal."""

    def __init__(self, number: int) -> None:
        super().__init__("desk", (), lambda pid: True)
        self._number = number

    def start(self) -> None:
        """It is no process."""

    def ended(self) -> int:
        os.kill(os.getpid(), self._number)
        return 0


@pytest.mark.holds("setup/up_run")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_desk_that_sees_the_ctrl_c_first_has_not_ended_by_itself(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was exit code 1 once in nine times, and a script took the end that it had asked for as a failure."""
    assert run_together([_EndsWithItsTerminal(number)], 1.0, lambda: None, lambda: None) == 0
    assert capsys.readouterr().err == ""


def test_a_desk_that_ends_without_a_signal_has_ended_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_together([_EndsWithItsTerminal(0)], 1.0, lambda: None, lambda: None) == 1
    assert "the desk has ended by itself, with exit code 0" in capsys.readouterr().err
