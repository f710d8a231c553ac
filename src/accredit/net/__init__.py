"""The gateway's own outbound HTTP, bounded and fenced: key sets of issuers, tokens for the server behind it, and
telemetry. I/O: the network.

`fetch` one key set · `key_sets` the keys of all issuers, fetched when needed · `token_endpoint` one access token ·
`access_tokens` those that are in use · `otlp` sending telemetry.
"""

from accredit.net.access_tokens import AccessTokens
from accredit.net.key_sets import IssuerKeys

__all__ = ["AccessTokens", "IssuerKeys"]
