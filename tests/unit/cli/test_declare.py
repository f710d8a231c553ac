"""A declared option that its function does not take, or a function that is gone, would be found by a user."""

import inspect

import click
import pytest
from tests.world.command_tree import commands

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, argument, flag, load, option

RUNS = {words: each for words, each in commands().items() if getattr(each, "run", None)}


def seen(**values: object) -> dict[str, object]:
    return values


def test_every_command_that_is_no_group_runs_something() -> None:
    assert {words for words, each in commands().items() if not isinstance(each, click.Group)} <= {*RUNS}


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_commands_function_takes_its_options_and_nothing_else(words: tuple[str, ...]) -> None:
    command = RUNS[words]
    names = {each.name for each in command.params if each.expose_value}
    for each in getattr(command, "joined", ()):
        assert {one.name for one in each.options} <= inspect.signature(load(each.run)).parameters.keys()
        names = names - {one.name for one in each.options} | {each.name}
    if isinstance(command, ProgramCommand):
        names.add("command")
    taken = inspect.signature(load(getattr(command, "takes", command.run))).parameters  # pyright: ignore[reportAttributeAccessIssue]
    assert {name for name, each in taken.items() if each.default is each.empty} <= names <= {*taken}


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
