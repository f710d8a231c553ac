"""The gateway's outbound HTTP, bounded and isolated: key sets of issuers, tokens for upstream servers, and telemetry.
I/O: the network.

`fetch` one key set · `key_sets` all issuers' keys, fetched when needed · `token_endpoint` one access token ·
`access_tokens` the cached ones · `otlp` sending telemetry.
"""

from accredit.net.access_tokens import AccessTokens
from accredit.net.key_sets import IssuerKeys

__all__ = ["AccessTokens", "IssuerKeys"]
