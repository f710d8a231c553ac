"""Requests of HTTP APIs, as far as they are decided: what they are about, and what a proof for one is bound to. No I/O.

- `targets`: the one spelling of a path that is taken; `routes`: which route a path is
- `facts`: facts of a request, for constraints and quotas
- `call`: a request as the decision sees it; `policy.decide` decides it as it decides a call of MCP
- `wire`: the header that carries a proof, and what a client is told
"""
