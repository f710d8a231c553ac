"""Telemetry: counts, traces of calls, and the export of both.

Calls only touch plain Python: `Operation` (measures one request), `Meter` (of one server), `Board` (the counts of all
workers, in shared memory). The libraries of the extra `accredit[telemetry]` are only loaded for rendering
(`exposition`) and sending (`export`).

Nothing that a peer sends gets into a metric, a span or a label, with these exceptions: values on our own lists
(`labels`), trace ids, and numeric request ids.
"""
