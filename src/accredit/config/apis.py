"""Builds an HTTP API from a `[servers.NAME]` whose protocol is not MCP: its routes, and how to reach it. Same I/O as
`http_upstream`. With `protocol = "a2a"` it is an agent (`agents`).

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- no key of an HTTP API is set for an MCP server (`check_mcp`), and no key of an MCP server for an API;
- proofs are judged (required or observed): otherwise nothing would be decided about a request;
- with `protocol = "authorize"`, a proxy is named, and there is an [admin] listener for its questions. With "http",
  there is a URL without a query, and the path on the gateway is one that requests can have;
- there are routes, no request could match two of them (`http_api.routes`), and their facts are taken from the request.
"""

from collections.abc import Mapping, Sequence

from accredit.config.http_upstream import build_http_upstream
from accredit.config.load import Loaded
from accredit.config.schema import ApiRoute, Server
from accredit.errors import ConfigurationError, RequestError
from accredit.gateway.settings import ApiUpstream, Proxy
from accredit.http_api.facts import http_facts, source_fault
from accredit.http_api.routes import RouteTable, read_route
from accredit.http_api.targets import read_target
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.drill import DRILL_PATHS
from accredit.policy.facts import facts_fault

_OF_MCP = ("command", "cwd", "env", "tools", "resources", "prompts")
_BEHIND = ("url", "urls", "headers", "auth", "max_in_flight", "timeout_seconds", "path", "forward_headers")
OF_AGENTS = ("scope", "skills", "push_urls", "client_contexts", "card_path", "public_url")
_OF_OTHERS = {
    "http": ("proxy", *OF_AGENTS),
    "authorize": (*_BEHIND, *OF_AGENTS),
    "a2a": ("proxy", "routes", "forward_headers"),
}
"""The keys that mean nothing, by protocol, besides those of an MCP server."""
_OWN_PATHS = ("/v1/ratify/", "/.well-known/", "/token/", "/sse/", "/messages/")
"""Paths that the gateway itself answers, at least in some configurations. No API can have one."""


def build_api(loaded: Loaded, server: Server, environ: Mapping[str, str]) -> ApiUpstream:
    """Return the HTTP API of a view. Raises `ConfigurationError`."""
    place = loaded.place("upstream")
    _check_keys(place, server, (*_OF_MCP, *_OF_OTHERS[server.protocol]))
    if loaded.config.proofs.mode == "off":
        raise ConfigurationError(
            f'{place}.protocol is "{server.protocol}" and proofs.mode is "off": nothing would be asked of a request',
            'set proofs.mode = "required", or "observe"',
        )
    if server.protocol == "a2a":
        from accredit.config.agents import build_agent  # noqa: PLC0415 - few gateways have an agent

        return build_agent(loaded, server, environ)
    if server.protocol == "authorize":
        return ApiUpstream("authorize", _table(place, server), _proxy(loaded, place, server))
    urls = server.addresses
    if not urls:
        raise ConfigurationError(f"{place}: url is not set", f"set {place}.url, where the API is")
    if any("?" in url for url in urls):
        raise ConfigurationError(f"{place}.url of an HTTP API should hold no query", "put a key into headers")
    behind = build_http_upstream(loaded, environ, urls)
    return ApiUpstream("http", _table(place, server), None, behind, tuple(server.forward_headers))


def check_api_path(place: str, server: Server) -> None:
    """Check that requests can have the path of an HTTP API behind the gateway. Raises `ConfigurationError`."""
    path = server.path
    if path is None:
        raise ConfigurationError(
            f'{place}.protocol is "{server.protocol}", and {place}.path is not set',
            f'set {place}.path, such as "{"/api/mail" if server.protocol == "http" else "/agents/mail"}"',
        )
    try:
        segments = read_target(path.encode("utf-8")).segments
    except RequestError as error:
        raise ConfigurationError(f"{place}.path: {error.detail}", "give it a plain path") from None
    if "" in segments or f"{path}/".startswith(_OWN_PATHS):
        raise ConfigurationError(
            f"{place}.path should name a place of its own, without a slash at its end", 'such as "/api/mail"'
        )


def _proxy(loaded: Loaded, place: str, server: Server) -> Proxy:
    if server.proxy is None:
        raise ConfigurationError(
            f'{place}.protocol is "{server.protocol}", and no proxy is named',
            f'set {place}.proxy = "nginx", "envoy", "traefik" or "caddy"',
        )
    if loaded.config.admin.port is None:
        raise ConfigurationError(
            f"{place}: a proxy asks at the admin listener, and admin.port is not set", "set admin.port, such as 9464"
        )
    return server.proxy


def _check_keys(place: str, server: Server, others: Sequence[str]) -> None:
    default = Server()
    for key in others:
        if getattr(server, key) != getattr(default, key):
            raise ConfigurationError(
                f'{place}.{key} is set, and {place}.protocol is "{server.protocol}": it would mean nothing',
                f"remove {place}.{key}",
            )


def api_catalog(server: Server) -> Catalog:
    """Return the catalog of an HTTP API's routes, or of an agent's skills."""
    if server.protocol == "a2a":
        from accredit.config.agents import agent_catalog  # noqa: PLC0415 - as above

        return agent_catalog(server)
    return Catalog(routes={text: _entry(route) for text, route in server.routes.by_text.items()})


def check_mcp(place: str, server: Server) -> None:
    """Refuse an MCP server with keys of an HTTP API or an agent. Raises `ConfigurationError`."""
    for key in ("proxy", "routes", "path", "forward_headers", *OF_AGENTS):
        if getattr(server, key) != getattr(Server(), key):
            kind, others = ("an agent", '"a2a"') if key in OF_AGENTS else ("an HTTP API", '"http" or "authorize"')
            raise ConfigurationError(
                f'{place}.{key} is for {kind}, and {place}.protocol is "mcp"',
                f"remove {place}.{key}, or set {place}.protocol = {others}",
            )


def _table(place: str, server: Server) -> RouteTable:
    routes = server.routes.by_text
    if not routes:
        raise ConfigurationError(
            f"{place} has no routes: every request would be refused",
            f'name some: [{place}.routes."GET /messages"] scope = "email:read"',
        )
    for text, route in routes.items():
        if text in DRILL_PATHS.values():
            raise ConfigurationError(f'{place}.routes."{text}" is a route of the gateway\'s own', "remove it")
        fault = source_fault(route.facts, read_route(text).names) or facts_fault(http_facts(route.facts).sources)
        if fault is not None:
            raise ConfigurationError(
                f'{place}.routes."{text}".facts: {fault}',
                'take each fact from "path:NAME", "query:NAME" or "body:/POINTER", or give a constant',
            )
    try:
        return RouteTable(routes)
    except ValueError as error:
        raise ConfigurationError(f"{place}.routes {error}", "keep one of them, or name them apart") from None


def _entry(route: ApiRoute) -> Entry:
    return Entry(
        scope=route.scope,
        accepts=tuple(route.accepts),
        marked_sensitive=route.sensitive,
        facts=http_facts(route.facts),
    )
