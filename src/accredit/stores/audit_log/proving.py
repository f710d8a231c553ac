"""Judges the evidence of a log's allowed calls (`policy.evidence`), while it is verified. I/O: a temporary file.

A log is at fault if:

1. a proof that a record says is kept is missing, unreadable, invalid, or another call's; or its certificates don't
   allow the call;
2. two allowed calls used one challenge, in whatever chains;
3. a proof is kept with something other than an allowed call whose record names one;
4. proofs are required, and an allowed call is not shown to be allowed by a person and signed by an agent.

Without a kept proof, certificates that don't allow the call are a fault if the caller named the people who may, or
requires proofs. Only the first fault is reported. Challenges are in a temporary database, as `marks` are.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from accredit.attest import CallRecord, Fault, Stored, decode_envelope, decode_statement
from accredit.attest.proofs import KeptProof, kept_proof
from accredit.base.caching import RecentlyUsed
from accredit.errors import AttestationError
from accredit.limits import MAX_RECORDED_CHAINS
from accredit.policy.evidence import Auditor, Evidence
from accredit.stores.audit_log.marks import InTemporaryFile, no_room
from accredit.stores.audit_log.reading import Numbered

_ADD = "INSERT INTO challenges VALUES (?, ?) ON CONFLICT DO NOTHING"
_WHERE = "SELECT place FROM challenges WHERE challenge = ?"


class Proofs(InTemporaryFile):
    """`with Proofs(auditor) as proofs`: for one verification. `fault` is the first, or None; `proved` counts calls
    shown to be allowed by a person and signed by an agent, and `untold` those for which a part of that is unknown."""

    table = "CREATE TABLE challenges (challenge BLOB PRIMARY KEY, place TEXT NOT NULL) WITHOUT ROWID"

    def __init__(self, auditor: Auditor, *, named: bool = False, required: bool = False) -> None:
        """`named` says that the caller named the people whom the auditor trusts."""
        self.fault: Fault | None = None
        self.proved = self.untold = 0
        self._auditor = auditor
        self._required = required
        self._holds_chains = named or required
        self._chains = RecentlyUsed[str, bytes](MAX_RECORDED_CHAINS)

    def watch(self, entries: Iterable[Numbered], certificates: Callable[[str], bytes | None]) -> Iterator[Numbered]:
        """Pass entries through, and judge them. `certificates` returns the chain with a SHA-256. Raises
        `StoreUnavailable`."""
        for each in entries:
            if isinstance(each.entry, Stored) and self.fault is None:
                self.look(each.entry.envelope.payload, each.proof, certificates)
            yield each

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Do the same with the lines of an export, which has neither certificates nor proofs."""
        for each in lines:
            if self.fault is None:
                with suppress(AttestationError):
                    self.look(decode_envelope(each).payload, None)
            yield each

    def look(
        self, payload: bytes, packed: bytes | None, certificates: Callable[[str], bytes | None] = lambda _: None
    ) -> None:
        """Judge one entry. An invalid statement is the verifier's to report."""
        try:
            statement = decode_statement(payload)
        except AttestationError:
            return
        record = statement.predicate
        if not isinstance(record, CallRecord):
            if packed is not None:
                self._tell("an entry that is no record", "a proof is kept with it")
            return
        place, authority = f"{record.log.writer}/{record.log.sequence}", record.authority
        chain = self._chain(authority.chain_sha256, certificates) if authority is not None else None
        proof = kept_proof(authority, packed, chain) if authority is not None else None
        evidence = self._auditor.judge(statement, chain, proof)
        if packed is not None and (evidence is None or proof is None):
            self._tell(place, "a proof is kept with it, and it names none")
        elif evidence is not None:
            self._count(place, evidence, proof)

    def _count(self, place: str, evidence: Evidence, proof: KeptProof | bytes | None) -> None:
        reason = self._wrong(evidence, is_kept=proof is not None)
        if reason is None and isinstance(proof, KeptProof):
            reason = self._twice(proof.challenge, place)
        if reason is not None:
            self._tell(place, reason)
        elif evidence.allowed.verified and evidence.signed.verified:
            self.proved += 1
        else:
            self.untold += 1

    def _wrong(self, evidence: Evidence, *, is_kept: bool) -> str | None:
        """Return why the record of an allowed call is at fault (rules 1 and 4)."""
        if evidence.signed.verified is False:
            return f"signed: {evidence.signed.why}"
        if evidence.allowed.verified is False and (is_kept or self._holds_chains):
            return f"allowed: {evidence.allowed.why}"
        return next(iter(evidence.unshown), None) if self._required else None

    def _twice(self, challenge: bytes, place: str) -> str | None:
        """Return the fault if another call used this challenge (rule 2), else remember it."""
        try:
            if self._connection.execute(_ADD, (challenge, place)).rowcount:
                return None
            ((other,),) = self._connection.execute(_WHERE, (challenge,))
        except sqlite3.Error as error:
            raise no_room(error) from None
        return f"its proof is over a challenge that was spent before (the other record is {other})"

    def _chain(self, sha256: str, certificates: Callable[[str], bytes | None]) -> bytes | None:
        known = self._chains.get(sha256)
        if known is None:
            try:
                known = certificates(sha256)
            except AttestationError:
                known = None
            if known is not None:
                self._chains.put(sha256, known)
        return known

    def _tell(self, place: str, reason: str) -> None:
        self.fault = Fault(place, reason)
