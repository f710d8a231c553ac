"""Fails when a source file has grown past its limit: a file that wants to be longer is two ideas.

Functions are bounded by ruff (statements and complexity); this bounds files, and the lines of a function.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 600
FILE_LINES_SOFT = 400
FUNCTION_LINES = 60


def tracked(folder: str) -> list[Path]:
    """Python files that git knows of or would add, below `folder`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{folder}/*.py"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [path for line in listed.stdout.splitlines() if (path := Path(line)).exists()]


def long_functions(path: Path) -> Iterator[str]:
    """Names the functions of `path` that are longer than the limit (docstrings count: they are read too)."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines (limit {FUNCTION_LINES})"


def main() -> int:
    """Prints what is too long; returns 1 when something is."""
    failures: list[str] = []
    for path in tracked("src"):
        lines = len(path.read_text("utf-8").splitlines())
        if lines > FILE_LINES:
            failures.append(f"{path}: {lines} lines (limit {FILE_LINES})")
        elif lines > FILE_LINES_SOFT:
            print(f"note: {path}: {lines} lines (soft limit {FILE_LINES_SOFT})")
        failures.extend(long_functions(path))
    print("\n".join(failures) or "sizes: all within limits")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
