"""What the log must say of a run: invariants 2 and 5. Blocking. I/O: the database, commands.

2. Every call that reached the server has a decision which allowed it, on the primary that is left, and no call has two
   of them. Every call that was answered has one outcome: "ok", with the digest of what the server answered. In the end
   every call has one outcome, also that of a gateway which was lost.
5. `accredit log verify` finds the log good, also with every checkpoint that was kept on the way.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import rfc8785
from tests.chaos.agents import ANSWERED, Call, Exchange
from tests.chaos.fleet import Fleet
from tests.chaos.upstream import Forwarded
from tests.world.command import accredit
from tests.world.postgres import SUPERUSER
from tests.world.replicated import DATABASE, Replicated

from accredit.attest import CallRecord, Outcome, Statement
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import DatabaseHost

CLOSED_SECONDS = 100.0
"""In which the calls of a gateway that was lost are closed by another one, with some room for a busy machine."""
_VERIFY_SECONDS = 300.0


class RunRecords:
    """The log of one run; `kept` are the checkpoints of its course."""

    def __init__(self, servers: Replicated, fleet: Fleet) -> None:
        self._servers = servers
        self._fleet = fleet
        self._position: object = None
        self.kept: list[Path] = []

    def begin(self) -> None:
        """Notes where the log is, and keeps its checkpoints."""
        with self._database.open_log() as log:
            self._position = log.position()
        file = self._fleet.folder / f"kept-{len(self.kept)}"
        done = accredit("log", "checkpoint", "--store", self._url, "--out", str(file), folder=self._fleet.folder)
        if done.returncode == 0 and file.stat().st_size:
            self.kept.append(file)

    def broken(self, exchanges: Iterable[Exchange], journal: Iterable[Forwarded]) -> list[str]:
        """Compares what came since with what clients and the server saw."""
        with self._database.open_log() as log:
            after = log.after(self._position)
            entries = log.entries() if after is None else after
            statements = (statement for each in entries if (statement := each.statement()) is not None)
            return compared(statements, list(exchanges), journal)

    def open_in_the_end(self) -> list[str]:
        """Waits until no call is open any more."""
        give_up = time.monotonic() + CLOSED_SECONDS
        asked = "SELECT count(*) FROM log_open"
        while count := int(self._servers.primary.run(asked, DATABASE)):
            if time.monotonic() > give_up:
                return [f"{count} calls are open {CLOSED_SECONDS:.0f} s after the end"]
            time.sleep(0.5)
        return []

    def verified(self) -> list[str]:
        """Has the whole log verified."""
        keys = [f"--key={gateway.folder / 'gateway.key.pub'}" for gateway in self._fleet.gateways.values()]
        kept = [f"--since={file}" for file in self.kept]
        done = accredit(
            "log", "verify", "--store", self._url, *keys, *kept, folder=self._fleet.folder, patience=_VERIFY_SECONDS
        )
        print(f"accredit log verify, with {len(kept)} kept checkpoints: {done.stdout.strip() or done.stderr.strip()}")
        return [] if done.returncode == 0 else [f"log verify: {done.stdout} {done.stderr}"]

    @property
    def _database(self) -> PostgresDatabase:
        return PostgresDatabase((DatabaseHost(*self._servers.primary.place[:2]),), DATABASE, SUPERUSER)

    @property
    def _url(self) -> str:
        place = self._servers.primary.place
        return f"postgresql://{SUPERUSER}@{place.host}:{place.port}/{DATABASE}"


def digest_of(call: Call) -> str:
    """The digest by which the log knows a call."""
    return hashlib.sha256(rfc8785.dumps({**call.params})).hexdigest()


def compared(statements: Iterable[Statement], exchanges: Sequence[Exchange], journal: Iterable[Forwarded]) -> list[str]:
    """Return a sentence for each call whose records are not as invariant 2 says; open calls may be open yet."""
    decisions: dict[str, list[CallRecord]] = defaultdict(list)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for statement in statements:
        record = statement.predicate
        if not isinstance(record, CallRecord):
            continue
        if record.outcome is not None:
            outcomes[record.call.id].append(record.outcome)
        elif record.decision is not None and record.decision.verdict == "allow":
            decisions[statement.sha256].append(record)
    return [
        *(f"{digest} was allowed {len(found)} times" for digest, found in decisions.items() if len(found) > 1),
        *(f"{id} has {len(found)} outcomes" for id, found in outcomes.items() if len(found) > 1),
        *_missing(decisions, outcomes, exchanges, list(journal)),
    ]


def _missing(
    decisions: Mapping[str, Sequence[CallRecord]],
    outcomes: Mapping[str, Sequence[Outcome]],
    exchanges: Sequence[Exchange],
    journal: Sequence[Forwarded],
) -> Iterator[str]:
    digests = {each.call.target: digest_of(each.call) for each in exchanges}
    results = {each.nonce: each.result for each in journal}
    for target in {each.target for each in journal} & digests.keys():
        if not decisions.get(digests[target]):
            yield f"{target} reached the server, and was not recorded before"
    for each in exchanges:
        allowed = decisions.get(digests[each.call.target], ())
        if each.outcome != ANSWERED or not allowed:
            continue
        found = outcomes.get(allowed[0].call.id, ())
        if [(outcome.status, outcome.result) for outcome in found] != [("ok", results.get(each.nonce))]:
            yield f"{each.call.target} was answered, and recorded as {[outcome.status for outcome in found]}"
