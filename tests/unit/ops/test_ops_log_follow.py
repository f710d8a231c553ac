"""How `accredit log follow` is stopped: what was sent is noted before it ends, so that the next start sends none of it
again."""

import os
import signal
from collections.abc import Sequence
from typing import Any, Self

import pytest

from accredit.errors import CollectorError
from accredit.ops.log_follow import follow_log
from accredit.stores.audit_log.shipping import Batch

pytestmark = pytest.mark.holds("ops/log_follow")
ENTRIES = (object(), object())


class Parts:
    """A store, its sink and a target. They note what they are asked for, and one of them has this process stopped."""

    def __init__(self, stopped_in: str, failures: int = 0) -> None:
        self.stopped_in = stopped_in
        self.failures = failures
        self.asked: list[str] = []

    def open_sink(self, _name: str) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def taken(self, _batch: Batch) -> None:
        self._ask("taken")

    def take(self, envelopes: Sequence[object] | None = None) -> Any:
        if envelopes is not None:
            self._ask("sent")
            return 0
        self._ask("read")
        return Batch(ENTRIES, 0, None, more=True)  # type: ignore[arg-type]

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what == self.stopped_in:
            os.kill(os.getpid(), signal.SIGTERM)
            if self.failures:
                raise CollectorError("it is away")


@pytest.mark.parametrize(
    ("stopped_in", "asked"),
    [("read", ["read"]), ("sent", ["read", "sent", "taken"]), ("taken", ["read", "sent", "taken"])],
)
def test_whoever_is_stopped_between_sending_and_noting_it_notes_it_first(stopped_in: str, asked: list[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    parts = Parts(stopped_in)
    assert follow_log(parts, "siem", parts) == 0  # type: ignore[arg-type]
    assert parts.asked == asked
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_sink_that_is_away_keeps_nobody_from_stopping(capsys: pytest.CaptureFixture[str]) -> None:
    parts = Parts("sent", failures=1)
    assert follow_log(parts, "siem", parts) == 0  # type: ignore[arg-type]
    assert parts.asked == ["read", "sent"]
    assert "siem takes nothing" in capsys.readouterr().err
