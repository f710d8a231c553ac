"""Servers that are child processes. `serve -- COMMAND` makes one reachable over HTTP, `wrap -- COMMAND` over stdio."""
