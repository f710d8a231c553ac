"""What `accredit init` runs: asks a server, and writes a configuration and a key. Never replaces a file.

In this order, so that a failure leaves nothing half done:

1. none of the files is there yet, and nothing is in the way of the folder;
2. the server lists what it offers, run where the configuration will run it;
3. the key is written, then the lock of what its tools say, then the configuration; without a configuration the others
   are taken away again.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import typer

from accredit.base.clock import unix_seconds
from accredit.base.text import one_line
from accredit.cli.actions.config_text import configuration
from accredit.cli.actions.output import print_json, say, tell
from accredit.cli.actions.pin import definitions_of, lock_text
from accredit.cli.actions.suggest_scopes import PROMPT, READING, RESOURCE, Suggestion, suggestions
from accredit.cli.asking.knocking import shown
from accredit.cli.asking.listing import Offer
from accredit.cli.asking.server import ask_upstream
from accredit.config.attest import GATEWAY_KEY_FILE
from accredit.config.load import DEFAULT_FILE
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.keys import make_key, public_path, write_file, write_key
from accredit.pins import LOCK_FILE, UPSTREAM


class Plan(NamedTuple):
    """What to ask, where the files go, `upstream.headers` as they are to be written, how many seconds to wait, and the
    server's name in `[servers]` ("": it is that of `[upstream]`)."""

    upstream: HttpUpstream | StdioUpstream
    folder: Path
    headers: Mapping[str, str | Mapping[str, str]] = {}
    seconds: float | None = None
    server: str = ""


def set_up(plan: Plan, *, as_json: bool) -> int:
    """Write the files into the folder, and print what to do next. Raises `ConfigurationError`."""
    folder = plan.folder
    file, key_file = folder / DEFAULT_FILE, folder / GATEWAY_KEY_FILE
    files = (file, key_file, public_path(key_file), folder / LOCK_FILE)
    for each in files:
        if os.path.lexists(each):
            raise ConfigurationError(f"{each} exists already", "name another folder with --dir, or move it away")
    nearest = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise _no_folder(folder, f"{nearest} is a file")
    offer, upstream = ask_upstream(plan.upstream, follow=True, seconds=plan.seconds)
    lock = lock_text({plan.server or UPSTREAM: definitions_of(offer)})
    _make(folder)
    suggested = suggestions(offer, plan.server)
    text = configuration(placed(upstream, folder), offer, suggested, plan.headers, plan.server).encode()
    write_key(key_file, make_key("gateway", "gateway", unix_seconds()))
    try:
        write_file(files[-1], lock)
        if upstream != plan.upstream and isinstance(upstream, HttpUpstream):
            tell(f"the server is at {shown(upstream.url)}: the configuration names that")
        # A URL with a query may hold a key.
        write_file(file, text, private=isinstance(upstream, HttpUpstream) and "?" in upstream.url)
    except ConfigurationError:
        for each in files[1:]:
            each.unlink(missing_ok=True)
        raise
    _report(files, offer, suggested, _next_steps(folder, offer, suggested), as_json=as_json)
    return 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_folder(folder, error.strerror or type(error).__name__) from None


def _no_folder(folder: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"can't make {folder}: {why}", "name another folder with --dir")


def placed(upstream: HttpUpstream | StdioUpstream, folder: Path) -> HttpUpstream | StdioUpstream:
    """Return the upstream as it is to be written: a command goes on running in this folder, wherever its configuration
    is."""
    here = Path.cwd()
    if isinstance(upstream, HttpUpstream) or folder.resolve() == here.resolve():
        return upstream
    return replace(upstream, cwd=str(here))


def _next_steps(folder: Path, offer: Offer, suggested: Sequence[Suggestion]) -> list[str]:
    """Return three command lines for a shell: keys, a delegation of what only reads, and the gateway."""
    owner, agent, out, file = (word(folder / name) for name in _NAMES)
    scopes = first_scopes(offer, suggested)
    return [
        f"accredit keys new {owner} --kind human --name Owner && accredit keys new {agent} --kind agent --name Agent",
        f"accredit grant --issuer {owner} --agent {agent}.pub {scopes} --expires 7d --out {out}",
        f"accredit serve --config {file}",
    ]


def first_scopes(offer: Offer, suggested: Sequence[Suggestion]) -> str:
    """Return the options of `accredit grant` for the scopes to grant first: of what only reads; if nothing says that it
    does, of one tool."""
    scopes = [each.scope for each in suggested]
    if READING in scopes:
        scopes = [READING]
    if not scopes:
        kinds = [RESOURCE] if offer.resources or offer.templates else []
        return _scopes([*kinds, *([PROMPT] if offer.prompts else [])] or [READING])
    return _scopes(scopes[:1])


def _scopes(scopes: Sequence[str]) -> str:
    return " ".join(f"--scope {shlex.quote(scope)}" for scope in scopes)


_NAMES = ("owner.key", "agent.key", "delegation.json", DEFAULT_FILE)


def word(path: Path) -> str:
    """Return a path as a word of a command line."""
    return shlex.quote(str(path))


def _report(
    files: Sequence[Path], offer: Offer, suggested: Sequence[Suggestion], steps: Sequence[str], *, as_json: bool
) -> None:
    if as_json:
        tools = [{"name": each.tool, "scope": each.scope, "sensitive": each.sensitive} for each in suggested]
        others = {"resources": len(offer.resources) + len(offer.templates), "prompts": len(offer.prompts)}
        print_json({"files": [str(file) for file in files], "tools": tools, **others, "next": steps})
        return
    say(f"wrote {files[0]}: {counted(offer, suggested)}. Read it before you go on.")
    say(f"wrote {files[1]}, which only you can read, and {files[2]}")
    say(f"wrote {files[3]}: what these tools say of themselves; a gateway refuses calls of one that changes")
    say("")
    say("next:")
    for step in steps:
        typer.echo(f"  {one_line(step)}")  # unfolded: a folded line could not be copied


def counted(offer: Offer, suggested: Sequence[Suggestion]) -> str:
    """Return how much a server offers, in words."""
    counts = [
        f"{_number(len(suggested), 'tool')}, {sum(each.sensitive for each in suggested) or 'none'} of them sensitive"
    ]
    if offer.only_some:
        counts.append(f"{len(offer.only_some)} that only some clients see")
    resources = len(offer.resources) + len(offer.templates)
    counts += [_number(resources, "resource")] if resources else []
    counts += [_number(len(offer.prompts), "prompt")] if offer.prompts else []
    return ", ".join(counts)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
