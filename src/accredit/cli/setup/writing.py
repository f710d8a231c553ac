"""What `accredit init` runs: asks a server, and writes a configuration and a key. Never replaces a file.

In this order, so that a failure leaves nothing half done:

1. none of the files is there yet;
2. the server lists its tools, run as the configuration will run it;
3. the key is written, then the configuration; a key without a configuration is taken away again.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from accredit.cli.delegations.paper import print_json, say
from accredit.cli.setup.asking import ask_upstream
from accredit.cli.setup.suggesting import READING, Suggestion, suggestion
from accredit.cli.setup.toml import configuration
from accredit.cli.text import one_line
from accredit.config.attest import GATEWAY_KEY_FILE
from accredit.config.load import DEFAULT_FILE
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.keys import make_key, public_path, write_file, write_key
from accredit.ratify.needs import clock


def set_up(upstream: HttpUpstream | StdioUpstream, folder: Path, *, as_json: bool) -> int:
    """Writes the files into `folder` and prints what to do next. Raises `ConfigurationError`."""
    file, key_file = folder / DEFAULT_FILE, folder / GATEWAY_KEY_FILE
    files = (file, key_file, public_path(key_file))
    for each in files:
        if os.path.lexists(each):
            raise ConfigurationError(f"{each} exists already", "name another folder with --dir, or move it away")
    if isinstance(upstream, StdioUpstream):
        _make(folder)  # it runs there
        upstream = StdioUpstream(_portable(upstream.command, folder), cwd=str(folder))
    offer = ask_upstream(upstream)
    _make(folder)
    suggestions = [suggestion(tool, offer.server) for tool in offer.tools]
    text = configuration(upstream, offer.server, suggestions).encode()
    write_key(key_file, make_key("gateway", "gateway", clock()))
    try:
        # A URL with a query may hold a key.
        write_file(file, text, private=isinstance(upstream, HttpUpstream) and "?" in upstream.url)
    except ConfigurationError:
        for each in files[1:]:
            each.unlink(missing_ok=True)
        raise
    _report(files, suggestions, _next_steps(folder, suggestions), as_json=as_json)
    return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"can't make {folder}: {error.strerror}", "name another folder with --dir") from None


def _portable(command: Sequence[str], folder: Path) -> tuple[str, ...]:
    """A command for another folder: what names a file here is given by its full path there."""
    if folder.resolve() == Path.cwd().resolve():
        return tuple(command)
    program, *arguments = command
    program = os.path.abspath(program) if os.path.dirname(program) else program
    return (program, *(os.path.abspath(each) if os.path.isfile(each) else each for each in arguments))


def _next_steps(folder: Path, suggestions: Sequence[Suggestion]) -> list[str]:
    """Three command lines for a shell: keys, a delegation of what only reads, and the gateway."""
    scopes = [each.scope for each in suggestions]
    first = READING if READING in scopes or not scopes else scopes[0]
    owner, agent, out, file = (_word(folder / name) for name in _NAMES)
    return [
        f"accredit keys new {owner} --kind human --name Owner && accredit keys new {agent} --kind agent --name Agent",
        f"accredit grant --issuer {owner} --agent {agent}.pub --scope {shlex.quote(first)} --expires 7d --out {out}",
        f"accredit serve --config {file}",
    ]


_NAMES = ("owner.key", "agent.key", "delegation.json", DEFAULT_FILE)


def _word(path: Path) -> str:
    return shlex.quote(str(path))


def _report(files: Sequence[Path], suggestions: Sequence[Suggestion], steps: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        tools = [{"name": each.tool, "scope": each.scope, "sensitive": each.sensitive} for each in suggestions]
        print_json({"files": [str(file) for file in files], "tools": tools, "next": steps})
        return
    sensitive = sum(each.sensitive for each in suggestions)
    say(f"wrote {files[0]}: {len(suggestions)} tools, {sensitive} of them sensitive. Read it before you go on.")
    say(f"wrote {files[1]}, which only you can read, and {files[2]}")
    say("")
    say("next:")
    for step in steps:
        typer.echo(f"  {one_line(step)}")  # as it is: a line that is folded could not be copied
