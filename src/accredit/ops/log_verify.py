"""Implements `accredit log verify`: verifies a store's log, the lines of an export, or a call's bundle."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from accredit.attest import (
    Envelope,
    Fault,
    Head,
    LogKey,
    LogReport,
    RecordKey,
    decode_call_bundle,
    decode_statement,
    verify_call_bundle,
    verify_log,
)
from accredit.base.clock import unix_ms
from accredit.base.deferred import Deferred
from accredit.base.text import several
from accredit.errors import AttestationError, ConfigurationError
from accredit.limits import MAX_ATTESTATION_BYTES
from accredit.ops.log_place import (
    LogSource,
    as_configuration_errors,
    checkpoints,
    explain_damage,
    gateway_names_in,
    lines,
    names_in,
    people_in,
    public_keys,
)
from accredit.ops.log_record import Names, print_evidence
from accredit.policy.evidence import NO_EVIDENCE, Auditor
from accredit.ratify import HybridPublicKey
from accredit.terminal.output import BAD, GOOD, print_facts, print_result, say
from accredit.terminal.progress import Progress

if TYPE_CHECKING:
    from accredit.policy.evidence import Evidence
    from accredit.stores.audit_log import marks as marking
    from accredit.stores.audit_log import proving, reading, verifying
    from accredit.stores.audit_log.proving import Judge, Proofs
    from accredit.stores.audit_log.reading import LogReader
else:  # for a log: a call by itself is verified in less time than they take to load
    marking, verifying = Deferred("accredit.stores.audit_log.marks"), Deferred("accredit.stores.audit_log.verifying")
    proving, reading = Deferred("accredit.stores.audit_log.proving"), Deferred("accredit.stores.audit_log.reading")

_T = TypeVar("_T")
_BUNDLE = b'{"envelopes"'
ONE_CALL = "name the bundle of one call: `accredit log export --call ID --bundle` writes it"
_NO_LOG = "checkpoints that were kept are held against a log: name that, or leave --since out"


class ProofRequirements(NamedTuple):
    """The requirements for the proofs of allowed calls. `roots` are key files of the people who may have allowed them.
    If `required`, each call must be proved. If `nothing`, proofs are not checked at all. `target` is the path and query
    of a request to an HTTP API."""

    roots: Sequence[Path] = ()
    required: bool = False
    nothing: bool = False
    target: str | None = None

    def check(self, evidence: "Evidence | None") -> list[str]:
        """Return what is wrong with a call's evidence."""
        if evidence is None:
            return []
        return evidence.faults or (evidence.unshown if self.required else [])


def run_verify(
    *,
    file: Path | None,
    source: LogSource,
    key: Sequence[Path],
    since: Sequence[Path],
    root: Sequence[Path],
    require_proofs: bool,
    no_proofs: bool,
    target: str | None,
    known: Sequence[Path],
) -> int:
    """Run `accredit log verify`; return the exit code. Raises `ConfigurationError`."""
    if no_proofs and (require_proofs or root):
        raise ConfigurationError("--no-proofs leaves out what --root and --require-proofs ask for", "say one of them")
    wanted = ProofRequirements(root, require_proofs, no_proofs, target)
    if file is not None:
        names = {**gateway_names_in(key), **names_in(known)}
        return verify_file(file, key, since, wanted, names=names, config=source.config)
    return verify_store(source, key, since, wanted)


def verify_store(source: LogSource, keys: Sequence[Path], since: Sequence[Path], wanted: ProofRequirements) -> int:
    """Verify a store's log; return the exit code. Raises `ConfigurationError`.

    If the store is named, the keys or the configuration must be named, too: keys of a configuration in the current
    folder are not trusted then.
    """
    place = source.place()
    trusted, kept = public_keys(keys, source.config, look_here=source.store is None), checkpoints(since)
    opened = place.open_log()
    judge = None if wanted.nothing else _judge(source.people(wanted.roots), wanted)
    with (
        as_configuration_errors(),
        explain_damage(place),
        verifying.Verifiers(trusted, judge=judge) as verifiers,
        marking.MarksInFile() as marks,
        proving.Proofs() as proofs,
        opened as log,
    ):
        watch = partial(_show_progress, Progress("verifying", unit="entries", total=_count(log)))
        report = log.verify(
            trusted, kept, watch, lambda entries: proofs.count(verifiers(entries)), marks, proofs=judge is not None
        )
    damage = place.damage() if report.valid else None
    if damage is not None:  # in a part of the file that holds no record
        report = report._replace(fault=Fault("the file", f"{damage.what}: {damage.remedy}"))
    return _tell(report, kept, None if wanted.nothing else proofs)


def verify_file(
    path: Path,
    keys: Sequence[Path],
    since: Sequence[Path],
    wanted: ProofRequirements,
    *,
    config: Path | None,
    names: Names | None = None,
) -> int:
    """Verify an exported file; return the exit code. `names` are names of agents by id. Raises `ConfigurationError`."""
    people = people_in(wanted.roots)
    trusted, kept = public_keys(keys, config), checkpoints(since)
    found = lines(path)
    first = next(found, None)
    every = found if first is None else chain((first,), found)
    if first is not None and (b"".join(first[:100].split()).startswith(_BUNDLE) or first.strip() == b"{"):
        if kept:
            raise ConfigurationError(f"{path} is the bundle of one call, and no log", _NO_LOG)
        auditor = Auditor(
            people, only_these=bool(wanted.roots), now=unix_ms() // 1000, target=wanted.target, one_call=True
        )
        return _verify_bundle(_whole(path, every), trusted, auditor, names or {}, wanted)
    if wanted.roots:
        raise ConfigurationError(f"{path} is a log without its certificates, and --root is for one call", ONE_CALL)
    judge = _judge(people, wanted) if wanted.required else None
    with (
        as_configuration_errors(),
        verifying.Verifiers(trusted, judge=judge) as verifiers,
        marking.MarksInFile() as marks,
        proving.Proofs() as proofs,
    ):
        entries = _show_progress(Progress("verifying", unit="entries"), every)
        report = verify_log(
            entries if judge is None else map(reading.EntryWithEvidence, entries),
            trusted,
            kept,
            examiner=lambda lines: proofs.count(verifiers(lines)),
            marks=marks,
        )
    return _tell(report, kept, proofs if wanted.required else None)


def _judge(people: Mapping[HybridPublicKey, str], wanted: ProofRequirements) -> "Judge":
    auditor = Auditor(people, only_these=bool(wanted.roots), target=wanted.target)
    return proving.Judge(auditor, named=bool(wanted.roots), required=wanted.required)


def _whole(path: Path, parts: Iterable[bytes]) -> bytes:
    """Return all lines together. Raises `ConfigurationError` for more than `MAX_ATTESTATION_BYTES`."""
    text = bytearray()
    for line in parts:
        text += line + b"\n"
        if len(text) > MAX_ATTESTATION_BYTES:
            raise ConfigurationError(f"{path} has more than {MAX_ATTESTATION_BYTES} bytes", "name another file")
    return bytes(text)


def _verify_bundle(
    data: bytes,
    keys: Sequence[LogKey | RecordKey],
    auditor: Auditor,
    names: Names,
    wanted: ProofRequirements,
) -> int:
    try:
        bundle = decode_call_bundle(data)
        records = verify_call_bundle(bundle, keys)
    except AttestationError as error:
        print_result({"valid": False, "reason": str(error)})
        say(f"BAD: {error}", BAD)
        return 1
    decision = decode_statement(bundle.envelopes[0].payload)
    evidence = None if wanted.nothing else auditor.judge(decision, bundle.certificates, bundle.proof)
    bad = wanted.check(evidence)
    facts: dict[str, object] = {"valid": not bad, "call": records[0].call.id, "records": len(records)}
    facts |= evidence.members(records[0], names) if evidence is not None else NO_EVIDENCE
    facts |= {"reason": bad[0]} if bad else {}
    print_result(facts)
    if evidence is not None:
        print_evidence(records[0], evidence, names)
    say(f"BAD: {bad[0]}" if bad else "ok: the records of this call verify", BAD if bad else GOOD)
    if evidence is None:
        say("note: `accredit inspect` prints what the records say")
    if bundle.checkpoint is None:
        say("note: there is no checkpoint that counts it")
    return 1 if bad else 0


def _tell(report: LogReport, kept: Sequence[Envelope | Head], proofs: "Proofs | None") -> int:
    if proofs is not None and report.fault is None:
        report = report._replace(fault=proofs.fault)
    pruned = sum(writer.pruned for writer in report.writers)
    uncovered = sum(writer.records - writer.checkpointed for writer in report.writers)
    print_result(
        {
            "valid": report.valid,
            "records": report.records,
            "pruned": pruned,
            "not_in_a_checkpoint": uncovered,
            "kept_checkpoints": len(kept),
            "proved": proofs and proofs.proved,
            "not_proved": proofs and proofs.untold,
            "fault": report.fault and report.fault._asdict(),
            "writers": [writer._asdict() for writer in report.writers],
        }
    )
    if report.fault:
        say(f"BAD: {report.fault.place}: {report.fault.reason}", BAD)
        say(f"read until then, in chains that are good so far: {several(report.records, 'record')}")
    else:
        say(f"ok: {report.records} records of {several(len(report.writers), 'writer')} verify", GOOD)
        print_facts(
            [
                ("pruned", str(pruned)),
                ("since the last checkpoint", str(uncovered)),
                ("kept checkpoints", str(len(kept)) if kept else "none: a cut at the end would not be noticed"),
                ("allowed calls that are proved", "not looked at" if proofs is None else _proofs_text(proofs)),
            ]
        )
    return 0 if report.valid else 1


def _proofs_text(proofs: "Proofs") -> str:
    rest = f"; of {proofs.untold} that can't be told, or not all of it" if proofs.untold else ""
    return f"{proofs.proved}, by the person's and the agent's signatures{rest}"


def _count(log: "LogReader") -> int | None:
    try:
        return log.count()
    except AttestationError:  # reading the entries will find the place
        return None


def _show_progress(progress: Progress, entries: Iterable[_T]) -> Iterator[_T]:
    """Yield the entries, and show how far the verification is. Showing it takes a thread, which starts only with the
    first entry."""
    with progress:
        yield from progress.over(entries)
