"""A declared option that its function does not take, or a function that is gone, would be found by a user."""

import inspect
from collections.abc import Sequence
from typing import Any

import click
import pytest
from tests.world.command_tree import commands

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, OptionGroup, argument, flag, load, option

RUNS = {words: each for words, each in commands().items() if getattr(each, "run", None)}


def seen(**values: object) -> dict[str, object]:
    return values


def test_every_command_that_is_no_group_runs_something() -> None:
    assert {words for words, each in commands().items() if not isinstance(each, click.Group)} <= {*RUNS}


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_commands_function_takes_its_options_and_nothing_else(words: tuple[str, ...]) -> None:
    command = RUNS[words]
    others = {"command"} if isinstance(command, ProgramCommand) else set[str]()
    check_taken(getattr(command, "takes", command.run), getattr(command, "grouped", command.params), others)  # pyright: ignore[reportAttributeAccessIssue]


def check_taken(run: str, params: Sequence[Any], others: set[str]) -> None:
    """A function takes all these options and groups, and a group's one takes those of the group."""
    names = {each.name for each in params if getattr(each, "expose_value", True)} | others
    signature = inspect.signature(load(run))
    taken = {name: each for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD}
    passed_on = signature.return_annotation.__struct_fields__ if len(taken) < len(signature.parameters) else ()
    needed = {name for name, each in taken.items() if each.default is each.empty}
    assert needed <= names <= {*taken, *passed_on}, run
    for each in params:
        if isinstance(each, OptionGroup):
            check_taken(each.run, each.options, set())


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ((), {"url": None, "name": None, "port": 3, "key": (), "quiet": False}),
        (("http://h/", "--key", "a", "--key", "b"), {"url": "http://h/", "key": ("a", "b")}),
        (("--name", "", "--port", "0", "--quiet"), {"name": "", "port": 0, "quiet": True}),
    ],
)
def test_what_is_not_given_is_none_or_the_default_that_is_declared(
    words: tuple[str, ...], values: dict[str, object]
) -> None:
    params = [
        argument("url"), option("--name"), option("--port", type=int, default=3), option("--key", multiple=True),
        flag("--quiet"),
    ]  # fmt: skip
    found = Command("x", "", params, run=f"{__name__}:seen").main(list(words), "x", standalone_mode=False)
    assert {name: found[name] for name in values} == values
