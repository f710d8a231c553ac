"""A port on which nobody listens for as long as a test wants it so. I/O: a socket of 127.0.0.1."""

import contextlib
import socket
from collections.abc import Generator


@contextlib.contextmanager
def reserved_port() -> Generator[int]:
    """A port of 127.0.0.1 that refuses connections, and that the system gives to nobody else meanwhile.

    Who is told its number can listen on it, as servers do, with `SO_REUSEADDR`.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
