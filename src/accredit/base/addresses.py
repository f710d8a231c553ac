"""Facts about addresses: the peer behind an IP address, the reach of a host, and equal paths. No I/O, no name
resolution."""

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

MAX_KNOWN_PEERS = 1_024
"""For how many client addresses the peer is cached (about 200 bytes each), so that it is not computed again for every
request."""
MAX_PROXIES_ON_THE_WAY = 16
"""How many proxies in a row are believed about where a request comes from. Few have more than a CDN, a load balancer
and a proxy of their own."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_AUTHORITY = re.compile(r"(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::[0-9]*)?")  # RFC 3986, section 3.2, without a user

_GIVEN_OUT, _LEADING_ELSEWHERE = ipaddress.IPv6Network("2000::/3"), ipaddress.IPv6Network("2002::/16")
_PROTOCOLS_OWN = ipaddress.IPv4Network("192.0.0.0/24")  # a cloud has its metadata there


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
    """Return whether an IP address is one of the public Internet. For IPv6, these are the global unicast addresses
    (2000::/3). IPv6 addresses that contain an IPv4 address (6to4, NAT64) don't count as public, as the IPv4 address in
    them may be private."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    if isinstance(parsed, ipaddress.IPv6Address):
        return parsed.is_global and parsed in _GIVEN_OUT and parsed not in _LEADING_ELSEWHERE
    return parsed.is_global and not parsed.is_multicast and parsed not in _PROTOCOLS_OWN


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


def client_address(address: str, forwarded: Sequence[bytes], proxies: Collection[Network]) -> str:
    """Return the address of a request's client: the last address on the way that does not belong to a trusted proxy
    (`proxies`).

    `address` is that of the connection, and `forwarded` are the fields `X-Forwarded-For`, to which each proxy has added
    the address from which it got the request. They are read from their end, and only as far as trusted proxies have
    written them. If what a proxy has written is no address, or more than `MAX_PROXIES_ON_THE_WAY` proxies have written
    there, `address` is returned.
    """
    found = _parse_hop(address)
    hops = b",".join(forwarded).rsplit(b",", MAX_PROXIES_ON_THE_WAY - 1) if forwarded else []
    for hop in reversed(hops):
        if found is None or not any(found in network for network in proxies):
            break
        found = _parse_hop(hop.decode("latin-1").strip(" \t"))
    return address if found is None else str(found)


def _parse_hop(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address that may have a port after it; None for anything else."""
    match = _AUTHORITY.fullmatch(text)
    try:
        found = ipaddress.ip_address((match[1] or match[2]) if match is not None else text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def is_address(authority: str) -> bool:
    """Return whether an authority (`host` or `host:port`) names its host by an IP address."""
    return _AUTHORITY.fullmatch(authority) is not None and _parse_hop(authority) is not None


def without_slash(path: str) -> str:
    """Return a path without its final slash: `/mcp/` becomes `/mcp`. `/` stays, and so does a path that ends with two
    slashes."""
    return path[:-1] if len(path) > 1 and path.endswith("/") and not path.endswith("//") else path
