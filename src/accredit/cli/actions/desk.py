"""Implements `accredit desk` and its subcommands `open`, `unlock` and `lock`."""

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
from msgspec.structs import replace

from accredit.app.pid_file import is_served
from accredit.attest import LogKey, RecordKey
from accredit.base.private_memory import keep_memory_private
from accredit.cli.actions.connect_app import check_gateway
from accredit.client.pins import gateways_met
from accredit.config.attest import gateway_id
from accredit.config.listen import url_here
from accredit.config.load import load
from accredit.console.client import find_desk, tell_desk
from accredit.console.elsewhere import read_addresses
from accredit.console.lists import list_places
from accredit.console.log_pages import LogPages
from accredit.console.names import gateway_keys, known_names, read_names
from accredit.console.prompts import find_prompt
from accredit.console.serving import DeskPlaces, DeskProcess, DeskSources, PageServer, run_read_only
from accredit.console.settings import DeskSettings, find_key, read_settings
from accredit.console.socket import is_running, make_own_folder
from accredit.console.unlock import KeyHolder, open_key
from accredit.errors import ConfigurationError
from accredit.keys import KeyFile, LockedKeyFile, read_key, read_private_key
from accredit.keys.places import config_folder, desk_log, desk_socket, desk_sockets, runtime_folder, state_folder
from accredit.ops.log_names import known_names as log_names
from accredit.ops.log_place import LogSource, as_configuration_errors, public_keys
from accredit.ops.own_gateways import OwnGateway, names_here, own_gateways
from accredit.stores import LogStore, parse_store_url
from accredit.terminal.output import print_result, say, tell
from accredit.terminal.passphrases import passphrase_source


def run_desk(
    *,
    port: int,
    no_browser: bool,
    passphrase_file: Path | None,
    read_only: bool,
    store: str | None,
    config: Path | None,
    at: Sequence[str] = (),
) -> int:
    """Run `accredit desk` until it is stopped; return the exit code. Raises `ConfigurationError`."""
    if read_only and at:
        raise ConfigurationError("--read-only has no key to sign what --at sends", "leave out one of the two")
    if read_only:
        return _run_read_only_desk(port, store, config, wants_browser=not no_browser)
    if store is not None:
        raise ConfigurationError(
            "--store is for --read-only", "name the gateway's configuration with --config, or `store` in desk.toml"
        )
    return _run_desk(port, config, at, wants_browser=not no_browser, passphrase_file=passphrase_file)


def _run_desk(
    port: int, config: Path | None, at: Sequence[str], *, wants_browser: bool, passphrase_file: Path | None
) -> int:
    """Run the desk until it is stopped; return the exit code. Raises `ConfigurationError`."""
    keep_memory_private()
    environ = os.environ
    running = find_desk(desk_sockets(environ, os.geteuid()))
    if running is not None:
        with running:
            raise is_running(running.getpeername())
    settings = read_settings(environ)
    settings = replace(settings, at=read_addresses((*at, *settings.at)))
    read_names(settings.folder)
    path = find_key(settings)
    key = read_private_key(path)
    person = key.public()
    if person.kind != "human":
        raise ConfigurationError(f"{path} is no human's key", "name one in desk.toml: key_file")
    is_encrypted = isinstance(key, LockedKeyFile)
    passphrase = _passphrase(person, passphrase_file) if is_encrypted and passphrase_file is not None else None
    if not is_encrypted:
        tell(f"warning: {path} has no passphrase: any program of yours can sign with it")
    elif passphrase is not None:
        open_key(key, passphrase)  # a wrong one is told now

    def holder(on_change: Callable[[], None]) -> KeyHolder:
        return KeyHolder(
            key,
            unlock_seconds=settings.unlock_seconds,
            prompt=find_prompt(environ),
            passphrase=passphrase,
            on_change=on_change,
        )

    places = DeskPlaces(desk_socket(environ), state_folder(environ), settings.folder)
    sources = desk_sources(settings, person, own_gateways(environ, config), environ)
    server = PageServer(
        port, environ, places.socket.parent, _print_link, wants_browser=wants_browser, told=_output_kind(environ)
    )
    return asyncio.run(DeskProcess(person, holder, places, server, sources).run())


def desk_sources(
    settings: DeskSettings, person: KeyFile, gateways: Sequence[OwnGateway], environ: Mapping[str, str]
) -> DeskSources:
    """Return the sources that a desk shows, from the person's `gateways`. The store that `desk.toml` names comes first:
    its log is the one shown. A revocation list goes to all places, so that no gateway misses it. Raises
    `ConfigurationError`."""
    folder = settings.folder
    keys = {each.id: each for each in (*gateway_keys(folder), *(key for each in gateways for key in each.keys))}
    people = {person.public_key: person.name, **{key: name for each in gateways for key, name in each.roots.items()}}

    def names() -> Mapping[str, str]:
        return names_here(environ, gateways)

    def pages(store: LogStore, file: Path | None = None) -> LogPages:
        words = f"--config {shlex.quote(str(file))}" if file is not None else ""
        return LogPages(store, names, [*keys.values()], people, words)

    logs = {each.id: pages(each.store, each.file) for each in gateways if each.id and each.store is not None}
    named = pages(_named_store(settings)) if settings.store else None
    if named is not None:
        logs[""] = named
    lists = [*list_places(settings), *(place for each in gateways for place in each.list_places(person))]
    return DeskSources(
        names,
        lambda: _known_addresses(folder, gateways),
        partial(check_gateway, folder),
        [*{each.name: each for each in lists}.values()],
        named or next(iter(logs.values()), None),
        logs,
        settings.at,
    )


def _named_store(settings: DeskSettings) -> LogStore:
    """Return the store that `desk.toml` names. Raises `ConfigurationError`."""
    url = parse_store_url(settings.store, settings.folder)
    if url.lasting is None:
        raise ConfigurationError("desk.toml: desk.store: a store in memory has no log", "name the gateway's store")
    return url.lasting


def _known_addresses(folder: Path, gateways: Sequence[OwnGateway]) -> Mapping[str, str]:
    """Return the ids by URL of the gateways that agents have met, and of the person's own that are served now. If none
    is served, the first one is included, and the page says that it does not answer. Raises `ConfigurationError`."""
    served = [each for each in gateways if is_served(each.file)] or gateways[:1]
    return {**gateways_met(folder), **{url_here(each.loaded.config.gateway): each.id for each in served}}


def _run_read_only_desk(port: int, store: str | None, config: Path | None, *, wants_browser: bool) -> int:
    """Show a log, without any key, until stopped; return the exit code. Raises `ConfigurationError`."""
    source = LogSource(store, config)
    place = source.place()
    with as_configuration_errors(), place.open_log():
        pass  # a log that is not there is told now
    keys: list[LogKey | RecordKey] = [*gateway_keys(config_folder(os.environ))]
    with contextlib.suppress(ConfigurationError):  # a configuration without a key of its own
        keys += public_keys((), config) if store is None else []
    folder = runtime_folder(os.environ)
    make_own_folder(folder)
    server = PageServer(port, os.environ, folder, _print_link, wants_browser=wants_browser)
    names = log_names((), source)
    pages = LogPages(place, lambda: {**names, **known_names(config_folder(os.environ))}, keys, source.people(()))
    gateways: Mapping[str, str] = _own_address(config) if store is None else {}
    return asyncio.run(run_read_only(server, pages, lambda: gateways))


def _own_address(config: Path | None) -> Mapping[str, str]:
    """Return the id of the configuration's own gateway ("" if it has none), in a mapping whose only key is its URL."""
    loaded = load(config, os.environ, {})
    gateway, own_id = loaded.config.gateway, ""
    with contextlib.suppress(ConfigurationError):  # a gateway that needs none has none
        own_id = gateway_id(loaded)
    return {url_here(gateway): own_id}


def _output_kind(environ: Mapping[str, str]) -> Literal["terminal", "log"]:
    """Return where this process's stderr can be read: in the desk's log, or at the terminal."""
    with contextlib.suppress(OSError, ValueError):
        if os.path.samestat(os.stat(desk_log(environ)), os.fstat(sys.stderr.fileno())):
            return "log"
    return "terminal"


def _print_link(line: str) -> None:
    click.echo(line, err=True)


def open_desk(code: str | None) -> int:
    """Open the page of the running desk, or that of the ask with this code. Raises `ConfigurationError`, and
    `DeskError` if there is no such ask."""
    opened = ask_desk({"open": True if code is None else code})["opened"]
    print_result({"opened": opened})
    log = f"the link is at the end of {desk_log(os.environ)}"
    told = {"browser": "opened in the browser", "log": log}
    say(told.get(str(opened), "the link is in the terminal where `accredit desk` (or `accredit up`) runs"))
    return 0


def unlock_desk(passphrase_file: Path | None) -> int:
    """Unlock the running desk's key. Raises `ConfigurationError`, and `DeskError` for a wrong passphrase."""
    wanted = str(ask_desk({"ping": True}).get("wanted", ""))  # before anybody types
    if wanted:
        tell(f"the desk waits for it now: {wanted}")
    person = read_key(find_key(read_settings(os.environ))).public()
    said = {"passphrase": _passphrase(person, passphrase_file), "for": wanted}
    return _request_key_state({"unlock": said})


def lock_desk() -> int:
    """Lock the running desk's key. Raises `ConfigurationError`."""
    return _request_key_state({"lock": True})


def ask_desk(request: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the running desk's answer. Raises `ConfigurationError` if none runs, and `DeskError`."""
    return tell_desk(desk_sockets(os.environ, os.geteuid()), request)


def _passphrase(person: KeyFile, file: Path | None) -> str:
    return passphrase_source(file)(person).decode()


def _request_key_state(request: Mapping[str, object]) -> int:
    key = ask_desk(request)["key"]
    print_result({"key": key})
    say({"open": "the key has no passphrase: it can't be locked"}.get(str(key), f"the key is {key}"))
    return 0
