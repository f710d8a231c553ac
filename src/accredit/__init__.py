"""The trust layer of the Model Context Protocol.

Importing this package gives the version and nothing else; each part is imported by itself
(`accredit.gateway`, `accredit.jsonrpc`, ...).
"""

__version__ = "0.1.0"
