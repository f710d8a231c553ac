"""Implements `accredit add`: lists a server's tools, and adds it to an existing configuration and lock.

The steps come in this order, so that a failure leaves nothing half done:

- check that the name is free, that the file can take a server (tried with an empty one), and that the lock can be read;
- list what the server offers, or read the document of an API or agent. A server is run from the folder from which the
  configuration will run it;
- make the new text, and parse it with the gateway's own reader: it must mean the old one plus the new server, and
  nothing else. Text is only appended, but a server of `[upstream]` is first given a name (`config.renaming`);
- write a lock that serves both the old and the new file; then the file; then the lock without the old name. Each is
  replaced in one step, and only if unchanged since it was read. So a gateway that starts after a crash finds the old
  servers or the new ones, with their pins.
"""

import contextlib
import os
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accredit.asking.listing import ServerListing
from accredit.asking.probe import without_query
from accredit.asking.reaching import Reach, upstream_of
from accredit.asking.server import ask_upstream
from accredit.base.standard import is_for_programs
from accredit.base.text import some_of
from accredit.base.toml import append_text, says
from accredit.client.presenter import GRANTS
from accredit.config.apis import api_catalog
from accredit.config.load import OF_ONE, Loaded, load
from accredit.config.pins import lock_file, read_lock_file
from accredit.config.proofs import build_catalog
from accredit.config.servers import check_server_name, every_view
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.keys import read_file, replace_file, write_file
from accredit.keys.places import config_folder
from accredit.limits import MAX_LOCK_BYTES
from accredit.pins.definitions import Definitions
from accredit.pins.lock import LOCK_FILE, UPSTREAM
from accredit.policy.catalog import Entry
from accredit.setup.config_text import Described, McpServer, added_tables
from accredit.setup.documents import check_served, find_described, named_document
from accredit.setup.init import found_server, say_next, scope_options, word
from accredit.setup.own_keys import AGENT_KEY, OWNER_KEY
from accredit.setup.pin import definitions_of, lock_text
from accredit.signing.suggest_scopes import PROMPT, RESOURCE, Suggestion
from accredit.terminal.output import MAX_TOLD_CANDIDATES, print_result, say, tell

_FORM = "write each server as tables with headers, such as [servers.mail]"


class _Lock(NamedTuple):
    """The lock as it was read: its bytes (None if there is no file), and the pinned definitions by server."""

    path: Path
    data: bytes | None
    pinned: dict[str, Definitions]


def run_add(
    *,
    name: str,
    url: str | None,
    command: list[str] | None,
    config: Path | None,
    name_existing: str | None,
    openapi: Path | str | None,
    agent_card: Path | str | None,
    proxy: str | None,
    reach: Reach,
) -> int:
    """Run `accredit add`; return the exit code. Raises `ConfigurationError`."""
    check_server_name(name, "NAME")
    if name_existing is not None:
        check_server_name(name_existing, "--name-existing")
    document = named_document(openapi, agent_card, command, proxy)
    if document is None:
        upstream = upstream_of(url, command, reach)
        return add_server(name, config, name_existing, lambda folder: _ask(name, upstream, folder, reach), upstream)
    check = f"{document.option} {shlex.quote(str(document.where))}"
    return add_server(
        name, config, name_existing, lambda _: find_described(name, document, url, proxy, reach), check=check
    )


def add_server(
    name: str,
    config: Path | None,
    existing: str | None,
    find: Callable[[Path], Described],
    asked: HttpUpstream | StdioUpstream | None = None,
    *,
    check: str = "",
) -> int:
    """Write the configuration and the lock, and print what changed. `existing` is the name that the configuration's
    server of `[upstream]` gets. `find` is given the configuration's folder, and returns the server as a configuration
    there describes it. `asked` is how an MCP server was reached. For any other server, `check` has the options that
    `accredit check` needs. Raises `ConfigurationError`."""
    loaded, file = _load(config)
    _check_names(loaded, name, existing)
    _new_content(loaded, name, existing, f'[servers.{name}]\nurl = "http://127.0.0.1/"\n')
    lock = _lock_of(loaded)
    found = find(file.parent)
    content = _new_content(loaded, name, existing, added_tables(found))
    defined: dict[str, Definitions] = {}
    if isinstance(found, McpServer):
        others = [each for each in loaded.config.servers.by_name.values() if each.protocol == "mcp"]
        pinned = lock.data is not None or not (existing or others)
        defined = {name: definitions_of(found.offer)} if pinned else {}
    else:
        check_served(content, file, name)
        pinned = lock.data is not None and existing is not None
    notes = [] if existing is None else [*_rename_notes(loaded, name, existing)]
    if isinstance(found, McpServer):
        notes += _notes(loaded, found, asked, existing or UPSTREAM, pinned=pinned)
    files = _write(loaded, existing, content, lock if pinned else None, defined)
    steps = _next_steps(name, files[0], scope_options(found.first_scopes), f"accredit check {name} {check}".rstrip())
    told = {"files": files, "server": name, "renamed": existing, **found.members(), "notes": notes, "next": steps}
    print_result(told)
    say(f"wrote {files[0]}: [servers.{name}], {found.summary}. Read it before you go on.")
    for each in files[1:] if defined else ():
        say(f"wrote {each}: what these tools say of themselves; a gateway refuses calls of one that changes")
    for note in () if is_for_programs() else notes:
        tell(f"note: {note}")
    say_next(steps)
    return 0


def _ask(name: str, upstream: HttpUpstream | StdioUpstream, folder: Path, reach: Reach) -> McpServer:
    offer, upstream = ask_upstream(upstream, follow=True, seconds=reach.timeout)
    return found_server(name, upstream, offer, folder, reach)


def _load(config: Path | None) -> tuple[Loaded, Path]:
    loaded = load(config, os.environ, {})
    if loaded.file is None:
        raise ConfigurationError(
            "there is no configuration that a server could be added to",
            "`accredit init` writes one from its first server; or name it with --config",
        )
    return loaded, loaded.file


def _check_names(loaded: Loaded, name: str, existing: str | None) -> None:
    """Check that the new server's name, and the one that the existing server gets, are free."""
    for (section, key), origin in loaded.origins.items():
        if section in OF_ONE and origin.kind == "environment":
            raise ConfigurationError(
                f"{origin.name} (environment) is for one server, and [servers] names several",
                f"write {section}.{key} into {loaded.file}, and unset it",
            )
    here = sorted({section for section, _ in loaded.origins if section in OF_ONE}, key="upstream".__ne__)
    if name in loaded.config.servers.by_name:
        raise ConfigurationError(f"there is a [servers.{name}] already", "give the new server another name")
    if existing is None and here:
        raise ConfigurationError(
            f"this configuration has one server, which has no name ([{here[0]}])",
            f"give it a name, too: accredit add {name} ... --name-existing NAME",
        )
    if existing is None:
        return
    upstream = loaded.config.upstream
    if not (upstream.addresses or upstream.command):
        raise ConfigurationError(
            "--name-existing is for the server of [upstream], and there is none",
            "leave it out" if loaded.config.servers.by_name else "write [upstream] with url or command first",
        )
    if name in (existing, UPSTREAM):
        raise ConfigurationError(f"the new server can't be called {name}, as the old one is", "give it another name")


def _new_content(loaded: Loaded, name: str, existing: str | None, tables: str) -> bytes:
    old = loaded.content.decode()
    text, means = old, tomllib.loads(old)
    if existing is not None:
        from accredit.config.renaming import means_renamed, rename_upstream  # noqa: PLC0415 - the parser is loaded for this

        text, means = rename_upstream(old, existing), means_renamed(means, existing)
    servers: dict[str, Any] = means.setdefault("servers", {})
    servers[name] = tomllib.loads(tables)["servers"][name]
    content = append_text(text.encode(), f"\n{tables}")
    if not says(content, means):
        raise ConfigurationError(f"{loaded.file} has its servers in a form that can't be added to", _FORM)
    every_view(load(loaded.file, os.environ, {}, content=content))
    return content


def _lock_of(loaded: Loaded) -> _Lock:
    path = lock_file(loaded) or Path(LOCK_FILE)
    if not os.path.lexists(path):
        return _Lock(path, None, {})
    data = read_file(path, MAX_LOCK_BYTES).data
    return _Lock(path, data, read_lock_file(path))


def _write(
    loaded: Loaded, existing: str | None, content: bytes, lock: _Lock | None, found: Mapping[str, Definitions]
) -> list[str]:
    """Write the configuration and, if `lock` is given, the lock with the new server's definitions. Return the paths of
    the files written."""
    file = loaded.file or Path()
    if lock is None:
        replace_file(file, content, old=loaded.content)
        return [_near(file)]
    after = {**lock.pinned, **found}
    between = lock_text(after)
    if existing is not None and UPSTREAM in lock.pinned:
        after[existing] = after.pop(UPSTREAM)
        between = lock_text({**after, UPSTREAM: lock.pinned[UPSTREAM]})
    _put(lock.path, between, lock.data)
    try:
        replace_file(file, content, old=loaded.content)
    except ConfigurationError:
        with contextlib.suppress(ConfigurationError):  # what the old file needs is in it anyway
            if lock.data is not None:
                replace_file(lock.path, lock.data, old=between)
            else:
                lock.path.unlink(missing_ok=True)
        raise
    _put(lock.path, lock_text(after), between)
    return [_near(file), _near(lock.path)]


def _put(path: Path, data: bytes, old: bytes | None) -> None:
    if old is None:
        write_file(path, data)
    elif data != old:
        replace_file(path, data, old=old)


def _notes(
    loaded: Loaded, found: McpServer, asked: HttpUpstream | StdioUpstream | None, unnamed: str, *, pinned: bool
) -> Iterator[str]:
    """Yield notes on side effects that the user should know. `unnamed` is what the server of `[upstream]` is called."""
    name, upstream = found.name, found.upstream
    for scope, mine in _by_scope(found.offer, found.proposals).items():
        others = _with_scope(scope, loaded, unnamed)
        if others:
            tools = some_of(mine, MAX_TOLD_CANDIDATES)
            yield f"whoever holds {scope} for {', '.join(others)} may use {tools} of {name} as well"
    if loaded.config.proofs.default_tool_scope:
        yield f"tools without a table have the scope {loaded.config.proofs.default_tool_scope} here, too"
    if not pinned:
        # Without pins for the existing servers, a new lock would keep the gateway from starting.
        yield f"nothing is pinned, as there is no {LOCK_FILE}: `accredit pin NAME` for each server makes one"
    if isinstance(asked, HttpUpstream) and "?" in asked.url and _open_to_others(loaded):
        yield f"the URL of {name} has a query, which may hold a key, and others can read {loaded.file}"
    if isinstance(upstream, HttpUpstream) and upstream != asked:
        yield f"the server is at {without_query(upstream.url)}: the configuration names that"


def _rename_notes(loaded: Loaded, name: str, existing: str) -> Iterator[str]:
    path = loaded.config.gateway.path.rstrip("/")
    yield f"[upstream] is [servers.{existing}] now, with its catalog: clients find it at {path}/{existing}"
    yield f"an agent that uses --gateway-id ID now needs --server {existing} besides, or --gateway-id ID/{existing}"
    timeout = loaded.origins.get(("gateway", "upstream_timeout_seconds"))
    if timeout is not None and timeout.kind == "environment":
        yield f"{timeout.name} is for servers without a timeout_seconds of their own"
    if loaded.config.upstream.identity == "jwt":
        yield f"its tokens in {loaded.config.upstream.identity_header} are for {existing} (aud), not for its URL"


def _by_scope(offer: ServerListing, suggested: Sequence[Suggestion]) -> dict[str, list[str]]:
    """Group the new server's tools, resources and prompts by scope."""
    found: dict[str, list[str]] = {}
    for each in suggested:
        found.setdefault(each.scope, []).append(each.tool)
    if offer.resources or offer.templates:
        found.setdefault(RESOURCE, []).append("resources")
    if offer.prompts:
        found.setdefault(PROMPT, []).append("prompts")
    return found


def _with_scope(scope: str, loaded: Loaded, unnamed: str) -> list[str]:
    """Return the other servers that use this scope: a delegation with it for the new server covers them, too."""
    used: dict[str, Iterable[Entry]] = {}
    for each in every_view(loaded):
        catalog = build_catalog(each.config)
        entries = (*catalog.tools.values(), catalog.resource, catalog.prompt)
        used[each.server or unnamed] = entries if each.api is None else api_catalog(each.api).routes.values()
    return [server for server, entries in used.items() if any(entry.scope == scope for entry in entries)]


def _near(path: Path) -> str:
    """Return the path relative to the current folder if it is inside, else unchanged."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _open_to_others(loaded: Loaded) -> bool:
    return loaded.file is not None and read_file(loaded.file, len(loaded.content)).open_to_others


def _next_steps(name: str, file: str, scopes: str, check: str) -> list[str]:
    """Return three shell lines: delegate first scopes, check the server, reload the gateway."""
    folder, own, config = Path(file).parent, config_folder(os.environ), word(Path(file))
    out = folder / f"{name}.json"
    if not (folder / OWNER_KEY).exists() and (own / OWNER_KEY).exists():
        folder, out = own, own / GRANTS / f"{name}.json"
    owner, agent, out = word(folder / OWNER_KEY), word(folder / AGENT_KEY), word(out)
    make = f"mkdir -p {word(own / GRANTS)} && " if folder == own else ""
    return [
        f"{make}accredit grant --issuer {owner} --agent {agent}.pub {scopes} --expires 7d --out {out}",
        f"{check} --config {config}",
        f"accredit reload --config {config}    # or, where none runs: accredit serve --config {config}",
    ]
