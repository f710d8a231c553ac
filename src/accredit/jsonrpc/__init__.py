"""JSON-RPC frames of MCP: bytes in, decisions out. No I/O.

`text` checks that a text is strict JSON; `frames` reads one message. `requests` reads what a client sends, and
`responses` decides whether an answer answers it. `methods`, `era` and `param_headers` hold what the revisions of MCP
demand. `sse` and `lines` split streams into messages. `encode` writes what the gateway itself says.
"""
