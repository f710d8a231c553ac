"""Shared helpers: the clock, logs, a bounded memory, text and addresses.

This is the lowest layer, above only errors and limits. The protocols' cores use its memory and text, but not its clock
or logs.
"""
