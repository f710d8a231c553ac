"""The commands, as typer reads them; each is one small module that is registered below.

Modules of commands import only what `--help` needs; what a command runs is imported when it runs, since the data
plane and the schema take longer to load than all of the help.
"""

import re
import sys
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.main import get_command

from accredit import __version__
from accredit.base.text import two_lines
from accredit.cli.commands.add import add
from accredit.cli.commands.asks import approve, asked, deny
from accredit.cli.commands.call import call
from accredit.cli.commands.check import check
from accredit.cli.commands.config import config_app
from accredit.cli.commands.connect import connect
from accredit.cli.commands.demo import demo
from accredit.cli.commands.desk import desk_app
from accredit.cli.commands.grant import grant
from accredit.cli.commands.grants import grants_app, names_app
from accredit.cli.commands.init import init
from accredit.cli.commands.inspect import inspect
from accredit.cli.commands.install import install, uninstall
from accredit.cli.commands.keys import keys_app
from accredit.cli.commands.log import log_app
from accredit.cli.commands.pin import pin
from accredit.cli.commands.reload import reload
from accredit.cli.commands.revoke import revoke
from accredit.cli.commands.serve import serve
from accredit.cli.commands.store import store_app
from accredit.cli.commands.token import token_app
from accredit.cli.commands.verify import verify
from accredit.cli.commands.wrap import wrap
from accredit.cli.dashes import CommandAfterDashes, NameAndCommandAfterDashes
from accredit.errors import ConfigurationError

_TAG = re.compile(r"(?<!\\)\[(?=[a-z/@#])")
"""What rich takes for the beginning of a tag."""

app = typer.Typer(
    name="accredit",
    help="The trust layer of the Model Context Protocol: no call without a proof that a human allowed it, no malformed"
    " frame, and a signed record of every call.",
    epilog="Example:  accredit serve http://127.0.0.1:9000/mcp",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command(cls=CommandAfterDashes)(serve)
app.command()(reload)
app.command(cls=CommandAfterDashes)(wrap)
app.command()(connect)
app.command()(install)
app.command()(uninstall)
app.command(cls=CommandAfterDashes)(init)
app.command(cls=NameAndCommandAfterDashes)(add)
app.command(cls=CommandAfterDashes)(check)
app.command()(pin)
app.command()(call)
app.command()(grant)
app.command()(inspect)
app.command()(revoke)
app.command()(verify)
app.add_typer(desk_app, name="desk")
app.command()(asked)
app.command()(approve)
app.command()(deny)
app.add_typer(grants_app, name="grants")
app.add_typer(names_app, name="names")
app.add_typer(keys_app, name="keys")
app.add_typer(token_app, name="token")
app.add_typer(log_app, name="log")
app.add_typer(store_app, name="store")
app.add_typer(config_app, name="config")


def main() -> int:
    """Run the command line and return the exit code. An error is two lines on stderr: what is wrong, and what to do."""
    _fold(app)
    command = get_command(app)
    _escape(command)
    try:
        code = command(sys.argv[1:], prog_name="accredit", standalone_mode=False)
    except ConfigurationError as error:
        return _fail(error.what, error.remedy)
    except typer.TyperException as error:
        return _fail(_said(error), _help_for(error))
    except typer.Abort:
        return 1
    return code if isinstance(code, int) else 0


def _fold(typed: typer.Typer) -> None:
    """Unfold the paragraphs of the commands' docstrings: their lines end where the code's do, help is as wide as the
    terminal."""
    for command in typed.registered_commands:
        paragraphs = cleandoc(getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    for group in typed.registered_groups:
        if group.typer_instance is not None:
            _fold(group.typer_instance)


def _escape(command: Any) -> None:
    """Have nothing in the help of a command, and of those below it, taken for markup: `[servers]` would be gone."""
    for each in (command, *command.params):
        if getattr(each, "help", None):
            each.help = _TAG.sub(r"\\[", each.help)
    for inner in getattr(command, "commands", {}).values():
        _escape(inner)


def _said(error: typer.TyperException) -> str:
    """Return what is wrong, on one line, without the words that pydantic puts before every such error."""
    return " ".join(error.format_message().replace("Value error, ", "").split())


def _help_for(error: typer.TyperException) -> str:
    """Return the hint to the help of the command that was meant, as far as that is known."""
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
        typer.echo(f"accredit {__version__}")
        raise typer.Exit


@app.callback()
def _accredit(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...
