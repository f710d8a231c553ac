"""Puts the gateway on the network: the listening socket, the HTTP/1.1 server around the application, and workers."""

from accredit.app.listener import address_of, allow_descriptors, open_listener
from accredit.app.server import serve
from accredit.app.workers import run_workers

__all__ = ["address_of", "allow_descriptors", "open_listener", "run_workers", "serve"]
