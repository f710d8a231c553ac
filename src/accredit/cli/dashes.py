"""Parses command lines of the form `accredit serve [OPTIONS] -- COMMAND...`. No I/O.

What follows `--` belongs to another program, and is split off before options are parsed. Some hosts drop the `--`.
Then the command begins with the first word that is neither an option nor an option's value, and the rest belongs to
it, as with `env` or `nice`; but:

1. where a URL is also accepted, a single word is a URL, and so is one that contains `://`;
2. a later word that is also one of our options is refused, as ambiguous: a `--config` that went to the wrong program
   would leave a gateway that checks nothing.
"""

from typing import Any

from typer import Context
from typer.core import TyperCommand

from accredit.errors import ConfigurationError

_META = "accredit.command"


class CommandAfterDashes(TyperCommand):
    """A command that takes another program's command line after `--`."""

    own_words = 0
    """How many words of its own precede it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Split off what follows the first `--`, or a command without one, and parse what precedes it."""
        at = args.index("--") if "--" in args else len(args)
        begins = self._first_word(ctx, args[:at])
        for _ in range(self.own_words):
            after = None if begins is None else self._first_word(ctx, args[begins + 1 : at])
            begins = None if begins is None or after is None else begins + 1 + after
        if begins is not None and self._is_command(ctx, args[begins:at]):
            self._check_unambiguous(ctx, args, begins)
            ctx.meta[_META] = args[begins:]
            args = args[:begins]
        elif at < len(args):
            ctx.meta[_META] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]

    def _first_word(self, ctx: Any, args: list[str]) -> int | None:
        """Return the index of the first word that is neither an option nor an option's value, or None."""
        options = self._options(ctx)
        at = 0
        while at < len(args):
            word = args[at]
            if not word.startswith("-") or word == "-":
                return at
            takes_value = "=" not in word and not getattr(options.get(word), "is_flag", True)
            at += 2 if takes_value else 1
        return None

    def _is_command(self, ctx: Any, words: list[str]) -> bool:
        """Return whether words are a command; the first is not an option (rule 1)."""
        if all(param.param_type_name == "option" for param in self.get_params(ctx)):
            return True
        return "://" not in words[0] and self._first_word(ctx, words[1:]) is not None

    def _check_unambiguous(self, ctx: Any, args: list[str], begins: int) -> None:
        """Check that no later word is one of our options (rule 2). Raises `ConfigurationError`."""
        own = self._options(ctx)
        for word in args[begins + 1 :]:
            name = word.partition("=")[0]
            if name in own or name == "--":
                what = f"{name} behind {args[begins]!a:.60} may be meant for either program"
                remedy = f"write `{ctx.command_path} [OPTIONS] -- COMMAND...`: what is behind -- is the command's"
                raise ConfigurationError(what, remedy)

    def _options(self, ctx: Any) -> dict[str, Any]:
        return {name: param for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}


class NameAndCommandAfterDashes(CommandAfterDashes):
    """Also takes a name before the command."""

    own_words = 1


def command_of(ctx: Context) -> list[str] | None:
    """Return the words of the command, or None if there is none."""
    return ctx.meta.get(_META)
