"""Runs all checks concurrently, and prints their findings. I/O: threads, stdout.

1. A check that takes longer than `DOCTOR_SECONDS` is abandoned with a finding; its thread ends with the process.
2. A check that fails, or gets no thread, yields a finding; the others go on.
3. The exit code is 1 if any finding is bad.
"""

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import to_builtins

from accredit.cli.actions.doctor.desks import look_at_desk
from accredit.cli.actions.doctor.entries import look_at_entries
from accredit.cli.actions.doctor.findings import SUBJECTS, Finding, Subject, bad
from accredit.cli.actions.doctor.gateways import look_at_gateways
from accredit.cli.actions.doctor.keys import look_at_keys
from accredit.cli.actions.doctor.production.checklist import go_through
from accredit.cli.actions.doctor.setup import look_at_configuration, look_at_store
from accredit.cli.actions.doctor.surroundings import Surroundings, surroundings
from accredit.cli.actions.doctor.versions import look_at_versions
from accredit.cli.actions.output import BAD, GOOD, QUIET, print_json, say
from accredit.cli.progress import Progress
from accredit.errors import AccreditError, ConfigurationError
from accredit.limits import DOCTOR_SECONDS

MAX_FINDINGS = 500
"""Findings that `accredit doctor` tells: a host's file may have any number of entries."""


_Look = Callable[[Surroundings], Iterable[Finding]]
LOOKS: Mapping[Subject, _Look] = {
    "keys": look_at_keys,
    "configuration": look_at_configuration,
    "store": look_at_store,
    "gateway": look_at_gateways,
    "desk": look_at_desk,
    "hosts": look_at_entries,
    "versions": look_at_versions,
}
_MARKS = {"good": ("ok  ", GOOD), "note": ("note", ""), "bad": ("BAD ", BAD)}


def run_doctor(*, config: Path | None, production: bool, left_out: Sequence[str], as_json: bool) -> int:
    """Run `accredit doctor`; return the exit code. Raises `ConfigurationError`."""
    if production:
        return go_through(config, left_out, as_json=as_json)
    if left_out:
        raise ConfigurationError("--except is of the checklist for production", "give --production, too")
    return diagnose(config, as_json=as_json)


def diagnose(config: Path | None, environ: Mapping[str, str] = os.environ, *, as_json: bool) -> int:
    """Run all checks, and print the findings; return the exit code. Raises `ConfigurationError`."""
    at = surroundings(config, environ)
    with Progress("looking"):
        found = findings_of(at, LOOKS)
    is_well = not any(each.level == "bad" for each in found)
    if as_json:
        print_json({"ok": is_well, "findings": [to_builtins(each) for each in found]})
        return 0 if is_well else 1
    for each in found:
        mark, style = _MARKS[each.level]
        say(f"{mark}  {each.subject}: {each.what}", style)
        if each.remedy:
            say(f"      {each.remedy}")
        if each.command:
            say(f"      {each.command}")
    counts = Counter(each.level for each in found)
    say("")
    say(f"{counts['bad']} bad, {counts['note']} to know, {counts['good']} good", QUIET if is_well else BAD)
    return 0 if is_well else 1


def findings_of(at: Surroundings, looks: Mapping[Subject, _Look], seconds: float = DOCTOR_SECONDS) -> list[Finding]:
    """Return the findings of all checks, ordered by subject, without duplicates."""
    told: queue.SimpleQueue[tuple[Subject, list[Finding]]] = queue.SimpleQueue()
    for subject, look in looks.items():
        thread = threading.Thread(target=_take, args=(subject, look, at, told), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            told.put((subject, [_failure_finding(subject, error)]))
    late_at, waiting, found = time.monotonic() + seconds, set(looks), list[Finding]()
    while waiting:
        try:
            subject, findings = told.get(timeout=max(0.0, late_at - time.monotonic()))
        except queue.Empty:
            break
        waiting.discard(subject)
        found += findings
    found += [bad(each, f"this look took more than {seconds:g} s", "see what it waits for") for each in waiting]
    order = {subject: number for number, subject in enumerate(SUBJECTS)}
    return sorted(dict.fromkeys(found), key=lambda each: order[each.subject])[:MAX_FINDINGS]


def _take(
    subject: Subject, look: _Look, at: Surroundings, told: "queue.SimpleQueue[tuple[Subject, list[Finding]]]"
) -> None:
    findings: list[Finding] = []
    try:
        for finding in look(at):
            findings.append(finding)  # noqa: PERF402 - what was found before a failure counts
    except (AccreditError, OSError, ValueError, RuntimeError, MemoryError) as error:
        findings.append(_failure_finding(subject, error))
    told.put((subject, findings))


def _failure_finding(subject: Subject, error: Exception) -> Finding:
    what = f"this look has failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    return bad(subject, what, "see what is there")
