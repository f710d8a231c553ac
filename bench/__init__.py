"""Benchmarks: what the gateway costs beside nginx and no proxy at all, measured side by side. Not installed.

`python -m bench --help` says how to run it; `docs/reference/performance.md` what the figures mean.
"""
