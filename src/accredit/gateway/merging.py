"""Makes the settings of the merged endpoint from those of several servers. No I/O.

- [shared] Settings that all servers share (roots, issuers, keys, bounds, quotas) also apply here. Proofs must name the
  gateway's own id. Of an issuer's audiences, only the gateway's is accepted. If calls of one server are only observed,
  calls of all are: otherwise that server's calls would be refused here.
- [catalogs] Catalogs and the scopes of tokens are the servers' own, under merged names (`policy.merging`).
- [pins] Where definitions are pinned, each server's tools are checked against the digests of its own definitions. A
  client's list is checked against the digests of the same definitions under merged names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from accredit.errors import ConfigurationError
from accredit.gateway.settings import GatewaySettings, MergedUpstream, ProofSettings, TokenSettings
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.objects import members
from accredit.pins.definitions import Definitions, Pins, digest_of
from accredit.policy.catalog import Catalog
from accredit.policy.merging import MergedCatalog, merged_name


def merged_settings(
    servers: Sequence[GatewaySettings], *, path: str, gateway_id: str, resource: str = "", pins: Pins | None = None
) -> GatewaySettings:
    """Return the settings of `servers` as one, at `path`. `resource` is the endpoint's URL as clients know it; tokens
    need it. `pins` are the pins of all tools, by merged name. Raises `ConfigurationError`."""
    if servers[0].tokens is not None and not resource:
        what = "tokens are on, and nobody says for which URL they are at the endpoint of all servers"
        raise ConfigurationError(what, "give merged_settings the resource")
    return replace(
        servers[0],
        upstream=MergedUpstream({each.server: each for each in servers}),
        server="",
        path=path,
        upstream_timeout_seconds=None,
        tells_identity=any(each.tells_identity for each in servers),
        identity=None,
        proofs=_proofs(servers, gateway_id),
        tokens=_tokens(servers, resource),
        quotas=structs.replace(servers[0].quotas, server="", merged=frozenset(each.server for each in servers)),
        pins=pins,
    )


def _proofs(servers: Sequence[GatewaySettings], gateway_id: str) -> ProofSettings | None:
    if len({each.observes for each in servers}) > 1:
        what = "calls of some servers are only observed, and those of others are not"
        raise ConfigurationError(what, "give all servers the same mode of proofs, or don't merge them")
    found = next((each.proofs for each in servers if each.proofs is not None), None)
    if found is None:
        return None
    catalogs = {each.server: Catalog() if each.proofs is None else each.proofs.policy.catalog for each in servers}
    catalog = MergedCatalog(by_server=catalogs)
    id = gateway_id if found.judged else ""
    policy = structs.replace(
        found.policy,
        verifier_id=id,
        server="",
        catalog=catalog,
        vocabulary=catalog.vocabulary().union(*(each.proofs.policy.vocabulary for each in servers if each.proofs)),
        quotas=structs.replace(found.policy.quotas, server="", merged=frozenset(catalogs)),
    )
    return replace(found, policy=policy)


def _tokens(servers: Sequence[GatewaySettings], resource: str) -> TokenSettings | None:
    tokens = servers[0].tokens
    if tokens is None:
        return None
    scopes = {
        merged_name(each.server, tool): scope
        for each in servers
        if each.tokens is not None
        for tool, scope in each.tokens.tool_scopes.items()
    }
    return replace(
        tokens,
        issuers=tuple(structs.replace(each, server_audience="") for each in tokens.issuers),
        resource=resource,
        tool_scopes=scopes,
        bootstrap=None,
        servers=tuple(each.server for each in servers),
    )


def merged_pins(pins: Pins, pinned: Mapping[str, Definitions | None]) -> Pins:
    """Return the pins of several servers ([pins]). `pinned` has the definitions by server. `pins` has the settings that
    all share."""
    own: dict[str, str] = {}
    listed: dict[str, str] = {}
    for server, definitions in pinned.items():
        for name, definition in definitions.tools.items() if definitions is not None else ():
            merged = merged_name(server, name)
            renamed = digest_of(with_members(members(definition.text), {"name": merged}))
            if definition.sha256 is not None and renamed is not None:
                own[merged], listed[merged] = definition.sha256, renamed
    return structs.replace(pins, tools=own, instructions=None, listed=listed)
