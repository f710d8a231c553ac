"""Implements `accredit init`: asks a server, and writes a configuration and a key. Never replaces a file.

The steps come in this order, so that a failure leaves nothing half done:

1. check that none of the files exists, and that the folder can be made;
2. list what the server offers, or read the document of an API or agent. A server is run from the folder from which the
   configuration will run it;
3. write the key, then the lock of the tools' definitions (an API or agent has none), then the configuration. If that
   fails, the files already written are removed.

If the command is killed, it may leave the key and the lock without a configuration. `accredit up` continues from there:
it keeps an intact key, and a lock that equals the one it would write (`Prepared.write`).
"""

import base64
import os
import secrets
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accredit.asking.listing import ServerListing
from accredit.asking.probe import without_query
from accredit.asking.reaching import Reach, upstream_of
from accredit.asking.server import ask_upstream
from accredit.base.files import SHARED_FOLDER, make_folder
from accredit.config.attest import GATEWAY_KEY_FILE
from accredit.config.load import DEFAULT_FILE, load
from accredit.config.schema import Gateway
from accredit.config.servers import check_server_name
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.hosts.credentials import secret_parts, url_holds_secret
from accredit.keys import public_path, read_file, write_file
from accredit.limits import MAX_LOCK_BYTES
from accredit.pins.lock import LOCK_FILE, UPSTREAM
from accredit.refusals import oauth_hosts
from accredit.rounds.sealing import KEY_BYTES
from accredit.setup.config_text import CLUSTER_KEYS_FILE, Agent, Api, Described, McpServer, configuration, oauth_tables
from accredit.setup.documents import check_served, find_described, named_document
from accredit.setup.own_keys import kept_key
from accredit.setup.pin import definitions_of, lock_text
from accredit.signing.suggest_scopes import suggestions
from accredit.terminal.output import QUIET, print_result, say, say_whole, tell


class InitPlan(NamedTuple):
    """What to set up: the server and how it is reached, the folder, the server's name in `[servers]` ("" if it goes
    into `[upstream]`), the gateway's port, and its URL for hosts that can only log in ("": these are not let in)."""

    upstream: HttpUpstream | StdioUpstream
    folder: Path
    reach: Reach = Reach()
    server: str = ""
    port: int = Gateway().port
    oauth: str = ""

    @property
    def more_files(self) -> Sequence[tuple[Path, bytes, bool]]:
        """The files that are written besides `files`: with `oauth`, a key that seals rows of the store. The boolean
        says whether the file is private."""
        key = base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"
        return [(self.folder / CLUSTER_KEYS_FILE, key, True)] if self.oauth else []

    @property
    def files(self) -> tuple[Path, Path, Path, Path]:
        """The paths of the configuration, the key, its public half, and the lock."""
        return *_files_of(self.folder), self.folder / LOCK_FILE


def _files_of(folder: Path) -> tuple[Path, Path, Path]:
    key = folder / GATEWAY_KEY_FILE
    return folder / DEFAULT_FILE, key, public_path(key)


def run_init(
    *,
    url: str | None,
    command: list[str] | None,
    server: str,
    folder: Path,
    openapi: Path | str | None,
    agent_card: Path | str | None,
    proxy: str | None,
    oauth: str,
    reach: Reach,
) -> int:
    """Run `accredit init`; return the exit code. Raises `ConfigurationError`."""
    if server:
        check_server_name(server, "--server")
    document = named_document(openapi, agent_card, command, proxy)
    if document is not None:
        if not server:
            raise ConfigurationError("an HTTP API or an agent has no name of its own", "give it one: --server NAME")
        if oauth:
            raise ConfigurationError("--oauth is for MCP servers", "write [oauth] into the file yourself")
        _check_free(folder, _files_of(folder))
        found = find_described(server, document, url, proxy, reach)
        return _set_up_described(found, folder)
    if oauth:  # a wrong URL is told before the server is asked
        load(folder / DEFAULT_FILE, {}, {}, content=oauth_tables(oauth).encode())
    upstream = upstream_of(url, command, reach)
    plan = InitPlan(upstream, folder, reach, server, oauth=oauth)
    return set_up(plan)


def set_up(plan: InitPlan) -> int:
    """Write the files into the folder, and print what to do next. Raises `ConfigurationError`."""
    _check_free(plan.folder, [*plan.files, *(path for path, *_ in plan.more_files)])
    made = Prepared.asked(plan)
    made.write()
    _report(made.found, plan.files, plan)
    return 0


def _check_free(folder: Path, files: Iterable[Path]) -> None:
    """Check that none of the files exists, and that the folder can be made (step 1)."""
    for each in files:
        if os.path.lexists(each):
            raise ConfigurationError(f"{each} exists already", "name another folder with --dir, or move it away")
    nearest = next(each for each in (folder.absolute(), *folder.absolute().parents) if os.path.exists(each))
    if not nearest.is_dir():
        raise _no_folder(folder, f"{nearest} is a file")


def _set_up_described(found: Api | Agent, folder: Path) -> int:
    """Write the files for an HTTP API or an agent, and print what to do next. Raises `ConfigurationError`."""
    file, key, _ = files = _files_of(folder)
    text = configuration(found).encode()
    check_served(text, file, found.name)
    make_folder(folder, SHARED_FOLDER)
    _write([(file, text, url_holds_secret(found.url))], _write_key(key))
    _report(found, files, None)
    return 0


class Prepared(NamedTuple):
    """What a server offers, and the contents of the files for it."""

    plan: InitPlan
    found: McpServer
    lock: bytes
    text: bytes

    @classmethod
    def asked(cls, plan: InitPlan) -> "Prepared":
        """Ask the server (step 2), and make the contents of the files. Raises `ConfigurationError`."""
        offer, upstream = ask_upstream(plan.upstream, follow=True, seconds=plan.reach.timeout)
        lock = lock_text({plan.server or UPSTREAM: definitions_of(offer)})
        found = found_server(plan.server, upstream, offer, plan.folder, plan.reach)
        text = configuration(found, plan.port) + (oauth_tables(plan.oauth) if plan.oauth else "")
        return cls(plan, found, lock, text.encode())

    def write(self) -> None:
        """Write the files (step 3). Raises `ConfigurationError` if one exists, except for a key and a lock from an
        earlier run."""
        file, key, _, lock = self.plan.files
        make_folder(self.plan.folder, SHARED_FOLDER)
        keys = _write_key(key)
        upstream = self.found.upstream
        if upstream != self.plan.upstream and isinstance(upstream, HttpUpstream):
            tell(f"the server is at {without_query(upstream.url)}: the configuration names that")
        locks = [] if _holds(lock, self.lock) else [(lock, self.lock, False)]
        _write([*locks, *self.plan.more_files, (file, self.text, _may_hold_secret(upstream))], keys)


def _write(files: Iterable[tuple[Path, bytes, bool]], keys: list[Path]) -> None:
    """Write new files; the boolean of each says whether only its owner may read it. If one can't be written, remove the
    others and the keys. Raises `ConfigurationError`."""
    written = keys
    try:
        for path, data, private in files:
            write_file(path, data, private=private)
            written.append(path)
    except ConfigurationError:
        for each in written:
            each.unlink(missing_ok=True)
        raise


def _write_key(path: Path) -> list[Path]:
    """Write the gateway's key, and return each file written. An existing key is kept if it is a gateway's."""
    missing = [each for each in (path, public_path(path)) if not os.path.lexists(each)]
    kept_key(path, "gateway", "gateway")
    return missing


def _may_hold_secret(upstream: HttpUpstream | StdioUpstream) -> bool:
    """Return whether a server's URL or command may contain a credential."""
    if isinstance(upstream, HttpUpstream):
        return url_holds_secret(upstream.url)
    return any(secret for _, secret in secret_parts(upstream.command))


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and read_file(path, MAX_LOCK_BYTES).data == data


def _no_folder(folder: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"can't make {folder}: {why}", "name another folder with --dir")


def found_server(
    name: str, upstream: HttpUpstream | StdioUpstream, offer: ServerListing, folder: Path, reach: Reach
) -> McpServer:
    """Return a server as it is written to a file in `folder`. If it is a command, it will run in the current folder,
    wherever the configuration is."""
    here = Path.cwd()
    if isinstance(upstream, StdioUpstream) and os.path.realpath(folder) != os.path.realpath(here):
        upstream = replace(upstream, cwd=str(here))
    return McpServer(name, upstream, reach.configured, offer, suggestions(offer, name))


def _next_steps(folder: Path, scopes: str) -> list[str]:
    """Return three shell lines that make keys, delegate `scopes`, start the gateway."""
    owner, agent, out, file = (word(folder / name) for name in _NAMES)
    return [
        f"accredit keys new {owner} --kind human --name Owner && accredit keys new {agent} --kind agent --name Agent",
        f"accredit grant --issuer {owner} --agent {agent}.pub {scopes} --expires 7d --out {out}",
        f"accredit serve --config {file}",
    ]


def scope_options(scopes: Sequence[str]) -> str:
    """Return the `accredit grant` options for these scopes."""
    return " ".join(f"--scope {shlex.quote(scope)}" for scope in scopes)


_NAMES = ("owner.key", "agent.key", "delegation.json", DEFAULT_FILE)


def word(path: Path) -> str:
    """Quote a path as a shell word."""
    return shlex.quote(str(path))


def _report(found: Described, files: Sequence[Path], plan: InitPlan | None) -> None:
    """Print what was written, and what comes next. `plan` is that of an MCP server."""
    more = [path for path, *_ in plan.more_files] if plan is not None else []
    steps = _next_steps(files[0].parent, scope_options(found.first_scopes))
    named = {} if plan is not None else {"server": found.name}
    print_result({"files": [*map(str, (*files, *more))], **named, **found.members(), "next": steps})
    say(f"wrote {files[0]}: {found.summary}. Read it before you go on.")
    say(f"wrote {files[1]}, which only you can read, and {files[2]}")
    for each in files[3:]:
        say(f"wrote {each}: what these tools say of themselves; a gateway refuses calls of one that changes")
    for each in more:
        say(f"wrote {each}, which only you can read: it seals the keys of hosts that log in. Don't lose it")
    if not isinstance(found, McpServer):
        kind, proxied = found.kind.rpartition(" ")[2], "of the admin listener: docs/how-to/api-behind-a-proxy.md"
        own = f"the {kind} is at {without_query(found.url)}, and on the gateway at {found.path}"
        say(own if found.proxy is None else f"{found.proxy} asks at {found.path} {proxied}")
    say_next(steps)
    if plan is not None:
        say(f"note: {oauth_hosts(plan.oauth)}", QUIET)


def say_next(steps: Iterable[str]) -> None:
    """Print the shell lines that come next."""
    say("")
    say("next:")
    for step in steps:
        say_whole(f"  {step}")
