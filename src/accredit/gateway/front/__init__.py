"""Ways in: each reads a client's message from its transport, has it admitted, and returns the answer to the client.

`endpoint` streamable HTTP, both eras · `legacy_sse` HTTP+SSE of 2024-11-05 · `wrap` a host at our own stdin and stdout.
"""
