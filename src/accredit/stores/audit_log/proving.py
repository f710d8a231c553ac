"""Checks, while a log is verified, whether its allowed calls were rightly allowed (`policy.evidence`). I/O: a temporary
file.

A log is at fault if:

- [proof] a record says that a proof is kept, but that proof is missing, unreadable, invalid, or for another call; or
  its certificates don't allow the call;
- [challenge] two allowed calls used one challenge, in the same chain or in different ones;
- [stray-proof] a proof is kept with an entry that is not the record of an allowed call, or that does not name it;
- [requirement] the caller of this check requires proofs, and nothing shows that a person allowed the call and an agent
  signed it.

If no proof was kept, certificates that don't allow the call are a fault only if the caller of this check names the
people who may allow calls, or requires proofs. Only the first fault is reported.

A `Judge` needs nothing but an entry and what is kept with it, so several processes may share the work (`verifying`).
`Proofs` does the counting, and keeps the challenges in a temporary database, as `marks` does.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from accredit.attest import CallRecord, Digest, Examined, Fault, LogKey, Place, RecordKey, Statement, examine
from accredit.attest.canonical import KeptProof, kept_proof
from accredit.policy.evidence import Auditor, Evidence
from accredit.stores.audit_log.marks import MARKS_AT_ONCE, InTemporaryFile, temporary_room
from accredit.stores.audit_log.reading import EntryWithEvidence

# The first record over a challenge that another one has spent, that other one, and how many such records there are.
_TWICE = """
SELECT place, other, count(*) OVER () FROM (
  SELECT place, rowid AS read, first_value(place) OVER spent AS other, row_number() OVER spent AS uses
  FROM challenges WINDOW spent AS (PARTITION BY challenge ORDER BY rowid))
WHERE uses > 1 ORDER BY read LIMIT 1"""


class Judgement(NamedTuple):
    """The result for one entry. `fault` says why it is at fault, or is None. `is_proved` says that the entry is a call,
    shown to be allowed by a person and signed by an agent. `challenge` is the challenge that was spent for the call, if
    its proof was kept."""

    fault: str | None = None
    is_proved: bool = False
    challenge: bytes | None = None


class Judge:
    """Judges entries one by one, by [proof], [stray-proof] and [requirement]."""

    def __init__(self, auditor: Auditor, *, named: bool = False, required: bool = False) -> None:
        """`named` says that the caller named the people whom the auditor trusts."""
        self._auditor = auditor
        self._required = required
        self._holds_chains = named or required

    def examine(self, kept: EntryWithEvidence, keys: Mapping[str, LogKey | RecordKey]) -> Examined | Digest:
        """Examine entries as `attest.examine` does. In the result, `judged` is a `Judgement`, or None for an entry that
        is not an allowed call."""
        return examine(kept.entry, keys, partial(self._judge, kept))

    def _judge(self, kept: EntryWithEvidence, statement: Statement) -> Judgement | None:
        record = statement.predicate
        if not isinstance(record, CallRecord):
            return None if kept.proof is None else Judgement("a proof is kept with it")
        authority = record.authority
        proof = kept_proof(authority, kept.proof, kept.certificates) if authority is not None else None
        evidence = self._auditor.judge(statement, kept.certificates, proof)
        if kept.proof is not None and (evidence is None or proof is None):
            return Judgement("a proof is kept with it, and it names none")
        if evidence is None:
            return None
        fault = self._wrong(evidence, is_kept=proof is not None)
        is_proved = bool(evidence.allowed.verified and evidence.signed.verified)
        return Judgement(fault, is_proved, proof.challenge if isinstance(proof, KeptProof) else None)

    def _wrong(self, evidence: Evidence, *, is_kept: bool) -> str | None:
        """Return why the record of an allowed call is at fault ([proof] and [requirement])."""
        if evidence.signed.verified is False:
            return f"signed: {evidence.signed.why}"
        if evidence.allowed.verified is False and (is_kept or self._holds_chains):
            return f"allowed: {evidence.allowed.why}"
        return next(iter(evidence.unshown), None) if self._required else None


class Proofs(InTemporaryFile):
    """The results for all entries of a log, in one verification: `with Proofs() as proofs`. At the end, `fault` is the
    first fault, or None. `proved` counts the calls shown to be allowed by a person and signed by an agent. `untold`
    counts the other allowed calls: it is unknown who allowed them, or who signed them."""

    table = "CREATE TABLE challenges (challenge BLOB NOT NULL, place TEXT NOT NULL)"

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.proved = self.untold = 0
        self._new: list[tuple[bytes, str]] = []

    def count(self, examined: Iterable[Examined | Digest]) -> Iterator[Examined | Digest]:
        """Yield what a `Judge` has examined, unchanged, and count its judgements. Raises `StoreUnavailable`."""
        for each in examined:
            if isinstance(each, Examined) and isinstance(each.judged, Judgement) and self.fault is None:
                self._count(each.says, each.judged)
            yield each
        self._write()
        with temporary_room():
            twice = self._connection.execute(_TWICE).fetchone()
        if twice is not None:  # it was noted before whatever else is at fault
            place, other, more = twice
            reason = f"its proof is over a challenge that was spent before (the other record is {other})"
            self.fault = Fault(place, reason)
            self.proved -= more

    def _count(self, says: object, judged: Judgement) -> None:
        place = f"{says.writer}/{says.sequence}" if isinstance(says, Place) else "an entry that is no record"
        if judged.fault is not None:
            self.fault = Fault(place, judged.fault)
            return
        self.proved += judged.is_proved
        self.untold += not judged.is_proved
        if judged.challenge is not None:
            self._new.append((judged.challenge, place))
            if len(self._new) >= MARKS_AT_ONCE:
                self._write()

    def _write(self) -> None:
        with temporary_room():
            self._connection.executemany("INSERT INTO challenges VALUES (?, ?)", self._new)
        self._new.clear()
