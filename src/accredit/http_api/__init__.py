"""Requests to HTTP APIs: what the decision needs to know of one, and what a proof for it is bound to. No I/O.

- `targets`: the only spelling of a path that is accepted; `routes`: the route that a request matches
- `facts`: facts of a request, which constraints and quotas use
- `call`: a request in the form in which `policy.decide` decides it, as it does MCP calls
- `wire`: the header that carries a proof, and what a client is told
"""
