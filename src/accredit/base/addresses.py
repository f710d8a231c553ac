"""Who is at an address, and from where it can be reached. No I/O: no name is looked up."""

import ipaddress
from functools import lru_cache

from accredit.limits import MAX_KNOWN_PEERS


def is_loopback_address(address: str) -> bool:
    """Whether an IP address is this machine's own. A name is no address, not even `localhost`."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def is_loopback_host(host: str) -> bool:
    """Whether only this machine can reach a host, as URLs and settings name it. `localhost` is the one name that
    counts."""
    return host == "localhost" or is_loopback_address(host.strip("[]"))


@lru_cache(MAX_KNOWN_PEERS)
def peer_of(address: str) -> str:
    """What counts as one peer: all of IPv6 that share their first 64 bits, as one machine has as many."""
    if ":" not in address:
        return address
    try:
        packed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(packed.ipv4_mapped or packed.packed[:8].hex())
