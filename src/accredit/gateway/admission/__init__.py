"""Decides whether a client's message is forwarded, on whose authority, and in which form."""
