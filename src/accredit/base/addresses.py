"""Facts about addresses: the peer behind an IP address, the reach of a host, and equal paths. No I/O, no name
resolution."""

import ipaddress
import re
from functools import lru_cache

MAX_KNOWN_PEERS = 1_024
"""For how many client addresses the peer is cached (about 200 bytes each), so that it is not computed again for every
request."""


_AUTHORITY = re.compile(r"(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::[0-9]*)?")  # RFC 3986, section 3.2, without a user

_LEADING_ELSEWHERE = tuple(map(ipaddress.IPv6Network, ("2002::/16", "64:ff9b::/96")))


def is_loopback_address(address: str) -> bool:
    """Return whether an IP address is this machine's own. A name is not an address, not even `localhost`."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine can reach a host, as written in URLs and settings. The only name that counts is
    `localhost`."""
    return host == "localhost" or is_loopback_address(host.strip("[]"))


def is_public_address(address: str) -> bool:
    """Return whether an IP address is one of the public Internet. Addresses that contain an IPv4 address (6to4, NAT64)
    are not: they lead to wherever that one does."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if any(parsed in network for network in _LEADING_ELSEWHERE):
            return False
        parsed = parsed.ipv4_mapped or parsed
    return parsed.is_global and not parsed.is_multicast


@lru_cache(MAX_KNOWN_PEERS)
def peer_of(address: str) -> str:
    """Return an identifier of the peer behind an address. For IPv6 that is the first 64 bits, as one machine can have
    every address in such a network."""
    if ":" not in address:
        return address
    try:
        packed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(packed.ipv4_mapped or packed.packed[:8].hex())


def is_address(authority: str) -> bool:
    """Return whether an authority (`host` or `host:port`) names its host by an IP address."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return False
    try:
        ipaddress.ip_address(match[1] or match[2])
    except ValueError:
        return False
    return True


def without_slash(path: str) -> str:
    """Return a path without its final slash: `/mcp/` becomes `/mcp`. `/` stays, and so does a path that ends with two
    slashes."""
    return path[:-1] if len(path) > 1 and path.endswith("/") and not path.endswith("//") else path
