"""Parses command lines of the form `accredit serve [OPTIONS] -- COMMAND...`. No I/O.

What follows `--` belongs to another program, and is split off before options are parsed. Some hosts drop the `--`. Then
the command begins with the first word that is neither an option nor an option's value, and the rest belongs to it, as
with `env` or `nice`. There are two exceptions:

- where a URL is also accepted, a single word is a URL, and so is a first word that contains `://`;
- if a later word is also one of our options, the command line is refused as ambiguous. If a `--config` went to the
  wrong program, the gateway would check nothing.
"""

import click

from accredit.cli.declare import Command, Params
from accredit.errors import ConfigurationError


class ProgramCommand(Command):
    """A command that takes another program's command line after `--`. Its function gets these words as `command`, or
    None if there are none. `words_before` is how many arguments of this command itself precede them."""

    def __init__(self, name: str, text: str, params: Params, *, run: str, words_before: int = 0) -> None:
        super().__init__(name, text, params, run=run)
        self._words_before = words_before

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split off the other program's command line, which follows the first `--` or has none. Parse what precedes
        it."""
        at = args.index("--") if "--" in args else len(args)
        command: list[str] | None = None
        begins = self._first_word(ctx, args[:at])
        for _ in range(self._words_before):
            after = None if begins is None else self._first_word(ctx, args[begins + 1 : at])
            begins = None if begins is None or after is None else begins + 1 + after
        if begins is not None and self._is_command(ctx, args[begins:at]):
            if not ctx.resilient_parsing:
                self._check_unambiguous(ctx, args, begins)
            command, args = args[begins:], args[:begins]
        elif at < len(args):
            command, args = args[at + 1 :], args[:at]
        left = super().parse_args(ctx, args)
        ctx.params["command"] = command
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]

    def _first_word(self, ctx: click.Context, args: list[str]) -> int | None:
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

    def _is_command(self, ctx: click.Context, words: list[str]) -> bool:
        """Return whether these words are another program's command line. The first of them is not an option."""
        if all(param.param_type_name == "option" for param in self.get_params(ctx)):
            return True
        return "://" not in words[0] and self._first_word(ctx, words[1:]) is not None

    def _check_unambiguous(self, ctx: click.Context, args: list[str], begins: int) -> None:
        """Check that no later word is one of our options. Raises `ConfigurationError`."""
        own = self._options(ctx)
        for word in args[begins + 1 :]:
            name = word.partition("=")[0]
            if name in own or name == "--":
                what = f"{name} behind {args[begins]!a:.60} may be meant for either program"
                remedy = f"write `{ctx.command_path} [OPTIONS] -- COMMAND...`: what is behind -- is the command's"
                raise ConfigurationError(what, remedy)

    def _options(self, ctx: click.Context) -> dict[str, click.Parameter]:
        return {name: param for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)}
