"""Builds the quotas that decisions apply, from `[[quotas]]`. No I/O.

- A quota has either `calls`, or `sum` and `limit`.
- Each call must have the property that a quota counts by. With proofs off, a call has no principal or agent; without
  tokens, it has no subject.
- A quota with `sum` adds up a fact. If it names a tool that is in the catalog, the catalog says where that fact is in
  the tool's arguments.
- Workers must share the counts: with more than one worker, the store is not in memory.
"""

from decimal import Decimal

from accredit.config.load import Loaded
from accredit.config.schema import Quota as Table
from accredit.config.store import check_workers_share
from accredit.errors import ConfigurationError
from accredit.policy.merging import merged_name
from accredit.policy.quotas import QUOTA_UNITS, Quota, Quotas, window_seconds

_OF_PROOFS = ("principal", "agent")


def build_quotas(loaded: Loaded, *, of_proofs: bool, workers: int = 1) -> Quotas:
    """Return the quotas that need proofs, or those that don't. Raises `ConfigurationError`."""
    built = [
        _quota(loaded, f"quotas[{index}]", table) for index, table in enumerate(loaded.config.quotas.by_number.values())
    ]
    if built:
        check_workers_share(loaded, workers, "allow what a quota does")
    decided = {"required": (*_OF_PROOFS, "subject", "server"), "observe": _OF_PROOFS, "off": ()}
    kept = (each for each in built if (each.by in decided[loaded.config.proofs.mode]) == of_proofs)
    return Quotas(tuple(kept), loaded.server)


def _quota(loaded: Loaded, name: str, table: Table) -> Quota:
    sums = table.sum is not None
    if (table.calls is None) != sums or (table.limit is not None) != sums:
        raise ConfigurationError(f"{name} says how much in no way, or in two", "give it calls, or sum and limit")
    if table.by in _OF_PROOFS and loaded.config.proofs.mode == "off":
        raise ConfigurationError(
            f"{name}.by is {table.by}, and with proofs.mode off nobody knows that of a call",
            'count by "subject" or "server", or set proofs.mode = "required"',
        )
    if table.by == "subject" and loaded.config.tokens.mode == "off":
        raise ConfigurationError(
            f"{name}.by is subject, and with tokens.mode off nobody knows that of a call",
            'count by something else, or set tokens.mode = "required"',
        )
    if table.sum is not None:
        for tool, entry in loaded.config.tools.by_name.items():
            called = {tool, merged_name(loaded.server, tool)}
            if not called.isdisjoint(table.tools) and table.sum not in entry.facts:
                raise ConfigurationError(
                    f"{name} sums {table.sum}, and {tool} has no such fact: each call of it would be refused",
                    f'say where it is among the arguments: {table.sum} = "/POINTER" in the facts of the tool\'s table',
                )
    return Quota(
        by=table.by,
        tools=frozenset(table.tools),
        window_s=window_seconds(table.window),
        window=table.window,
        most=int(Decimal(repr(table.limit)) * QUOTA_UNITS) if table.limit is not None else table.calls or 0,
        fact=table.sum or "",
    )
