"""JSON-RPC frames of MCP: bytes in, decisions out. No I/O.

`text` checks that a text is strict JSON; `frames` reads one message. `requests` reads what a client sends, and
`responses` decides whether an answer answers it. `methods`, `era` and `param_headers` have the rules of MCP's
revisions. `sse` and `lines` split streams into messages. `encode` writes the gateway's own messages.
"""
