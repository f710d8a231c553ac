"""The commands, as typer reads them; each is in a small module of `cli.commands`, named in the table below.

A module is loaded when its command is used, or when all are listed. It imports only what `--help` needs; the rest is
imported when the command runs, as the data plane and the schema load slowly. Help is plain text, as tables and colours
would take longer than all the rest.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from accredit.base.terminal import two_lines
from accredit.cli.dashes import CommandAfterDashes, NameAndCommandAfterDashes
from accredit.cli.standard import is_full, without_reader
from accredit.errors import ConfigurationError

_MODULES = {
    "demo": "demo",
    "serve": "serve",
    "reload": "reload",
    "wrap": "wrap",
    "connect": "connect",
    "install": "install",
    "uninstall": "install",
    "up": "up",
    "doctor": "doctor",
    "drill": "drill",
    "init": "init",
    "add": "add",
    "check": "check",
    "pin": "pin",
    "call": "call",
    "grant": "grant",
    "inspect": "inspect",
    "revoke": "revoke",
    "verify": "verify",
    "desk": "desk",
    "asked": "asks",
    "approve": "asks",
    "deny": "asks",
    "grants": "grants",
    "names": "grants",
    "suggest": "suggest",
    "replay": "replay",
    "keys": "keys",
    "token": "token",
    "log": "log",
    "store": "store",
    "config": "config",
    "completion": "completion",
}
"""Each command, and its module in `cli.commands`, where it is the function of its name or the group `NAME_app`."""

_CLASSES: Mapping[str, type[TyperCommand]] = {
    **dict.fromkeys(("serve", "up", "wrap", "init", "check"), CommandAfterDashes),
    **dict.fromkeys(("add", "completion"), NameAndCommandAfterDashes),
}
"""Commands that take another program's command line."""


_WIDEST = 1_000
"""The widest help, in columns."""


class _Commands(Mapping[str, Any]):
    """The commands by name, each loaded on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, _MODULES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _Group(TyperGroup):
    """A group that needs no pydantic to see that `--help` was not given."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option `--help`, with the default False instead of None."""
        option: Any = super().get_help_option(ctx)
        option.default = False
        return option


class _Accredit(_Group):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Commands()


app = typer.Typer(
    name="accredit",
    cls=_Accredit,
    help="The trust layer of the Model Context Protocol: no call without a proof that a human allowed it, no malformed"
    " frame, and a signed record of every call.",
    epilog="Example:  accredit serve http://127.0.0.1:9000/mcp",
    add_completion=False,
    context_settings={"max_content_width": _WIDEST},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> int:
    """Run the command line and return the exit code. An error is two lines on stderr: what is wrong, and what to do."""
    command = get_command(app)
    try:
        code = command(sys.argv[1:], prog_name="accredit", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return without_reader()
    except OSError as error:
        return end_unprinted(error)
    except ConfigurationError as error:
        return _fail(error.what, error.remedy)
    except typer.TyperException as error:
        return _fail(_error_line(error), _help_for(error))
    except typer.Abort:
        return 1
    return code if isinstance(code, int) else 0


def end_unprinted(error: OSError) -> int:
    """Return the exit code of a command that could not print, with an error if somebody can read it. Raises other
    errors."""
    if isinstance(error, BrokenPipeError):
        return without_reader()
    if not is_full(error):
        raise error
    return _fail(f"can't write what was to be printed: {error.strerror}", "make room, or send it somewhere else")


def _load(name: str, module_name: str) -> Any:
    """Load a command from its module."""
    module = import_module(f"accredit.cli.commands.{module_name}")
    typed: typer.Typer | None = getattr(module, f"{name}_app", None)
    if typed is not None:
        typed.info.cls, typed.rich_markup_mode = _Group, None
        command: Any = get_group(typed)
    else:
        typed = typer.Typer(add_completion=False, rich_markup_mode=None)
        typed.command(cls=_CLASSES.get(name))(getattr(module, name))
        command = get_command(typed)
    command.name = name
    _summarize(command)
    return command


def _summarize(command: Any) -> None:
    """Use the first paragraph of each command's help as its summary."""
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    for inner in getattr(command, "commands", {}).values():
        _summarize(inner)


def _error_line(error: typer.TyperException) -> str:
    """Return an error on one line, without pydantic's prefix."""
    return " ".join(error.format_message().replace("Value error, ", "").split())


def _help_for(error: typer.TyperException) -> str:
    """Return a hint to the help of the intended command, as far as known."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "accredit"
    if command == "accredit":
        return "`accredit --help` lists the commands, COMMAND --help shows examples"
    return f"`{command} --help` says what there is, with an example"


def _fail(what: str, remedy: str) -> int:
    typer.echo(two_lines(what, remedy), err=True)
    return 2


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from accredit.base.version import version_text  # noqa: PLC0415 - for nothing else

        typer.echo(f"accredit {version_text()}")
        raise typer.Exit


@app.callback()
def _accredit(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and the commit.")
    ] = False,
) -> None: ...
