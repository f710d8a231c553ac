"""Finds further missing files and variables after the first fault of a configuration, and differences between its tools
and the server's. I/O: checks whether files exist; the network.

A check ends with its first fault. But if six files are missing, a person wants to read of all six at once. So after a
fault, each file and variable that the configuration names is looked for. Parts that are off are left out.
"""

import os
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from accredit.asking.listing import ServerListing
from accredit.asking.reaching import Reach
from accredit.asking.server import ask_each
from accredit.base.text import some_of
from accredit.config import Loaded, build_catalog, folder_of
from accredit.config.schema import SECTIONS
from accredit.config.section import Section
from accredit.config.servers import every_view
from accredit.config.values import SecretFrom
from accredit.errors import ConfigurationError
from accredit.policy.drill import DRILLS
from accredit.terminal.output import MAX_TOLD_CANDIDATES

CHECK_REACH_SECONDS = 0.5
"""How many seconds `accredit config check` waits for a connection to a server, to compare its tools. Without a
connection, or an answer in ten times that, tools are not compared. (`accredit check` waits, and says why.)"""

_IS_MADE = ("secret_file",)
_FILE, _FILES = "_file", ("files", "public_key_files")


def all_faults(first: Iterable[ConfigurationError], loaded: Loaded) -> list[ConfigurationError]:
    """Return these faults, each once, followed by all other missing files and variables."""
    faults = list({each.what: each for each in first}.values())
    told = "\n".join(each.what for each in faults)
    return [*faults, *(fault for path, fault in _missing(loaded) if path not in told)]


def _missing(loaded: Loaded) -> Iterator[tuple[str, ConfigurationError]]:
    """Yield each missing file and variable, by its path or name, with its error."""
    for section in SECTIONS:
        table: Section = getattr(loaded.config, section)
        if getattr(table, "mode", "") != "off":
            for key, value in table.items():
                yield from _missing_in(value, (section, key), folder_of(loaded, (section, key)))


def _missing_in(value: object, place: tuple[str, ...], folder: Path) -> Iterator[tuple[str, ConfigurationError]]:
    name, key = ".".join(place), place[-1]
    if isinstance(value, SecretFrom):
        if value.env and value.env not in os.environ:
            what = f"{name} is to come from the environment, which has no {value.env}"
            yield value.env, ConfigurationError(what, f"set {value.env} before the start")
        yield from _missing_file(value.file, name, folder)
    elif isinstance(value, Section):
        for inner, each in value.items():
            yield from _missing_in(each, (*place, inner), folder)
    elif isinstance(value, Mapping):
        for inner, each in cast("Mapping[str, object]", value).items():
            yield from _missing_in(each, (*place, inner), folder)
    elif isinstance(value, list):
        for number, each in enumerate(cast("list[object]", value)):
            here = (*place[:-1], f"{key}[{number}]")
            is_file = isinstance(each, str) and key in _FILES
            yield from _missing_file(str(each), ".".join(here), folder) if is_file else _missing_in(each, here, folder)
    elif isinstance(value, str) and key.endswith(_FILE) and key not in _IS_MADE:
        yield from _missing_file(value, name, folder)


def _missing_file(file: str, name: str, folder: Path) -> Iterator[tuple[str, ConfigurationError]]:
    path = folder / file
    if file and not os.path.lexists(path):
        of_person = name.startswith("proofs.roots") and file.endswith(".key.pub")
        make = f"accredit keys new {shlex.quote(str(path.with_suffix('')))} --kind human makes it"
        remedy = make if of_person else "make it, or correct its name"
        yield str(path), ConfigurationError(f"{name}: there is no {path}", remedy)


def differing_tools(loaded: Loaded) -> Iterator[str]:
    """Yield notes on tools that only the server has, or only the configuration, for servers that answer at a URL."""
    asked = [each for each in every_view(loaded) if each.api is None and _answers(each.config.upstream.url)]
    if not asked:
        return
    offers = ask_each(asked, Reach(timeout=10 * CHECK_REACH_SECONDS))
    for each in asked:
        offer, catalog = offers[each.server], build_catalog(each.config)
        if not isinstance(offer, ServerListing):
            continue
        listed = {tool.name for tool in offer.tools} - DRILLS
        place = each.place("tools")
        open_tools = sorted(name for name in listed if catalog.tool(name) is None)
        if open_tools:
            what = f"the server lists what [{place}] lacks, so that nobody can call it"
            yield f"{what}: {some_of(open_tools, MAX_TOLD_CANDIDATES)}; accredit check --fix writes the tables"
        gone = sorted(catalog.tools.keys() - listed)
        if gone:
            yield f"[{place}] names what the server does not list: {some_of(gone, MAX_TOLD_CANDIDATES)}"


def _answers(url: str | None) -> bool:
    """Return whether there is a URL, and somebody listens at it."""
    if not url:
        return False
    try:
        parts = urlsplit(url)
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        socket.create_connection(place, CHECK_REACH_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True
