"""From `[gateway] merge` to the settings of all servers as one. Reads the lock.

There must be several servers, named in `[servers]`. `gateway.merging` combines their settings.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from accredit.config.attest import gateway_id
from accredit.config.load import Loaded
from accredit.config.pins import read_pinned
from accredit.config.servers import views
from accredit.config.tokens import resource_of
from accredit.errors import ConfigurationError
from accredit.gateway.merging import merged_pins, merged_settings
from accredit.gateway.settings import ApiUpstream, GatewaySettings


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
        resource=resource_of(loaded, tuple(replace(each, server_audience="") for each in issuers)),
        pins=merged_pins(first.pins, {each.server: read_pinned(each) for each in views(loaded)})
        if first.pins
        else None,
    )
