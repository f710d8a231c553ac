"""Implements `accredit completion`: installs or prints a shell's script, or prints candidates for a word.

The script runs `accredit completion SHELL -- WORDS`, with the words up to and including the one at the cursor. The
first line of the answer is `words`, or `files` to let the shell complete file names. Then each candidate has a line,
with a tab and its description (not for bash, which shows none). Rules:

- Shells must take answers as plain words only. A candidate that is not a plain word is left out.
- Nothing is run, and nothing is written without --install. A configuration is read only if it is a short regular file.
- Input that can't be understood has no candidates and no error: the person is still typing.

The scripts run the `accredit` of the PATH, never one in the current folder, and give the answers as plain words.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import click
from click.shell_completion import ShellComplete

from accredit.base.deferred import Deferred
from accredit.base.text import one_line
from accredit.cli.application import app
from accredit.cli.dashes import ProgramCommand
from accredit.cli.options import PLAIN_WORD
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from accredit.setup import completion as installing
else:
    installing = Deferred("accredit.setup.completion")  # a shell that asks for candidates waits

Shell = Literal["bash", "zsh", "fish"]

_BREAK = re.compile(r"[=:]+")
"""Matches the characters at which bash splits words, besides spaces."""


class Candidate(NamedTuple):
    """A candidate for the word at the cursor, and its description."""

    word: str
    meaning: str = ""


def start_completion(command: list[str] | None, *, shell: Shell, install: bool) -> int:
    """Run `accredit completion`; return the exit code. Raises `ConfigurationError`."""
    if install and command is not None:
        raise ConfigurationError("--install takes no words behind --", "leave one of the two out")
    if install:
        return installing.install_completion(shell, SCRIPTS[shell])
    if command is None:
        sys.stdout.write(SCRIPTS[shell])
        return 0
    found = candidates(command, shell)
    lines = ["files" if found is None else "words"]
    lines += [each.word if shell == "bash" else f"{each.word}\t{one_line(each.meaning)}" for each in found or ()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def candidates(words: Sequence[str], shell: Shell) -> list[Candidate] | None:
    """Return candidates for the last word, as the shell should insert them; None for file names."""
    *before, last = _join_words(words) if shell == "bash" else (words or [""])
    if "--" in before:
        return None if isinstance(_command_of(before[: before.index("--")]), ProgramCommand) else []
    if before and not before[0].startswith("-") and before[0] not in app.list_commands(click.Context(app)):
        return []  # it is not offered the commands once more
    found = ShellComplete(app, {}, "accredit", "").get_completions(before, last)
    if any(each.type != "plain" for each in found):
        return None
    option, equals, _ = last.partition("=")
    prefix = f"{option}=" if equals and option.startswith("-") else ""
    # Bash replaces only the part after the last word break.
    begins = max((each.end() for each in _BREAK.finditer(last)), default=0) if shell == "bash" else 0
    whole = [Candidate(f"{prefix}{each.value}", each.help or "") for each in found]
    return [each._replace(word=each.word[begins:]) for each in whole if PLAIN_WORD.fullmatch(each.word)]


def _command_of(words: Iterable[str]) -> click.Command:
    command: click.Command = app
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), word) or command
    return command


def _join_words(words: Sequence[str]) -> list[str]:
    """Rejoin words that bash has split at `=` and `:`."""
    joined: list[str] = []
    is_open = False
    for word in words or [""]:
        is_break = _BREAK.fullmatch(word) is not None
        if joined and (is_break or is_open):
            joined[-1] += word
        else:
            joined.append(word)
        is_open = is_break
    return joined


_BASH = r"""# bash completion of accredit: put this into ~/.bash_completion, or a file of /etc/bash_completion.d
_accredit() {
    local kind word
    COMPREPLY=()
    {
        IFS= read -r kind
        if [[ $kind == files ]]; then
            compopt -o default
        else
            while IFS= read -r word; do COMPREPLY+=("$word"); done
        fi
    } < <(command accredit completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _accredit accredit
"""

_ZSH = r"""#compdef accredit
# zsh completion of accredit: put this into a file _accredit of a folder of your fpath, or evaluate it in ~/.zshrc
_accredit() {
    local line
    local -a lines names shown
    lines=("${(@f)$(command accredit completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${lines[1]} == files ]]; then
        [[ $PREFIX == --*=* ]] && compset -P '--*='
        _files
        return
    fi
    for line in "${(@)lines[2,-1]}"; do
        names+=("${line%%$'\t'*}")
        line="${line%%$'\t'*}  ${line#*$'\t'}"
        shown+=("${line[1,COLUMNS-1]}")
    done
    (( $#names )) && compadd -l -d shown -a names
}
if [[ ${funcstack[1]} == _accredit ]]; then
    _accredit "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _accredit accredit
fi
"""

_FISH = r"""# fish completion of accredit: put this into ~/.config/fish/completions/accredit.fish
function __accredit_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (command accredit completion fish -- $words[2..-1] 2>/dev/null)
    if test "$lines[1]" = files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $lines[2..-1]
    end
end
complete -c accredit -e
complete -c accredit -f -a '(__accredit_candidates)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
