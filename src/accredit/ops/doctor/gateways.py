"""Checks gateways, and how much their clocks differ from this machine's. I/O: the network, as in `console.gateways`:
bounded, no credentials.

Asks the gateway of the user's own configuration, if it is on this machine, and those that the user's agents have met.
"""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from accredit.app.pid_file import serving
from accredit.app.port_holder import find_holder
from accredit.asking.probe import without_query
from accredit.base.addresses import is_loopback_host
from accredit.client.pins import gateways_met
from accredit.config.listen import url_here
from accredit.config.load import Loaded
from accredit.console.gateways import GatewayHealth, Gateways
from accredit.errors import ConfigurationError
from accredit.ops.doctor.engine import Result, bad, command_line, faulty, good, note
from accredit.ops.doctor.surroundings import Surroundings

CLOCK_DIFFERENCE_SECONDS = 5.0
"""By how much a gateway's clock may differ from this machine's before that is a finding. Proofs are fresh for 30 s, and
calls with a challenge take some of these."""


_STILL_GOOD = {"key_sets", "reload", "instructions", "schema"}
"""The parts in a gateway's health report that may fail without stopping it: it continues with its last known state
(`gateway.front.health`)."""
_REVOCATIONS = "revocations"
"""The health part of revocation lists. If it fails, the gateway works with its last known state, too, but only until a
restart."""


def look_at_gateways(at: Surroundings) -> Iterator[Result]:
    """Yield findings about gateways and clocks."""
    own = ""
    if at.loaded is not None and at.file is not None:
        own = url_here(at.loaded.config.gateway)
        try:
            found = serving(at.file)
        except ConfigurationError as error:
            yield faulty("gateway", error)
            found = None
        if found is None:
            yield _not_running(at, own)
            own = ""
        else:
            yield good("gateway", f"process {found.pid} serves {at.file}")
            if found.reloads.problem:
                yield bad("gateway", f"its last reload was refused: {found.reloads.problem}", found.reloads.remedy)
    try:
        met = gateways_met(at.folder)
    except ConfigurationError as error:
        yield faulty("gateway", error)
        met = {}
    asked = ask_gateways({**met, **({own: ""} if own else {})})
    for each in asked:
        is_own = bool(own) and own.startswith(f"{each.address}/")
        yield from _health(each, at.loaded if is_own else None)
    if not any(each.clock_ahead is not None for each in asked):
        yield note("clock", "no gateway answers, so this machine's clock was compared with none")


def ask_gateways(known: Mapping[str, str]) -> list[GatewayHealth]:
    """Ask gateways for their health, by URL."""
    return asyncio.run(Gateways(lambda: known).ask())


def _not_running(at: Surroundings, url: str) -> Result:
    command = command_line("accredit", "up", "--config", str(at.file)) if at.is_own else ""
    gateway = at.loaded.config.gateway if at.loaded is not None else None
    if gateway is not None and is_loopback_host(gateway.host) and _is_taken(gateway.host.strip("[]"), gateway.port):
        holder = find_holder(gateway.port)
        what = f"another program listens on {gateway.host} port {gateway.port}, where the gateway would"
        what = what if holder is None else f"{what}: {holder}"
        return bad("gateway", what, f"stop it, or change gateway.port in {at.file}")
    return bad("gateway", f"no gateway runs for {at.file}, at {urlsplit(url).netloc}", "start it", command)


def _is_taken(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        client.settimeout(1.0)
        return client.connect_ex((host, port)) == 0


def _health(gateway: GatewayHealth, own: Loaded | None) -> Iterator[Result]:
    """Yield findings about a gateway; `own` is its configuration if it is the user's."""
    if gateway.problem:
        if own is not None:
            yield bad("gateway", f"{gateway.address}: {gateway.problem}", "see what it logs")
        else:
            yield note("gateway", f"{gateway.address}, which an agent of yours has met: {gateway.problem}")
        return
    broken = sorted(name for name, well in gateway.parts.items() if not well)
    for name in broken:
        what = f"{gateway.address} says of itself: {name} is not well"
        if name in _STILL_GOOD:
            yield note("gateway", f"{what}; it goes on by what it knew", "see what it logs")
        elif name == _REVOCATIONS:
            remedy = "see what it logs, and restore the list"
            yield bad("gateway", f"{what}; what it read last counts while it runs, and no new one would start", remedy)
        else:
            yield bad("gateway", what, _remedy(name, own))
    if not broken:
        yield good("gateway", f"{gateway.address} is {gateway.status}")
    if gateway.clock_ahead is not None:
        yield _clock(gateway)


def _remedy(part: str, own: Loaded | None) -> str:
    if part != "upstream" and not part.startswith("server "):
        return "see what the gateway logs"
    url = None
    if own is not None:
        name = part.removeprefix("server ")
        server = own.config.upstream if part == "upstream" else own.config.servers.by_name.get(name)
        url = next(iter(server.addresses), None) if server is not None else None
    if url is not None:
        return f"start the server at {without_query(url)}, or see what it logs"
    return "see whether the server behind it runs, and what it logs"


def _clock(gateway: GatewayHealth) -> Result:
    ahead = gateway.clock_ahead or 0.0
    if abs(ahead) <= CLOCK_DIFFERENCE_SECONDS:
        return good("clock", f"that of {gateway.address} and this one agree")
    what = f"that of {gateway.address} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    return bad("clock", f"{what}: proofs are refused", "set both by the network", "timedatectl set-ntp true")
