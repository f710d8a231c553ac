"""Shared helpers: the clock, logs, a bounded memory, text and addresses.

The lowest layer, above only errors and limits. The cores use its memory and text, but not the clock or the logs.
"""
