"""What the person decided before, as the journal tells it. No I/O.

Of arguments it knows digests only: enough to say that a value was never allowed before.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

from accredit.canonical import canonical
from accredit.consent.asks import Ask

Entry = Mapping[str, Any]
DECIDED = ("allowed", "denied")
"""The events after which an ask is over."""


class Past:
    """What journal entries say of agents, gateways and calls; `add` keeps it up to date."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._met: dict[tuple[str, str], int] = {}
        self._calls: set[tuple[str, ...]] = set()
        self._used: dict[str, int] = {}
        self._denied: dict[tuple[str, ...], int] = {}
        self._certs: set[str] = set()
        self.signed: list[Entry] = []
        """The entries of what was allowed, oldest first."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take an entry in. One that misses members says nothing."""
        at, event, ask_id = entry["at"], entry["event"], entry.get("id")
        if event in DECIDED and isinstance(ask_id, str):
            self._used[ask_id] = at
        call = tuple(str(entry.get(name)) for name in ("agent", "gateway", "method", "target"))
        if event == "denied":
            self._denied[(*call, str(entry.get("params_sha256")))] = at
        if event != "allowed":
            return
        self._certs.add(str(entry.get("cert")))
        self.signed.append(entry)
        self._met.setdefault((call[0], call[1]), at)
        self._calls.add(call)
        values: object = entry.get("values")
        for name, digest in cast("dict[str, object]", values).items() if isinstance(values, dict) else ():
            self._calls.add((*call, name, str(digest)))

    def used_ids(self, since: int) -> list[str]:
        """Return the ids of asks that were decided since then."""
        return [ask_id for ask_id, at in self._used.items() if at >= since]

    def denied(self, since: int) -> list[tuple[tuple[str, ...], int]]:
        """Return the calls that were denied since then (`Ask.same_call`), and when."""
        return [(call, at) for call, at in self._denied.items() if at >= since]

    def has_given(self, cert_id: str) -> bool:
        """Return whether a certificate was given out already."""
        return cert_id in self._certs

    def is_new(self, ask: Ask) -> bool:
        """Return whether nothing was allowed yet to this agent at this gateway."""
        return (ask.agent_id, ask.gateway.id) not in self._met

    def met_at(self, ask: Ask) -> int | None:
        """Return when the first call was allowed to this agent at this gateway."""
        return self._met.get((ask.agent_id, ask.gateway.id))

    def is_first(self, ask: Ask) -> bool:
        """Return whether this agent was never allowed such a call."""
        return _call(ask) not in self._calls

    def targets(self, gateway: str) -> list[str]:
        """Return what was allowed at a gateway before, by its names."""
        return sorted({call[3] for call in self._calls if call[1] == gateway})

    def first_values(self, ask: Ask, names: Iterable[str]) -> list[str]:
        """Return those of these arguments whose values were never allowed before in such a call."""
        found = values_of(ask)
        return [name for name in names if name in found and (*_call(ask), name, found[name]) not in self._calls]


def values_of(ask: Ask) -> dict[str, str]:
    """Return digests of the arguments' values, by their names: of those that are no objects or arrays."""
    arguments = ask.params.get("arguments")
    members = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {}
    scalars = {name: value for name, value in members.items() if not isinstance(value, dict | list)}
    return {name: hashlib.sha256(canonical(value)).hexdigest() for name, value in scalars.items()}


def _call(ask: Ask) -> tuple[str, ...]:
    return (ask.agent_id, ask.gateway.id, ask.method, ask.target)
