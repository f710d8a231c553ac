"""Finds further missing files and variables after the first fault of a configuration, and differences between its tools
and the server's. I/O: checks whether files exist; the network.

A check ends with its first fault. But if six files are missing, a person wants to read of all six at once. So after a
fault, each file and variable that the configuration names is looked for. Parts that are off are left out.
"""

import os
import shlex
import socket
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from accredit.asking.listing import ServerListing
from accredit.asking.reaching import Reach
from accredit.asking.server import ask_each
from accredit.base.text import some_of
from accredit.config.load import Loaded
from accredit.config.named_files import named_files, named_variables
from accredit.config.proofs import build_catalog
from accredit.config.servers import every_view
from accredit.errors import ConfigurationError
from accredit.policy.drill import DRILLS
from accredit.terminal.output import MAX_TOLD_CANDIDATES

CHECK_REACH_SECONDS = 0.5
"""How many seconds `accredit config check` waits for a connection to a server, to compare its tools. Without a
connection, or an answer in ten times that, tools are not compared. (`accredit check` waits, and says why.)"""


def all_faults(first: Iterable[ConfigurationError], loaded: Loaded) -> list[ConfigurationError]:
    """Return these faults, each once, followed by all other missing files and variables."""
    faults = list({each.what: each for each in first}.values())
    told = "\n".join(each.what for each in faults)
    return [*faults, *(fault for path, fault in _missing(loaded) if path not in told)]


def _missing(loaded: Loaded) -> Iterator[tuple[str, ConfigurationError]]:
    """Yield each missing file and variable, by its path or name, with its error."""
    for name, variable in named_variables(loaded):
        if variable not in os.environ:
            what = f"{name} is to come from the environment, which has no {variable}"
            yield variable, ConfigurationError(what, f"set {variable} before the start")
    for file in named_files(loaded):
        if file.is_needed and not os.path.lexists(file.path):
            of_person = file.key == "proofs.roots.public_key_file" and file.path.name.endswith(".key.pub")
            make = f"accredit keys new {shlex.quote(str(file.path.with_suffix('')))} --kind human makes it"
            remedy = make if of_person else "make it, or correct its name"
            yield str(file.path), ConfigurationError(f"{file.name}: there is no {file.path}", remedy)


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
