"""Asks an MCP server what it offers."""
