"""JSON-RPC frames of MCP: bytes in, decisions out. No I/O.

`text` checks that a text is strict JSON; `frames` reads one message. `requests` reads what a client sends, and
`responses` decides whether an answer answers it. `era` has the methods of MCP's revisions and, with
`param_headers`, the rules of its headers. `sse` and `lines` split streams into messages. `encode` writes the gateway's own messages.
"""
