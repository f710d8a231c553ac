"""From `[gateway] merge` to the settings of all servers as one. Reads the lock.

1. There are several servers, named in `[servers]`.
2. Where definitions are pinned, each server's tools are held to the digests of its own definitions, and a client's list
   to those of the same definitions under their merged names (`policy.merging`).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from accredit.config.attest import gateway_id
from accredit.config.load import Loaded
from accredit.config.pins import read_pinned
from accredit.config.servers import views
from accredit.config.tokens import resource_of
from accredit.errors import ConfigurationError
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import GatewaySettings
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.objects import members
from accredit.pins import Pins, digest_of
from accredit.policy.merging import merged_name


def build_merged(loaded: Loaded, servers: Sequence[GatewaySettings]) -> GatewaySettings:
    """Return the settings of `servers` as one. Raises `ConfigurationError`."""
    first = servers[0]
    if not first.server:
        raise ConfigurationError(
            "gateway.merge is set, and [servers] names none: there is nothing to merge", "remove gateway.merge"
        )
    proves = first.proofs is not None and first.proofs.required
    issuers = first.tokens.issuers if first.tokens is not None else ()
    return merged_settings(
        servers,
        path=loaded.config.gateway.path,
        gateway_id=gateway_id(loaded) if proves else "",
        resource=resource_of(loaded, tuple(replace(each, server_audience="") for each in issuers)),
        pins=_pins(loaded, first.pins) if first.pins is not None else None,
    )


def _pins(loaded: Loaded, pins: Pins) -> Pins:
    """Return the pins of all servers; `pins` are those of one."""
    own: dict[str, str] = {}
    listed: dict[str, str] = {}
    for view in views(loaded):
        definitions = read_pinned(view)
        for name, definition in definitions.tools.items() if definitions is not None else ():
            merged = merged_name(view.server, name)
            renamed = digest_of(with_members(members(definition.text), {"name": merged}))
            if definition.sha256 is not None and renamed is not None:
                own[merged], listed[merged] = definition.sha256, renamed
    return replace(pins, tools=own, instructions=None, listed=listed)
