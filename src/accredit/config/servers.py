"""Makes a view of the configuration for each of `[servers]`, as if that server were the only one. No I/O.

In a view, the server's own keys take the place of `[upstream]`, `[tools]`, `[resources]` and `[prompts]`, and the
endpoint is at `<gateway.path>/NAME`. So code that expects a configuration of one server also accepts a view.

- If there are several servers, `gateway.passthrough` can't be set, as its paths don't name a server.
- No endpoint is a path that the gateway itself answers.
- `every_view` also gives the views of HTTP APIs. `views` gives only those of MCP servers.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from msgspec.structs import replace as changed

from accredit.config.apis import check_api_path, check_mcp
from accredit.config.listen import url_here
from accredit.config.load import Loaded, Origin
from accredit.config.schema import Server, Servers, Upstream
from accredit.config.section import keys
from accredit.config.values import ServerName, WrongValue, check, check_endpoint
from accredit.errors import ConfigurationError
from accredit.gateway.settings import AUTHORIZE_PATH, check_apart


def check_server_name(name: str, what: str) -> None:
    """Refuse an invalid server name. Raises `ConfigurationError`."""
    try:
        check(ServerName, name, (what,))
    except WrongValue as error:
        raise ConfigurationError(f"{what} {name!a}: {error.text}", "give the server a name such as mail") from None


def views(loaded: Loaded) -> list[Loaded]:
    """Return a view for each of several MCP servers; with one server, the configuration itself. Raises
    `ConfigurationError`, also if there is no MCP server."""
    found = [each for each in every_view(loaded) if each.api is None]
    if not found:
        raise ConfigurationError(
            "[servers] names HTTP APIs alone, and this is about MCP servers",
            "name that of an MCP server; routes are checked by accredit check NAME --openapi DOCUMENT",
        )
    return found


def every_view(loaded: Loaded) -> list[Loaded]:
    """Return a view for each of several servers and HTTP APIs; with one server, the configuration itself. Raises
    `ConfigurationError`."""
    servers = loaded.config.servers.by_name
    if not servers:
        return [loaded]
    if loaded.config.gateway.passthrough:
        raise ConfigurationError(
            "gateway.passthrough is set, and [servers] names several: to which would these paths go?",
            "remove gateway.passthrough",
        )
    found = [_view(loaded, name, server) for name, server in servers.items()]
    config = loaded.config
    paths = [(each.api, f"servers.{each.server}", each.config.gateway.path) for each in found]
    behind = {place: path for api, place, path in paths if api is not None and api.protocol in _BEHIND}
    served = {place: path for api, place, path in paths if api is None}
    served |= {"gateway": config.gateway.path} if config.gateway.merge else {}
    is_public = config.ratify_http.enabled and config.ratify_http.listener == "public"
    check_apart(behind, served, ratify_http=is_public, oauth=config.oauth.enabled)
    return found


def _is_served(each: Loaded) -> bool:
    """Return whether requests to a view's server come to the gateway's own listener."""
    return each.api is None or each.api.protocol in _BEHIND


def endpoints(loaded: Loaded) -> list[str]:
    """Return the URLs of a gateway's endpoints, for programs on this machine: first the gateway's own, if servers are
    merged or there is only one; then that of each server. Raises `ConfigurationError`."""
    gateway, servers = loaded.config.gateway, loaded.config.servers.by_name
    whole = [url_here(gateway)] if servers and gateway.merge else []
    own = [each for each in every_view(loaded) if _is_served(each)]
    return [*whole, *(url_here(each.config.gateway) for each in own)]


def view(loaded: Loaded, name: str) -> Loaded:
    """Return the view for one MCP server. Raises `ConfigurationError` if there is none of that name."""
    for each in every_view(loaded):
        if each.server == name and each.api is None:
            return each
        if each.server == name:
            kind = "an HTTP API" if each.api is None or each.api.protocol != "a2a" else "an agent"
            raise ConfigurationError(
                f"servers.{name} is {kind}, and this is about MCP servers",
                f"name another one; routes are checked by accredit check {name} --openapi DOCUMENT"
                if kind == "an HTTP API"
                else "name another one",
            )
    if loaded.file is None:
        raise ConfigurationError(f"there is no configuration that has a server {name!a}", "name one with --config")
    known = ", ".join(loaded.config.servers.by_name)
    raise ConfigurationError(
        f"no server is called {name!a}",
        f"name one of {known}" if known else "leave the name out: there is one",
    )


def only_server(loaded: Loaded) -> str | None:
    """Return the name of the one MCP server in `[servers]`, or None if there are none or several. Raises
    `ConfigurationError`."""
    found = [each.server for each in every_view(loaded) if each.server and each.api is None]
    return found[0] if len(found) == 1 else None


_BEHIND = ("http", "a2a")
"""The protocols of servers with a path of their own."""


def _path_of(server: Server, name: str, gateway: str) -> str:
    if server.protocol == "authorize":
        return AUTHORIZE_PATH + name
    return server.path or "" if server.protocol in _BEHIND else f"{gateway.rstrip('/')}/{name}"


def _view(loaded: Loaded, name: str, server: Server) -> Loaded:
    gateway = loaded.config.gateway
    path = _path_of(server, name, gateway.path)
    if server.protocol in _BEHIND:
        check_api_path(f"servers.{name}", server)
    try:
        check_endpoint(path)
    except ValueError as error:
        raise ConfigurationError(f"servers.{name}: its path {path} {error}", "give the server another name") from None
    config = changed(
        loaded.config,
        gateway=changed(
            gateway, path=path, upstream_timeout_seconds=server.timeout_seconds or gateway.upstream_timeout_seconds
        ),
        upstream=Upstream(**{key: getattr(server, key) for key in keys(Upstream)}),
        servers=Servers(),
        tools=server.tools,
        resources=server.resources,
        prompts=server.prompts,
    )
    origins = dict(chain(loaded.origins.items(), _origins(loaded, name, server)))
    api = server if server.protocol != "mcp" else None
    if api is None:
        check_mcp(f"servers.{name}", server)
    return replace(loaded, config=config, origins=origins, server=name, api=api)


def _origins(loaded: Loaded, name: str, server: Server) -> Iterator[tuple[tuple[str, str], Origin]]:
    origin = loaded.origins["servers", name]
    default = Server()
    yield from ((("upstream", key), origin) for key in keys(Upstream) if getattr(server, key) != getattr(default, key))
    if server.timeout_seconds is not None:
        yield ("gateway", "upstream_timeout_seconds"), origin
