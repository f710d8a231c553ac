"""From `[servers.NAME]` with another protocol than MCP's to an HTTP API: its routes, and who asks about it. No I/O.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- an MCP server has nothing that belongs to an HTTP API (`check_mcp`), and an API nothing that belongs to an MCP server;
- proofs are judged: without them nothing would be asked of a request;
- with `protocol = "authorize"` a proxy is named, and there is an [admin] listener at which it asks;
- there are routes, of one meaning (`http_api.routes`), and their facts are of the request.
"""

from accredit.base.text import one_line
from accredit.config.load import Loaded
from accredit.config.schema import ApiRoute, Server
from accredit.errors import ConfigurationError
from accredit.gateway.settings import ApiUpstream
from accredit.http_api.facts import http_facts, source_fault
from accredit.http_api.routes import RouteTable, read_route
from accredit.policy import Catalog, Entry, facts_fault

_OF_MCP = ("command", "cwd", "env", "timeout_seconds", "tools", "resources", "prompts")
_BEHIND = ("url", "urls", "headers", "auth", "max_in_flight")


def build_api(loaded: Loaded, server: Server) -> ApiUpstream:
    """Return the HTTP API of a view. Raises `ConfigurationError`."""
    place, default = loaded.place("upstream"), Server()
    for key in (*_OF_MCP, *_BEHIND):
        if getattr(server, key) != getattr(default, key):
            raise ConfigurationError(
                f'{place}.{key} is set, and {place}.protocol is "{server.protocol}": it would mean nothing',
                f"remove {place}.{key}",
            )
    if loaded.config.proofs.mode == "off":
        raise ConfigurationError(
            f'{place}.protocol is "{server.protocol}" and proofs.mode is "off": nothing would be asked of a request',
            'set proofs.mode = "required", or "observe"',
        )
    if server.proxy is None:
        raise ConfigurationError(
            f'{place}.protocol is "{server.protocol}", and no proxy is named',
            f'set {place}.proxy = "nginx", "envoy", "traefik" or "caddy"',
        )
    if loaded.config.admin.port is None:
        raise ConfigurationError(
            f"{place}: a proxy asks at the admin listener, and admin.port is not set", "set admin.port, such as 9464"
        )
    return ApiUpstream("authorize", _table(place, server), server.proxy)


def api_catalog(server: Server) -> Catalog:
    """Return the catalog of an HTTP API's routes."""
    return Catalog(routes={text: _entry(route) for text, route in server.routes.by_text.items()})


def check_mcp(place: str, server: Server) -> None:
    """Refuse an MCP server with keys of an HTTP API. Raises `ConfigurationError`."""
    for key in ("proxy", "routes"):
        if getattr(server, key) != getattr(Server(), key):
            raise ConfigurationError(
                f'{place}.{key} is for an HTTP API, and {place}.protocol is "mcp"',
                f'remove {place}.{key}, or set {place}.protocol = "authorize"',
            )


def _table(place: str, server: Server) -> RouteTable:
    routes = server.routes.by_text
    if not routes:
        raise ConfigurationError(
            f"{place} has no routes: every request would be refused",
            f'name some: [{place}.routes."GET /messages"] scope = "email:read"',
        )
    for text, route in routes.items():
        fault = source_fault(route.facts, read_route(text).names) or facts_fault(http_facts(route.facts).sources)
        if fault is not None:
            raise ConfigurationError(
                one_line(f'{place}.routes."{text}".facts: {fault}'),
                'take each fact from "path:NAME", "query:NAME" or "body:/POINTER", or give a constant',
            )
    try:
        return RouteTable(routes)
    except ValueError as error:
        raise ConfigurationError(one_line(f"{place}.routes {error}"), "keep one of them, or name them apart") from None


def _entry(route: ApiRoute) -> Entry:
    return Entry(
        scope=route.scope,
        accepts=tuple(route.accepts),
        marked_sensitive=route.sensitive,
        facts=http_facts(route.facts),
    )
