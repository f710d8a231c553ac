"""Assembles the gateway and puts it on the network: the adapters, the socket, the server and its workers."""
