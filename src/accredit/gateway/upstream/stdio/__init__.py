"""Servers that are child processes: `serve -- COMMAND` puts HTTP before one, `wrap -- COMMAND` a second stdio."""
