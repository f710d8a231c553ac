"""`[proofs] evaluators`: what is named is loaded from an installed package, or nothing starts."""

from pathlib import Path

import pytest

from accredit.config.proofs import load_evaluators
from accredit.consent.call import CALL
from accredit.errors import ConfigurationError

MODULE = """
def judge(constraint, cert_id, context, now):
    return None
notes = "no function"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with evaluators, as an installer leaves it."""
    (tmp_path / "accredit_calendar.py").write_text(MODULE, "utf-8")
    points = {
        "one": "com.example.hours = accredit_calendar:judge\ncom.example.notes = accredit_calendar:notes\n"
        "com.example.gone = accredit_calendar:gone\nmax_rate = accredit_calendar:judge\n"
        "com.example.twice = accredit_calendar:judge",
        "two": "com.example.twice = accredit_calendar:notes",
    }
    for name, text in points.items():
        info = tmp_path / f"accredit_{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: accredit-{name}\nVersion: 1\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[accredit.constraints]\n{text}\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_what_is_named_is_loaded__and_our_own_is_always_there() -> None:
    assert set(load_evaluators([])) == {CALL}
    assert set(load_evaluators(["com.example.hours"])) == {CALL, "com.example.hours"}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("com.example.other", "there is no"),
        ("com.example.gone", "can't be loaded"),
        ("com.example.notes", "can't be called"),
        ("com.example.twice", "several packages: accredit-one, accredit-two"),
        ("max_rate", "judged already"),
        (CALL, "there is no"),
    ],
)
def test_a_name_that_can_not_be_had_stops_the_start(name: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"proofs.evaluators: .*{what}"):
        load_evaluators([name])
