"""Builds an agent from a `[servers.NAME]` with `protocol = "a2a"`: what messages to it need, where it is, and its card.
I/O as `http_upstream`.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- it has nothing that belongs to an MCP server or an HTTP API alone, and proofs are judged (`apis`);
- there is a scope for messages;
- there is one URL, without a query;
- no URL has a fragment.
"""

from collections.abc import Mapping

from accredit.a2a.call import skill_entries
from accredit.config.http_upstream import build_http_upstream
from accredit.config.load import Loaded
from accredit.config.schema import Resource, Server
from accredit.errors import ConfigurationError
from accredit.gateway.settings import AgentSettings, ApiUpstream
from accredit.http_api.routes import RouteTable
from accredit.policy.catalog import Catalog, Entry


def build_agent(loaded: Loaded, server: Server, environ: Mapping[str, str]) -> ApiUpstream:
    """Return the agent of a view, whose keys and proofs were checked. Raises `ConfigurationError`."""
    place = loaded.place("upstream")
    if not server.scope:
        raise ConfigurationError(
            f"{place}.scope is not set: every message would be refused", f'set {place}.scope, such as "agent:ask"'
        )
    urls = server.addresses
    if not urls:
        raise ConfigurationError(f"{place}: url is not set", f"set {place}.url, where the agent takes JSON-RPC")
    if len(urls) > 1:
        raise ConfigurationError(
            f"{place}.urls names several: a task is at one of them alone", f"set {place}.url, or put a proxy between"
        )
    for key, url in [("url", urls[0]), *(("push_urls", url) for url in server.push_urls)]:
        if "?" in url and key == "url":
            raise ConfigurationError(f"{place}.url of an agent should hold no query", "put a key into headers")
        if "#" in url:
            raise ConfigurationError(f"{place}.{key} should hold no fragment", "leave it out")
    agent = AgentSettings(
        server.card_path,
        (server.public_url or "").rstrip("/"),
        loaded.config.gateway.tls_cert_file is not None,
        tuple(server.push_urls),
        server.client_contexts,
    )
    behind = build_http_upstream(loaded, environ, urls)
    return ApiUpstream("a2a", RouteTable(()), None, behind, (), agent)


def agent_catalog(server: Server) -> Catalog:
    """Return the catalog of an agent: what messages need, by the skill that they name."""
    skills = {id: _entry(skill) for id, skill in server.skills.by_id.items()}
    return Catalog(routes=skill_entries(Entry(scope=server.scope), skills))


def _entry(skill: Resource) -> Entry:
    return Entry(scope=skill.scope, accepts=tuple(skill.accepts), marked_sensitive=skill.sensitive)
