"""Shared helpers: the clock, logs, a bounded cache, text and addresses.

This is the lowest layer, above only errors and limits. The protocols' cores use the cache and the text helpers, but
neither the clock nor the logs.
"""
