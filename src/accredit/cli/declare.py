"""How a command is declared: its words, its help, its options, and the function that it runs. No I/O.

A declaration loads nothing but click, so help and completion are quick. The function is named as `module:function`, and
is imported when the command runs. It takes each option by its name, and each group of options as one value. With
`into`, it takes a single object instead: all these values are passed to `into`, a class in the function's module. It
returns the exit code; None means 0.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click


class Argument(click.Argument):
    """A positional argument. In usage lines an optional argument is in brackets. `remedy` says what to do if a required
    one is missing."""

    def __init__(self, words: Sequence[str], *, remedy: str = "", **settings: Any) -> None:
        super().__init__(words, **settings)
        self.remedy = remedy

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the argument's words in the usage line."""
        name = self.make_metavar(ctx)
        return [name if self.required else f"[{name}]"]


def argument(name: str, *, required: bool = False, **settings: Any) -> Argument:
    """Declare a positional argument. Its value is None if it is not given."""
    return Argument([name], required=required, **settings)


def option(*words: str, **settings: Any) -> click.Option:
    """Declare an option with a value. If it is not given, the value is None or the `default`; () if it is
    `multiple`."""
    settings.setdefault("show_default", settings.get("default") not in (None, ""))
    return click.Option(words, **settings)


def flag(*words: str, **settings: Any) -> click.Option:
    """Declare an option without a value. It is True if it is given."""
    return click.Option(words, is_flag=True, default=False, **settings)


class OptionGroup(NamedTuple):
    """Options that a function takes as one value, `name`. `run` names the class or function that makes it of them."""

    name: str
    run: str
    options: "Sequence[click.Parameter | OptionGroup]"


Params = Sequence[click.Parameter | OptionGroup]


class Command(click.Command):
    """A command. `run` names its function. The first paragraph of `text` is its summary."""

    def __init__(self, name: str, text: str, params: Params = (), *, run: str, into: str = "") -> None:
        super().__init__(name, help=text, short_help=summary(text), params=[*_each(params)], callback=self._run)
        self.run = run
        self.takes = f"{run.partition(':')[0]}:{into}" if into else run
        """Names what takes the options: the function, or the class that the function takes."""
        self.grouped = params

    def _run(self, **values: Any) -> Any:
        _join(self.grouped, values)
        function = load(self.run)
        return function(**values) if self.takes == self.run else function(load(self.takes)(**values))


def _each(params: Params) -> Iterator[click.Parameter]:
    for each in params:
        yield from _each(each.options) if isinstance(each, OptionGroup) else (each,)


def _join(params: Params, values: dict[str, Any]) -> None:
    """Put one value in the place of those of a group's options."""
    for each in params:
        if isinstance(each, OptionGroup):
            _join(each.options, values)
            parts = {str(one.name): values.pop(str(one.name)) for one in each.options}
            values[each.name] = load(each.run)(**parts)


class Group(click.Group):
    """A command with subcommands. With `run`, it is also a command by itself."""

    def __init__(
        self,
        name: str,
        text: str,
        commands: Sequence[click.Command],
        *,
        example: str = "",
        params: Sequence[click.Parameter] = (),
        run: str | None = None,
    ) -> None:
        super().__init__(
            name,
            help=text,
            short_help=summary(text),
            epilog=f"Example:  {example}" if example else None,
            commands=commands,
            params=[*params],
            callback=self._run if run is not None else None,
            invoke_without_command=run is not None,
            no_args_is_help=False,
        )
        self.run = run

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands' names, in the order in which they are declared."""
        return [*self.commands]

    def _run(self, **values: Any) -> Any:
        if self.run is None or click.get_current_context().invoked_subcommand is not None:
            return None
        return load(self.run)(**values)


def load(name: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def summary(text: str) -> str:
    """Return the first paragraph of a help, on one line."""
    return " ".join(text.partition("\n\n")[0].split())
