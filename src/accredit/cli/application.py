"""The commands by name. Each is declared in a module of `cli.commands`, which the table below names.

A module is loaded when its command is used, or when all commands are listed.
"""

import sys
from importlib import import_module

import click

from accredit.base.standard import open_closed_streams
from accredit.base.terminal import for_stderr, two_lines
from accredit.cli.declare import Argument
from accredit.cli.standard import is_full, without_reader
from accredit.errors import ConfigurationError, DeskError

_MODULES = {
    name: module
    for module, names in (
        ("running", "demo serve reload wrap connect"),
        ("hosts", "install uninstall up doctor drill"),
        ("setting_up", "init add check pin"),
        ("calls", "call grant inspect revoke verify"),
        ("desk", "desk asked approve deny connect-app grants names"),
        ("log", "suggest replay"),
        ("keys", "keys token"),
        ("log", "log"),
        ("config", "store config completion"),
    )
    for name in names.split()
}
"""Each command, and its module in `cli.commands`. There the command has its own name."""

_WIDEST = 1_000
"""The most columns of a help text."""


class Accredit(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names, in the order of the help."""
        return [*_MODULES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of this name."""
        module = _MODULES.get(cmd_name)
        return (
            None
            if module is None
            else getattr(import_module(f"accredit.cli.commands.{module}"), cmd_name.replace("-", "_"))
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that a command line begins with. Raises `click.NoSuchCommand`, which names similar
        commands."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=_MODULES, ctx=ctx) from None


def _show_version(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        from accredit.base.version import version_text  # noqa: PLC0415 - for nothing else

        click.echo(f"accredit {version_text()}")
        ctx.exit()


app = Accredit(
    name="accredit",
    help="The trust layer of the Model Context Protocol: no call without a proof that a human allowed it, no malformed"
    " frame, and a signed record of every call.",
    epilog="Example:  accredit serve http://127.0.0.1:9000/mcp",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            help="Print the version and the commit.",
        )
    ],
    no_args_is_help=False,
    context_settings={"max_content_width": _WIDEST},
)


def main() -> int:
    """Run the command line and return the exit code. An error is two lines on stderr: what is wrong, and what to do."""
    open_closed_streams()
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return without_reader()
    except OSError as error:
        return _end_unprinted(error)
    except ConfigurationError as error:
        return _fail(error.what, error.remedy)
    except DeskError as error:
        click.echo(for_stderr(f"error: {error.reason}"), err=True)
        return 1
    except click.ClickException as error:
        return _fail(_error_line(error), _help_for(error))
    except click.Abort:
        return 1
    return code


def _run(words: list[str]) -> int:
    try:
        with app.make_context("accredit", words) as context:
            code = app.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return code if isinstance(code, int) else 0


def _end_unprinted(error: OSError) -> int:
    """Return the exit code of a command that could not print its output. Print an error if somebody can read it. Raises
    `error` again if it is about something else."""
    if isinstance(error, BrokenPipeError):
        return without_reader()
    if not is_full(error):
        raise error
    return _fail(f"can't write what was to be printed: {error.strerror}", "make room, or send it somewhere else")


def _error_line(error: click.ClickException) -> str:
    """Return an error on one line, without the prefix "Value error, "."""
    return " ".join(error.format_message().replace("Value error, ", "").split())


def _help_for(error: click.ClickException) -> str:
    """Return the remedy for a missing argument, else a hint that names the help of the command that was meant, as far
    as that is known."""
    if isinstance(error, click.MissingParameter) and isinstance(error.param, Argument) and error.param.remedy:
        return error.param.remedy
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "accredit"
    if command == "accredit":
        return "`accredit --help` lists the commands, COMMAND --help shows examples"
    return f"`{command} --help` says what there is, with an example"


def _fail(what: str, remedy: str) -> int:
    click.echo(two_lines(what, remedy), err=True)
    return 2
