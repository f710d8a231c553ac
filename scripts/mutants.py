"""Measures how many small changes to the cores the cores' own tests notice; fails where that is fewer than before.

Run by `make mutants`, for half an hour on two processors; arguments are cores, for some of them only. mutmut changes a
core in one place at a time and runs the tests that reach it. A mutant that they all let pass is a survivor: it means
the same, or a test is missing. Each is printed with its place.

The tests are those that mirror a core (`CORES`), not the suite: what is a core's to hold is held beside it. Of its
mutants the same `DRAWN` ones are tried every time, by a digest of their names: other functions do not change these.
`mutants.json` has how many are noticed, as a share; a share that has grown is written there.
"""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from mutmut.mutation.file_mutation import mutate_file_contents

ROOT = Path(__file__).parents[1]
SCORES = ROOT / "scripts/mutants.json"
WORK = ROOT / ".mutants"
DRAWN = 120
CORES = {
    "policy/decide": ("unit/policy", "property/test_policy.py"),
    "ratify/verify": ("unit/ratify", "unit/signing/test_cli_chain.py", "property/test_ratify.py"),
    "jsonrpc": (
        "unit/jsonrpc",
        "property/test_error_tree.py",
        "property/test_frames_oracle.py",
        "property/test_one_pass.py",
        "property/test_round_trips.py",
        "property/test_splits.py",
    ),
    "tokens/verify": ("unit/tokens", "property/test_tokens.py"),
    "rounds/sealing": ("unit/rounds",),
    "attest/verify": ("unit/attest", "property/test_attest_properties.py"),
}
BESIDE = ("src", "tests", "docs", "examples", "scripts", "bench", "deploy", "README.md", "CHANGELOG.md")
"""What the tests read."""
CLICK = "\N{LATIN LETTER LATERAL CLICK}"
"""What mutmut puts around the name of a class."""
SURVIVES = (0, 5, 33)
"""pytest's word that all have passed, and its and mutmut's that there is no test."""


class Mutant(NamedTuple):
    """A change: mutmut's name for it, where it is, and what the line was and is."""

    name: str
    path: str
    line: int
    was: str
    now: str


Survivors = Callable[[str, Sequence[Mutant]], list[Mutant]]
"""What tries a core's mutants."""


def main(cores: Sequence[str], scores: Path = SCORES, survivors_of: Survivors | None = None) -> int:
    """Measures these cores, or all; returns 1 where a score has fallen."""
    noticed: dict[str, float] = json.loads(scores.read_text("utf-8"))
    fallen = False
    for core in cores or CORES:
        drawn = sorted(mutants(core), key=lambda mutant: sha256(mutant.name.encode()).digest())[:DRAWN]
        survivors = (survivors_of or run)(core, drawn)
        for each in survivors:
            print(f"{each.path}:{each.line}: {each.was}  ->  {each.now}")
        score, before = round(1 - len(survivors) / len(drawn), 3), noticed.get(core, 0.0)
        print(f"mutants: {core}: {score:.1%} of {len(drawn)} are noticed, {before:.1%} were before", flush=True)
        fallen = fallen or score < before
        noticed[core] = max(score, before)
        scores.write_text(json.dumps(noticed, indent=2, sort_keys=True) + "\n", "utf-8")
    return 1 if fallen else 0


def mutants(core: str, root: Path = ROOT) -> Iterator[Mutant]:
    """The mutants of a core but for those of a text: words are held by the tests of commands and pages."""
    found = root / "src/accredit" / core
    for path in sorted(found.glob("*.py")) if found.is_dir() else [found.with_suffix(".py")]:
        relative, source = path.relative_to(root), path.read_text("utf-8")
        made = mutate_file_contents(str(relative), source)
        written, begins = made.code.splitlines(), starts(source)
        module = ".".join(relative.with_suffix("").parts[1:]).removesuffix(".__init__")
        for name in made.mutant_names:
            function = name.partition("__mutmut_")[0]
            was, now = (
                [line.replace(each, function) for line in written[span.start - 1 : span.end]]
                for each in (f"{function}__mutmut_orig", name)
                for span in [made.line_span_by_function_name[each]]
            )
            at = next((n for n, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), 0)
            head = next(n for n, line in enumerate(was) if f"def {function}(" in line)
            place = begins[function] + at - head
            if not is_wording(was[at], now[at]):
                yield Mutant(f"{module}.{name}", str(relative), place, was[at].strip(), now[at].strip())


def is_wording(was: str, now: str) -> bool:
    """Whether mutmut has changed a text, and nothing else."""
    return now.lower() == was.lower() or now.replace("XX", "") == was.replace("XX", "")


def starts(source: str) -> dict[str, int]:
    """The line of each function's `def`, by mutmut's name for the function."""
    found: dict[str, int] = {}
    for node in ast.parse(source).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"x{CLICK}{node.name}{CLICK}" if isinstance(node, ast.ClassDef) else "x_"
        for each in inside:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                found[prefix + each.name] = each.lineno
    return found


def run(core: str, drawn: Sequence[Mutant]) -> list[Mutant]:
    """Tries these mutants; returns the survivors."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    for name in BESIDE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, WORK / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy(ROOT / name, WORK / name)
    settings = {
        "source_paths": ["src"],
        "only_mutate": sorted({each.path for each in drawn}),
        "also_copy": [*BESIDE[2:]],
        "pytest_add_cli_args": ["--hypothesis-profile=drawn"],
        "pytest_add_cli_args_test_selection": [f"tests/{each}" for each in CORES[core]],
        "timeout_constant": 60.0,  # a busy machine is no endless loop
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    whole = [(ROOT / "pyproject.toml").read_text("utf-8"), "[tool.mutmut]", *lines, ""]
    (WORK / "pyproject.toml").write_text("\n".join(whole), "utf-8")
    command = [Path(sys.executable).with_name("mutmut"), "run", *(each.name for each in drawn)]
    with (WORK / "said").open("w+") as said:
        done = subprocess.run(command, cwd=WORK, stdout=said, stderr=said, check=False)
        if done.returncode:
            said.seek(0)
            sys.exit(f"mutants: mutmut has failed:\n{said.read()[-4_000:]}")
    ended: dict[str, int | None] = {}
    for path in {each.path for each in drawn}:
        ended |= json.loads((WORK / f"mutants/{path}.meta").read_text("utf-8"))["exit_code_by_key"]
    untried = [each.name for each in drawn if ended[each.name] is None]
    if untried:
        sys.exit(f"mutants: {len(untried)} were not tried: {untried[0]}")
    return [each for each in drawn if ended[each.name] in SURVIVES]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
