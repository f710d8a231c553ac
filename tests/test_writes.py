"""Nothing makes a file whose mode is the umask's alone: files are written by `keys.files`, or opened with a mode."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.holds("keys/files")

SOURCE = Path(__file__).parents[1] / "src/accredit"
ELSEWHERE = {
    "client/desk_start.py": "its opener gives the mode",
    "console/browser.py": "a descriptor that has its mode",
    "keys/files.py": "a descriptor that has its mode",
    "keys/reading.py": "no name",
}


def makes_a_file(call: ast.Call) -> bool:
    """Whether a call may make a file without saying with which mode."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes", "TemporaryFile"):
        return True
    if name not in ("open", "fdopen", "FileIO"):
        return False
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if any(set(text) <= set("rwxabt+") and set(text) & set("wxa+") for text in texts):
        return True
    creates = any(isinstance(each, ast.Attribute) and each.attr == "O_CREAT" for each in ast.walk(call))
    return creates and len(call.args) < 3


def found(source: str) -> Iterator[int]:
    """The lines of such calls."""
    return (each.lineno for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call) and makes_a_file(each))


@pytest.mark.parametrize(
    "line",
    ["path.open('xb')", "open(path, 'w')", "path.write_text('')", "os.open(path, os.O_CREAT | os.O_WRONLY)",
     "path.open(mode='a')"],
)  # fmt: skip
def test_what_is_looked_for_is_found(line: str) -> None:
    assert [*found(line)] == [1]


@pytest.mark.slow
def test_no_file_is_made_with_whatever_mode_the_umask_leaves() -> None:
    texts = {str(each.relative_to(SOURCE)): each.read_text("utf-8") for each in SOURCE.rglob("*.py")}
    wild = {name: lines for name, text in texts.items() if (lines := [*found(text)])}
    assert {name: lines for name, lines in wild.items() if name not in ELSEWHERE} == {}
    assert ELSEWHERE.keys() - wild.keys() == set()
