"""Lists what a server offers, asked as different hosts would: over HTTP, from a child process, or in memory. I/O."""
