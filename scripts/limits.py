"""Writes every number with a name into docs/reference/limits.md: the bounds, with their reasons, by room.

Run by `make fmt`. It is a public constant of two words or more, with a docstring, at the top level of a module.
What the page says before the list is written by hand.
"""

import ast
import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/limits.md"
BEGINS = "## Every number with a name\n"


class Bound(NamedTuple):
    """A constant's name, its number as the code has it, why it is so, and its file below `src/accredit`."""

    name: str
    number: str
    reason: str
    path: str


def main() -> None:
    """Writes the list anew."""
    PAGE.write_text(with_list(PAGE.read_text("utf-8"), bounds()), "utf-8")


def with_list(page: str, found: Iterator[Bound]) -> str:
    """The page with the list of these at its end."""
    lines = [BEGINS]
    for room, each in groupby(found, key=lambda bound: bound.path.split("/")[0].removesuffix(".py")):
        lines += [f"### {room}\n", *(f"- `{b.name}` = {b.number}, in `{b.path}`: {b.reason}" for b in each), ""]
    return page.partition(BEGINS)[0] + "\n".join(lines)


def bounds(root: Path = ROOT) -> Iterator[Bound]:
    """Every one of the package, by file and in the order of its text."""
    source = root / "src/accredit"
    for path in sorted(source.rglob("*.py")):
        body = ast.parse(path.read_text("utf-8")).body
        for node, after in pairwise(body):
            match node, after:
                case (
                    ast.Assign(targets=[target], value=value),
                    ast.Expr(value=ast.Constant(value=str(reason))),
                ):
                    for name, number in pairs(target, value):
                        written = re.sub(r"\d{5,}", lambda digits: f"{int(digits[0]):,}", ast.unparse(number))
                        yield Bound(name, written, " ".join(reason.split()), str(path.relative_to(source)))
                case _:
                    pass


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each name that one assignment gives a number, with it."""
    match target, value:
        case ast.Name(id=name), _ if re.fullmatch(r"[A-Z]+(_[A-Z0-9]+)+", name) and is_number(value):
            yield name, value
        case ast.Tuple(elts=names), ast.Tuple(elts=values):
            for one, its in zip(names, values, strict=True):
                yield from pairs(one, its)
        case _:
            pass


def is_number(value: ast.expr) -> bool:
    """Whether this is a number, several, or made of such and of the names of others."""
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.BinOp(left=left, right=right):
            return all(is_number(each) or isinstance(each, ast.Name) for each in (left, right))
        case ast.Tuple(elts=parts):
            return all(map(is_number, parts))
        case _:
            return False


if __name__ == "__main__":
    main()
