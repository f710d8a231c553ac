"""The upstream's HTTP side: a lean HTTP/1.1 client with bounds against a hostile server.

`parsing` and `encoding` are pure; `dialing` and `connection` touch the network; `client` is what the gateway uses.
"""
