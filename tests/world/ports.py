"""Ports for programs that have to be told theirs. I/O: sockets on 127.0.0.1."""

import socket


def free_port() -> int:
    """A port that nobody else gets within the next minute.

    A connection to it was closed here, and the kernel remembers it that long: meanwhile it gives the port to nobody who
    asks for any, but to a server (with `SO_REUSEADDR`, as they have it) that asks for this one.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            accepted.close()
            client.recv(1)  # until the other side is closed: the side that closes first is the one that waits
    return port
