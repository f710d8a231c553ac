"""The gateway's outbound HTTP, bounded and isolated: key sets of issuers, tokens for upstream servers, and telemetry.
I/O: the network.

- `fetch`: fetches one key set. `key_sets`: has all issuers' keys, fetched when needed.
- `token_endpoint`: one request to an authorization server. `access_tokens`: caches access tokens. `introspection`: asks
  issuers about tokens that are not JWTs.
- `registries`: asks whether a root descends from a pinned key.
- `otlp`: sends telemetry.
"""

from accredit.net.access_tokens import AccessTokens
from accredit.net.key_sets import IssuerKeys

__all__ = ["AccessTokens", "IssuerKeys"]
