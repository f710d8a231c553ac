"""Honest stand-ins for the other side: servers, clients, and the gateway between them, over real sockets."""
