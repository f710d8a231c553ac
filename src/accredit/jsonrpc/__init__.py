"""JSON-RPC frames of MCP: bytes in, decisions out. No I/O.

`text` is strict JSON; `frames` one message; `requests` what a client sends; `responses` whether an answer
answers it; `methods`, `era` and `param_headers` what the revisions demand; `sse` and `lines` the framings;
`encode` what the gateway writes itself.
"""
