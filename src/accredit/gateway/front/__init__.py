"""Ways in: each takes a client's message off its transport, has it admitted, and returns the answer to the client.

`endpoint` streamable HTTP, both eras · `legacy_sse` HTTP+SSE of 2024-11-05 · `wrap` a host at our own stdin and stdout.
"""
