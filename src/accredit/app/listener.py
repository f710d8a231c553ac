"""Opens the listening socket before anything else starts, so that an occupied port is a clean error.

Also raises the limits for the connections that it will accept.
"""

import errno
import ipaddress
import os
import resource
import socket

from accredit.app.port_holder import find_holder
from accredit.errors import ConfigurationError
from accredit.limits import LISTEN_BACKLOG

MAX_DESCRIPTORS = 49_152
"""How many files a process may open: twice `MAX_CLIENT_CONNECTIONS`. Many systems start with a limit of 1,024."""
MAX_CLIENT_CONNECTIONS = 24_576
"""The most client connections at one time: half of the descriptors, as the others are for connections to upstreams.
Hosts keep idle connections open, and each takes 2 to 4 KB. The limits of streams, calls and slow bodies are lower, so
there is always an idle connection to close."""
MAX_TLS_CONNECTIONS = 4_096
"""The most client connections at one time with TLS, where an idle one takes some 50 KB."""
MAX_TLS_HANDSHAKES = 512
"""The most connections in the TLS handshake, in addition to those that have finished it. Honest clients take two round
trips, so this leaves room for some hundred a second. Above it, one is dropped: the oldest of the address that has
most."""


def open_listener(host: str, port: int, section: str = "gateway") -> socket.socket:
    """Return a socket that listens on `host` (an address or a name; IPv4 is preferred). `section` is the table of the
    configuration that errors name. Raises `ConfigurationError`."""
    host = host.removeprefix("[").removesuffix("]")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise ConfigurationError(
            f"can't listen on {host!a}: no address of that name", f"correct {_host_of(section)}"
        ) from None
    family, kind, protocol, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(LISTEN_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _listen_error(host, port, error, section) from None
    return listener


def allow_descriptors() -> None:
    """Raise the soft limit on open files to `MAX_DESCRIPTORS`, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def client_connections(*, tls: bool = False) -> int:
    """Return the limit of client connections: at most half of the descriptors, as upstreams need some, too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_TLS_CONNECTIONS if tls else MAX_CLIENT_CONNECTIONS
    return most if soft == resource.RLIM_INFINITY else min(most, soft // 2)


def client_handshakes() -> int:
    """Return how many TLS handshakes may be under way, in addition to connections: an eighth as many."""
    return max(1, client_connections(tls=True) * MAX_TLS_HANDSHAKES // MAX_TLS_CONNECTIONS)


def address_of(listener: socket.socket) -> str:
    """Return the `host:port` of a listening socket, as URLs write it."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ipaddress.ip_address(host).version == 6 else f"{host}:{port}"


def _host_of(section: str) -> str:
    return "gateway.host or --host" if section == "gateway" else f"{section}.host"


def _listen_error(host: str, port: int, error: OSError, section: str) -> ConfigurationError:
    if error.errno == errno.EADDRINUSE:
        other = "--port 0" if section == "gateway" else f"{section}.port = 0"
        holder = find_holder(port)
        what = "the port is taken" if holder is None else f"the port is taken: {holder}"
        stop = "stop what listens there" if holder is None else f"end that one (kill {holder.pid})"
        remedy = f"{stop}, or choose another: {other} finds one"
    elif error.errno == errno.EACCES:
        what, remedy = "not permitted", "choose a port from 1024 on"
    elif error.errno == errno.EADDRNOTAVAIL:
        what, remedy = "not an address of this machine", f"correct {_host_of(section)}"
    else:
        what, remedy = os.strerror(error.errno or 0), f"choose another {section}.host and {section}.port"
    return ConfigurationError(f"can't listen on {ascii(host)[1:-1]} port {port}: {what}", remedy)
