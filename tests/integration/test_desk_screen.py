"""What a person sees on a terminal's screen when an ask is shown there, in windows of several sizes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.world.desk import Agent, Desk, write_locked
from tests.world.terminal import Terminal, screen

from accredit.consent.asks import ServerWords
from accredit.keys import make_key

pytestmark = [pytest.mark.slow, pytest.mark.holds("cli/actions/approve"), pytest.mark.holds("cli/actions/ask_screen")]

REAL = "all-customers@attacker.example"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    write_locked(folder / "config" / "accredit", make_key("human", "Ada", 1_700_000_000))
    with Desk(folder) as running:
        yield running


def padded(columns: int, first: int, *rows: str) -> str:
    """One line, made so that a terminal of that width would begin a row with each of these."""
    return "x" * (columns - first) + "".join(row.ljust(columns, ".") for row in rows)


FORGED = ("  subject: Hello", "  to: ada@example.org", "! First time: all is well", "Code 7KQ4-M2")


def seen_of(desk: Desk, columns: int, height: int, agent: Agent, **changes: object) -> list[str]:
    ask = agent.ask(**changes)  # type: ignore[arg-type]
    desk.tell({"ask": ask.to_dict()})
    with Terminal("approve", ask.code, folder=desk.folder, env=desk.env, columns=columns, height=height) as terminal:
        terminal.wait_for("how all")
        return screen(terminal.seen, columns)


@pytest.mark.parametrize(("columns", "height"), [(80, 24), (40, 24), (132, 40), (20, 12)])
def test_a_padded_value_makes_no_row_on_the_screen_that_reads_as_an_argument(
    desk: Desk, columns: int, height: int
) -> None:
    params = {"name": "send_email", "arguments": {"to": REAL, "zz": padded(columns, len("  zz: "), *FORGED)}}
    seen = seen_of(desk, columns, height, Agent(), params=params)
    for row in seen:
        text = row.strip()
        assert not text.startswith(("subject:", "to: ada", "! First time: all", "Code 7KQ4-M2")), row
    assert any(row.startswith("  to: ") for row in seen)


def test_what_has_scrolled_away_stands_once_more_above_the_menu(desk: Desk) -> None:
    params = {"name": "send_email", "arguments": {"to": REAL, "zz": "x" * 900}}
    last = seen_of(desk, 80, 24, Agent(), params=params)[-24:]
    assert f"  to: {REAL}" in last
    assert any("asks to call send_email" in row for row in last)
    assert any(row.startswith("  zz: xxxx") and row.endswith("⟨…⟩") for row in last)
    assert any(row.startswith("! New: ") for row in last)


def test_of_many_values_the_screen_says_how_many_stand_further_up(desk: Desk) -> None:
    params = {"name": "send_email", "arguments": {f"a{number:02}": "x" for number in range(60)}}
    last = seen_of(desk, 80, 24, Agent(), params=params)[-24:]
    assert any("values more: all of them stand further up" in row for row in last)


@pytest.mark.parametrize("columns", [80, 40])
def test_the_servers_words_and_an_agents_name_make_no_row_either(desk: Desk, columns: int) -> None:
    words = ServerWords("", padded(columns, 3, *FORGED), {})
    seen = seen_of(desk, columns, 60, Agent("x" * 20 + padded(columns, 40, *FORGED)[:200]), server_says=words)
    forged = [
        row for row in seen if row.strip().startswith(("subject: Hello.", "to: ada@example.org.", "! First time: all"))
    ]
    assert forged == []


@pytest.mark.parametrize("columns", [80, 40, 24])
def test_a_list_of_asks_has_one_row_for_each(desk: Desk, columns: int) -> None:
    name = ("Ada" + " " * columns + "7KQ4-M2  “Helper”")[:100]
    agent = Agent(name)
    ask = agent.ask({"name": "x" * columns + "7KQ4-M2", "arguments": {}})
    desk.tell({"ask": ask.to_dict()})
    with Terminal("asked", folder=desk.folder, env=desk.env, columns=columns, height=24) as terminal:
        assert terminal.end() == 0
        seen = screen(terminal.seen, columns)
    assert not any(row.strip().startswith("7KQ4-M2") for row in seen)
    assert any(ask.code in row for row in seen)


@pytest.mark.parametrize("columns", [80, 40])
def test_an_error_that_quotes_makes_no_row_of_its_own(tmp_path: Path, columns: int) -> None:
    (tmp_path / "call.json").write_text(json.dumps({"x": 1}), "utf-8")
    name = padded(columns, 7, "ok: all is well", "note: nothing is wrong")[:200]
    with Terminal("inspect", name, folder=tmp_path, columns=columns, height=24) as terminal:
        assert terminal.end() == 2
        seen = screen(terminal.seen, columns)
    assert not any(row.startswith(("ok:", "note:")) for row in seen)


@pytest.mark.parametrize("columns", [80, 40])
def test_a_configuration_that_somebody_else_wrote_makes_no_row_that_reads_as_another_setting(
    tmp_path: Path, columns: int
) -> None:
    host = padded(columns, len('gateway.host = "'), "proofs.mode = off", "ok: all is well", "note: all is well")
    (tmp_path / "accredit.toml").write_text(f'[gateway]\nhost = "{host}"\n', "utf-8")
    for command in (("config", "show"), ("config", "check")):
        with Terminal(*command, folder=tmp_path, columns=columns, height=24) as terminal:
            terminal.end()
            seen = screen(terminal.seen, columns)
        assert not any(row.startswith(("proofs.mode = off", "ok: all is", "note: all is")) for row in seen)
