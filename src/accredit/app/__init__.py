"""Puts the gateway together and on the network: who answers its questions, the socket, the server and its workers."""

from accredit.app.assemble import Ports, assemble
from accredit.app.listener import address_of, allow_descriptors, open_listener
from accredit.app.server import Ending, serve
from accredit.app.workers import run_workers

__all__ = ["Ending", "Ports", "address_of", "allow_descriptors", "assemble", "open_listener", "run_workers", "serve"]
