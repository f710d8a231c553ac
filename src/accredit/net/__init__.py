"""The gateway's own outbound HTTP, bounded and fenced: the key sets of issuers. I/O: the network.

`fetch` one key set · `key_sets` the keys of all issuers, fetched when needed.
"""

from accredit.net.key_sets import IssuerKeys

__all__ = ["IssuerKeys"]
