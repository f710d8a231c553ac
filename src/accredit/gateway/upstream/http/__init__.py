"""The upstream's HTTP side: a lean HTTP/1.1 client with bounds against a hostile server.

`parsing` and `encoding` are pure; `connection` and `pool` touch the network; `answer` and `client` are what
the gateway uses.
"""
