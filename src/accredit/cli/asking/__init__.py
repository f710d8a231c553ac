"""What a server offers, found by asking as hosts of all kinds would: over HTTP, of a child process, or in memory.
I/O."""
