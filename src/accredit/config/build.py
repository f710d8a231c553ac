"""Builds the settings of the data plane from a validated configuration. Searches the PATH for programs.

In this order: check that exactly one of `url` and `command` is set, and no key that only the other uses; read the
headers' values from their sources, or look for the program; then call `identity`, `proofs`, `tokens`, `store`,
`attest` and `pins`, which build the other settings. Every failure is a `ConfigurationError`.

With `gateway.merge` there are several servers, named in `[servers]`, and `gateway.merging` combines their settings.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from msgspec import structs

from accredit.base.deferred import Deferred
from accredit.config.apis import build_api
from accredit.config.attest import build_records, gateway_id
from accredit.config.digest import policy_digest
from accredit.config.http_upstream import build_http_upstream
from accredit.config.identity import build_identity
from accredit.config.load import Loaded
from accredit.config.oauth import build_oauth
from accredit.config.pins import build_pins, read_pinned
from accredit.config.proofs import build_proofs, build_ratify_http, vocabulary_of
from accredit.config.quotas import build_quotas
from accredit.config.servers import every_view, only_server, view, views
from accredit.config.sources import variable_text
from accredit.config.store import build_rounds
from accredit.config.tokens import build_tokens, resource_of
from accredit.errors import ConfigurationError
from accredit.gateway.merging import merged_pins, merged_settings
from accredit.gateway.settings import ApiUpstream, GatewaySettings, HttpUpstream, RoundsSettings, StdioUpstream
from accredit.keys import reading_alike
from accredit.rounds import KeyRing

if TYPE_CHECKING:
    from accredit.gateway.upstream.stdio import child
else:
    child = Deferred("accredit.gateway.upstream.stdio.child")  # few gateways start their server


def build_settings(
    loaded: Loaded, environ: Mapping[str, str], *, server: str | None = None, workers: int = 1, starting: bool = False
) -> GatewaySettings:
    """Return the settings for the only MCP server, or for the one of several that `server` names. Raises
    `ConfigurationError` if they can't work on this machine.

    If `starting`, the gateway is about to serve: then a missing identity key is made.
    """
    named = only_server(loaded) if server is None else server
    one = loaded if named is None else view(loaded, named)
    shared = _Shared(build_rounds(loaded), vocabulary_of(loaded))
    built = _settings(one, environ, shared, workers=workers, starting=starting)
    return built if one is loaded else _of_whole(built, policy_digest(loaded))


def build_all_settings(
    loaded: Loaded,
    environ: Mapping[str, str],
    *,
    workers: int = 1,
    starting: bool = False,
    own: KeyRing | None = None,
) -> list[GatewaySettings]:
    """Return the settings of each server. If there are several, each has those of its view (`servers`). With
    `gateway.merge`, the settings of the merged endpoint come last.

    All share one vocabulary, and one set of sealing keys: `own` if given, unless a file with keys is configured. Each
    record names the whole configuration. A file that several servers use, such as the lock, is read once. Raises
    `ConfigurationError`.
    """
    with reading_alike():
        shared, digest = _Shared(build_rounds(loaded, own), vocabulary_of(loaded)), policy_digest(loaded)
        built = [_settings(each, environ, shared, workers=workers, starting=starting) for each in every_view(loaded)]
        if loaded.config.gateway.merge:
            built.append(build_merged(loaded, built))
        return [_of_whole(each, digest) for each in built]


class _Shared(NamedTuple):
    """What the settings of all servers have in common."""

    rounds: RoundsSettings
    vocabulary: frozenset[str]


def _of_whole(settings: GatewaySettings, digest: str) -> GatewaySettings:
    """Return one server's settings. Its records will name `digest`, the digest of the whole configuration."""
    records = settings.records
    return settings if records is None else replace(settings, records=replace(records, policy_digest=digest))


def _settings(
    loaded: Loaded, environ: Mapping[str, str], shared: _Shared, *, workers: int, starting: bool
) -> GatewaySettings:
    gateway = loaded.config.gateway
    upstream = build_upstream(loaded, environ) if loaded.api is None else build_api(loaded, loaded.api, environ)
    if workers > 1 and isinstance(upstream, StdioUpstream):
        raise ConfigurationError(
            f"{workers} workers can't share {loaded.place('upstream')}.command: its sessions live in one process",
            "leave out --workers, or run the server behind a URL",
        )
    return GatewaySettings(
        server=loaded.server,
        upstream=upstream,
        path=gateway.path,
        allowed_origins=tuple(gateway.allowed_origins),
        allowed_hosts=_hosts(loaded),
        trusted_proxies=tuple(gateway.trusted_proxies),
        passthrough=tuple(gateway.passthrough),
        methods=tuple(gateway.methods),
        forward_headers=tuple(gateway.forward_headers),
        max_request_bytes=gateway.max_request_bytes,
        max_response_bytes=gateway.max_response_bytes,
        max_event_bytes=gateway.max_event_bytes,
        upstream_timeout_seconds=_patience(loaded),
        tells_identity=loaded.config.upstream.identity == "meta",
        identity=build_identity(loaded, upstream, starting=starting),
        enforce=loaded.config.validation.responses == "enforce",
        proofs=build_proofs(loaded, vocabulary=shared.vocabulary, workers=workers),
        records=build_records(loaded),
        tokens=build_tokens(loaded, environ, workers=workers),
        oauth=build_oauth(loaded, environ, starting=starting),
        rounds=shared.rounds,
        quotas=build_quotas(loaded, of_proofs=False, workers=workers),
        pins=build_pins(loaded) if loaded.api is None else None,
        ratify_http=build_ratify_http(loaded),
        workers=workers,
    )


def _hosts(loaded: Loaded) -> tuple[str, ...]:
    """Return the hosts that the gateway is called by: those that are named, and that of its public URL."""
    named, oauth = tuple(loaded.config.gateway.allowed_hosts), loaded.config.oauth
    host = urlsplit(oauth.public_url).hostname if oauth.enabled and oauth.public_url is not None else None
    host = f"[{host}]" if host is not None and ":" in host else host
    return named if host is None or host in named else (*named, host)


def _patience(loaded: Loaded) -> float | None:
    """Return the configured timeout, or None: then the default depends on the transport."""
    configured = ("gateway", "upstream_timeout_seconds") in loaded.origins
    return loaded.config.gateway.upstream_timeout_seconds if configured else None


def build_upstream(loaded: Loaded, environ: Mapping[str, str]) -> HttpUpstream | StdioUpstream:
    """Return the server behind the gateway. Raises `ConfigurationError`."""
    upstream, place = loaded.config.upstream, loaded.place("upstream")
    if loaded.config.servers.by_name:
        several = [each.server for each in views(loaded)]
        raise ConfigurationError(
            f"[servers] names {len(several)} servers, and this is about one",
            f"name it with --server: {', '.join(several)}",
        )
    named = [key for key in ("url", "urls", "command") if getattr(upstream, key)]
    if len(named) > 1:
        places = [f"{place}.{key} ({loaded.origins['upstream', key].name})" for key in named]
        raise ConfigurationError(
            f"{', '.join(places[:-1])} and {places[-1]} exclude each other", "keep the one that names your server"
        )
    if upstream.addresses:
        return build_http_upstream(loaded, environ, upstream.addresses)
    if upstream.command:
        for key in ("auth", "headers", "max_in_flight"):
            if getattr(upstream, key):
                raise ConfigurationError(f"{place}.{key} is for a url, not for a command", f"remove {place}.{key}")
        env = {name: variable_text(value, f"{place}.env.{name}", environ) for name, value in upstream.env.items()}
        return _stdio(upstream.command, env, _folder(loaded), place)
    if loaded.server:
        raise ConfigurationError(f"{place}: neither url nor command is set", f"set {place}.url, or {place}.command")
    raise ConfigurationError(
        "no upstream: there is no MCP server to stand in front of",
        "give a URL, a command after --, or a configuration that names one: --config FILE",
    )


def _folder(loaded: Loaded) -> Path | None:
    """Return the folder that the command runs in, or None for the current one. It is `upstream.cwd`. If that is not
    set, a configuration file's command runs in that file's folder, since its paths are relative to that."""
    if loaded.config.upstream.cwd is not None:
        folder = Path(loaded.config.upstream.cwd)
        if not folder.is_dir():
            raise ConfigurationError(
                f"{loaded.place('upstream')}.cwd: there is no folder {folder}",
                "name the folder that the command is to run in",
            )
        return folder
    from_file = loaded.origins["upstream", "command"].kind == "file"
    return loaded.file.parent if loaded.file and from_file else None


def _stdio(command: list[str], env: Mapping[str, str], folder: Path | None, place: str) -> StdioUpstream:
    program = command[0]
    if folder and os.path.dirname(program):
        program = str(folder / program)
    upstream = StdioUpstream((program, *command[1:]), env, str(folder) if folder else None)
    if child.find_program(upstream) is None:
        raise ConfigurationError(
            f"{place} command not found: {program}",
            "correct the path, or make the file executable"
            if os.path.dirname(program)
            else "install it, correct its name, or give its full path",
        )
    return upstream


def build_merged(loaded: Loaded, servers: Sequence[GatewaySettings]) -> GatewaySettings:
    """Return the settings of `servers` as one. Raises `ConfigurationError`."""
    servers = [each for each in servers if not isinstance(each.upstream, ApiUpstream)]
    if not servers:
        raise ConfigurationError("gateway.merge is set, and no server speaks MCP", "remove gateway.merge")
    first = servers[0]
    if not first.server:
        raise ConfigurationError(
            "gateway.merge is set, and [servers] names none: there is nothing to merge", "remove gateway.merge"
        )
    proves = first.proofs is not None and first.proofs.judged
    issuers = first.tokens.issuers if first.tokens is not None else ()
    return merged_settings(
        servers,
        path=loaded.config.gateway.path,
        gateway_id=gateway_id(loaded) if proves else "",
        resource=resource_of(loaded, tuple(structs.replace(each, server_audience="") for each in issuers)),
        pins=merged_pins(first.pins, {each.server: read_pinned(each) for each in views(loaded)})
        if first.pins
        else None,
    )
