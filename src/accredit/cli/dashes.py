"""Command lines of the form `accredit serve [OPTIONS] -- COMMAND...`. No I/O.

What comes after `--` is another program's business: it is taken away before options are looked for.
"""

from typing import Any

from typer import Context
from typer.core import TyperCommand

_META = "accredit.command"


class CommandAfterDashes(TyperCommand):
    """A command that takes another program's command line after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keeps what is after the first `--`, and parses what is before it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_META] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def command_of(ctx: Context) -> list[str] | None:
    """The words after `--`, or None where there is no `--`."""
    return ctx.meta.get(_META)
