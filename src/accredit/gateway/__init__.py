"""The data plane: a transparent MCP proxy that lets no malformed frame through."""

import typing

from accredit.base.deferred import names_of as _names_of

if typing.TYPE_CHECKING:
    from accredit.gateway.app import Gateway, create_app
    from accredit.gateway.merging import merged_settings
    from accredit.gateway.settings import GatewaySettings, HttpUpstream, StdioUpstream

__all__ = ["Gateway", "GatewaySettings", "HttpUpstream", "StdioUpstream", "create_app", "merged_settings"]

# Imported on first use: the configuration and `accredit connect` need parts of it, a tenth of the import time.
__getattr__ = _names_of(
    __name__,
    {
        "create_app": "app",
        "Gateway": "app",
        "GatewaySettings": "settings",
        "HttpUpstream": "settings",
        "merged_settings": "merging",
        "StdioUpstream": "settings",
    },
)
