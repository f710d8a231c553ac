"""Times a store's operations. Reads a clock."""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any, cast

from accredit.ports import ProofStore
from accredit.telemetry.metrics import Histogram

_TIMED = ("issue", "look", "spend", "uses", "use", "room_at")


def time_store(store: ProofStore, seconds: Histogram[str]) -> ProofStore:
    """Return a store that does what `store` does. How long each operation takes, whatever its result, goes into
    `seconds`."""
    timed = {op: partial(_time, op, getattr(store, op), seconds) for op in _TIMED}
    others = {"ready": store.ready, "problem": store.problem, "aclose": store.aclose}
    return cast("ProofStore", SimpleNamespace(**timed, **others))


async def _time(
    op: str, ask: Callable[..., Awaitable[Any]], seconds: Histogram[str], *values: object, **named: object
) -> Any:
    began = perf_counter()
    try:
        return await ask(*values, **named)
    finally:
        seconds.observe(op, perf_counter() - began)
