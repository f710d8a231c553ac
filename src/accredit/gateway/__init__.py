"""The data plane: a transparent MCP proxy that lets no malformed frame through."""

from accredit.gateway.app import Gateway, create_app
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import GatewaySettings, HttpUpstream, StdioUpstream

__all__ = ["Gateway", "GatewaySettings", "HttpUpstream", "StdioUpstream", "create_app", "merged_settings"]
