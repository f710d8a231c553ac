"""What holds the tree together sees what people hide: a circle of imports is one, wherever it is written."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def measure() -> Callable[[Path], int]:
    return runpy.run_path(str(ROOT / "scripts/house.py"))["main"]


def house(folder: Path, **texts: str) -> Path:
    """A package with these modules, each long enough to be none of the short ones."""
    (folder / "accredit").mkdir()
    for name, text in {"__init__": "", **texts}.items():
        (folder / "accredit" / f"{name}.py").write_text(text + "# more\n" * 60)
    return folder


@pytest.mark.parametrize(
    "back",
    [
        "from accredit.first import A\n",
        "import accredit.first\n",
        "from accredit import first\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from accredit.first import A\n",
        "def f() -> None:\n    from accredit.first import A\n",
    ],
)
def test_a_circle_is_found__also_for_types_only_and_inside_functions(
    measure: Callable[[Path], int], tmp_path: Path, capsys: pytest.CaptureFixture[str], back: str
) -> None:
    found = measure(house(tmp_path, first="from accredit.second import B\n", second=back))
    assert found == 1
    assert "a circle of imports: accredit." in capsys.readouterr().out


def test_whoever_reaches_into_others_private_parts_is_named(
    measure: Callable[[Path], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "from mcp.client._transport import ReadStream\nfrom asyncio import _get_running_loop\n"
    assert measure(house(tmp_path, first=text)) == 1
    printed = capsys.readouterr().out
    assert "accredit/first.py imports what is private to others: asyncio._get_running_loop, mcp.client._t" in printed


def test_functions_named_by_a_participle_are_counted__nouns_and_verbs_are_not(
    measure: Callable[[Path], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["told", "_shown", "asked_of_desk", "kept_proof", "read_answer", "embed", "red"]
    text = "".join(f"def {name}() -> None: ...\n" for name in names)
    assert measure(house(tmp_path, first=text)) == 0
    assert "house: 3 functions are named by a participle" in capsys.readouterr().out
    many = "".join(f"def _told_{n}() -> None: ...\ndef told_by_{n}() -> None: ...\n" for n in range(61))
    (tmp_path / "more").mkdir()
    assert measure(house(tmp_path / "more", first=many)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from accredit.stores import SqliteFile\na = isinstance(b, SqliteFile)\n",
        "from accredit import stores\na = isinstance(store_of(b), stores.InMemory | None)\n",
        "from accredit.stores.lasting import PostgresDatabase\nmatch a:\n    case PostgresDatabase():\n        pass\n",
        "from accredit.stores.audit_log.requests import FileLog as Log\na = issubclass(b, Log)\n",
        "from accredit.stores.audit_log import queue\na = isinstance(b, int | queue.QueuedRecords)\n",
    ],
)
def test_whoever_asks_for_the_class_of_a_store_is_named__but_where_it_is_at_home(
    measure: Callable[[Path], int], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    package = house(tmp_path, first=text, second="from mcp.stores import A\na = isinstance(b, A | Database)\n")
    assert measure(package) == 1
    assert "accredit/first.py asks 1 times for the class of a store" in capsys.readouterr().out
    (package / "accredit/stores").mkdir()
    (package / "accredit/first.py").rename(package / "accredit/stores/first.py")
    assert measure(package) == 0
