"""The snippets of the README run as they stand, imports and all, and its figures are those of the reference."""

import json
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from tests.world.command import environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import path

from accredit.keys import make_key, write_key

pytestmark = pytest.mark.slow

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
BLOCKS = [(kind, textwrap.dedent(body)) for kind, body in BLOCK.findall(README)]
PROGRAMS = [body for kind, body in BLOCKS if kind == "python"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_of_the_readme_runs_as_it_stands(program: str, tmp_path: Path) -> None:
    write_key(tmp_path / "owner.key", make_key("human", "Owner", 1))
    (tmp_path / "program.py").write_text(program, "utf-8")
    done = subprocess.run(
        ["python", "program.py"], cwd=tmp_path, env=environment({"PATH": path()}), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_there_are_programs__and_what_is_json_is() -> None:
    assert PROGRAMS
    assert all(json.loads(body) for kind, body in BLOCKS if kind == "json")


REFERENCE = Path(__file__).parents[2] / "docs/reference"
CONFORMANCE = (REFERENCE / "conformance.md").read_text("utf-8")
ROW = re.compile(r"^\| \**([\w-]+)[^|]*\| \**(\d+)(?:/\d+)?, (\d+)(?:/\d+)?\** \|", re.MULTILINE)
OF_OTHERS = re.compile(r"^\| ([\w-]+)[^|]*\| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_the_figures_of_the_comparison_are_those_of_the_measurements() -> None:
    rows = {name: (legacy, modern) for name, legacy, modern in ROW.findall(README)}
    measured = {name: (legacy, modern) for name, legacy, modern in OF_OTHERS.findall(CONFORMANCE)}
    legacy, modern = re.findall(
        r"^\| \*\*required scenarios that pass\*\*((?: \| \*\*(?:\d+)/\d+\*\*)+)", CONFORMANCE, re.MULTILINE
    )
    least = [str(min(map(int, re.findall(r"(\d+)/", each)))) for each in (legacy, modern)]
    assert rows == {"accredit": tuple(least), **measured}
