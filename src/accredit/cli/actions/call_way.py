"""Reaches a server for one call: at an endpoint, or through a gateway that runs in this process with a configuration.

I/O: HTTP. With a configuration, also what it names: a child, the store, the log.
"""

import os
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accredit.app.assemble import assemble
from accredit.app.pid_file import is_served
from accredit.asking.in_process import InProcess
from accredit.asking.reaching import Reach, endpoint_of, id_at
from accredit.client import AccreditedClient, ProofPresenter
from accredit.client.gateways import GatewayAddress, check_url, to_gateway
from accredit.client.http import HOW_TO_START, GatewayHttp
from accredit.client.proving import Prover
from accredit.client.streams import ProvingTransport
from accredit.client.ways import over_http
from accredit.config.attest import gateway_id
from accredit.config.build import build_all_settings, build_settings
from accredit.config.listen import leads_to
from accredit.config.load import DEFAULT_FILE, load
from accredit.config.servers import endpoints
from accredit.errors import ConfigurationError
from accredit.gateway import create_app
from accredit.keys.own_files import fault_of_file
from accredit.keys.places import config_folder


class Agent(NamedTuple):
    """The caller. `gateway_id` is the gateway that proofs are made for; if it is "", that is the first one that
    answers."""

    key: Path
    delegations: tuple[Path, ...]
    gateway_id: str


@asynccontextmanager
async def at_url(
    url: str, server: str | None, agent: Agent | None, reach: Reach
) -> AsyncGenerator[tuple[AccreditedClient, ProofPresenter | None]]:
    """Open a client of an endpoint; with `server`, of the endpoint of that server at this gateway. Raises
    `ConfigurationError` for files that can't be used."""
    if agent is not None:
        agent = agent._replace(gateway_id=id_at(agent.gateway_id, server))
    presenter = _presenter(agent)
    reached = GatewayAddress(
        url=endpoint_of(url, server), token=reach.token, headers=reach.headers, timeout=reach.timeout
    )
    transport = to_gateway(reached, presenter, uncovered=_as_it_is)
    async with AccreditedClient(transport, timeout=reach.timeout) as client:
        yield client, presenter


@asynccontextmanager
async def at_gate(
    config: Path, server: str | None, agent: Agent | None, reach: Reach
) -> AsyncGenerator[tuple[AccreditedClient, ProofPresenter | None]]:
    """Run the gateway that a configuration describes in this process, and open a client of it. If there are several
    servers, the client is for `server`. If the servers are merged and `server` is None, it is for the merged endpoint.
    Raises `ConfigurationError`."""
    loaded = load(config, os.environ, {})
    if loaded.config.gateway.merge and server is None:
        every = build_all_settings(loaded, os.environ)
    else:
        every = [build_settings(loaded, os.environ, server=server)]
    if reach.timeout is not None:
        every = [replace(each, upstream_timeout_seconds=reach.timeout) for each in every]
    settings = every[-1]  # the one before which all others are, if they are merged
    if agent is not None and settings.proofs is not None and not agent.gateway_id:
        agent = agent._replace(gateway_id=id_at(gateway_id(loaded), server))
    presenter = _presenter(agent)
    app = create_app(every, **assemble(loaded, settings.proofs, settings.rounds.ring)._asdict())
    host = "127.0.0.1" if "127.0.0.1" in settings.allowed_hosts else next(iter(settings.allowed_hosts), "127.0.0.1")
    try:
        http = GatewayHttp(reach.token, headers=reach.headers, transport=InProcess(app))
        url = f"http://{host}{settings.path}"
        prover = None if presenter is None else Prover(presenter, url, lambda: http.session_id, uncovered=_as_it_is)
        transport = ProvingTransport(over_http(url, http), prover).open()
        async with AccreditedClient(transport, timeout=reach.timeout) as client:
            yield client, presenter
    finally:
        app.end_streams()
        await app.aclose()


def how_to_start(url: str, environ: Mapping[str, str]) -> str:
    """Return what to do if nobody listens at a URL: the command that starts the gateway there, if its configuration is
    known. Configurations are known if the person has named them, keeps them in their own folder, or has used them with
    `accredit up`. A file that is merely in the current folder may be anybody's."""
    from accredit.keys.own_files import known_files  # noqa: PLC0415 - who is answered needs none of it

    named = [environ["ACCREDIT_CONFIG"]] if environ.get("ACCREDIT_CONFIG") else []
    with suppress(ConfigurationError):
        named += [str(config_folder(environ) / DEFAULT_FILE), *known_files(environ)]
    for file in dict.fromkeys(named):
        with suppress(ConfigurationError, ValueError):  # the latter: of a port that is none
            if fault_of_file(Path(file)) is None and leads_to(load(Path(file), environ, {}).config.gateway, url):
                return f"start it: accredit serve --config {shlex.quote(file)}"
    here = endpoints_here(environ)
    return (
        f"on this machine a gateway runs at {here[0]}; if it is not that one, {HOW_TO_START}" if here else HOW_TO_START
    )


def endpoints_here(environ: Mapping[str, str]) -> list[str]:
    """Return the endpoints of the person's own gateways that run on this machine now."""
    from accredit.ops.own_gateways import own_gateways  # noqa: PLC0415 - who is answered needs none of it

    found: list[str] = []
    for each in own_gateways(environ, warn=lambda _: None):
        if is_served(each.file):
            found += endpoints(each.loaded)
    return found


def _presenter(agent: Agent | None) -> ProofPresenter | None:
    if agent is None:
        return None
    return ProofPresenter(agent.key, agent.delegations, gateway_id=agent.gateway_id)


def _as_it_is(item: dict[str, object]) -> dict[str, object]:
    """Return a list's item as it is, although no delegation covers it: then the call is made, and the gateway says why
    it is refused."""
    return item


def check_way(url: str | None, config: Path | None, key: Path | None, delegations: tuple[Path, ...]) -> None:
    """Check that the options go together. Raises `ConfigurationError`."""
    if (url is None) == (config is None):
        raise ConfigurationError(
            "a tool is called at an endpoint (--url) or through a configuration (--config)", "name one of them"
        )
    if url is not None:
        check_url(url)
    if (key is None) != (not delegations):
        have, lack = ("--key", "--delegation") if key else ("--delegation", "--key")
        raise ConfigurationError(f"{have} is of no use without {lack}", f"name {lack} as well, or leave out both")
