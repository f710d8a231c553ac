"""Outbound HTTP of the gateway's own, bounded and fenced: the key sets of issuers. I/O: the network.

`fetch` one key set · `key_sets` the keys of all issuers, fetched when they are needed.
"""

from accredit.net.key_sets import IssuerKeys

__all__ = ["IssuerKeys"]
