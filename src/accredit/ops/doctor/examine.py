"""Runs the looks of all subjects of `accredit doctor`. I/O: as `engine`.

If a look fails, or takes longer than `DOCTOR_SECONDS`, that is a finding. The look's earlier findings are kept.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from accredit.base.version import version_text
from accredit.errors import ConfigurationError
from accredit.limits import DOCTOR_SECONDS, MAX_FINDING_CHARS
from accredit.ops.doctor.desks import look_at_desk
from accredit.ops.doctor.engine import (
    FAILURES,
    Found,
    Result,
    Subject,
    Unknown,
    bad,
    explain_failure,
    good,
    print_results,
    run_looks,
)
from accredit.ops.doctor.entries import look_at_entries
from accredit.ops.doctor.gateways import look_at_gateways
from accredit.ops.doctor.keys import look_at_keys
from accredit.ops.doctor.logins import look_at_logins
from accredit.ops.doctor.production.checklist import go_through
from accredit.ops.doctor.setup import look_at_configuration, look_at_store
from accredit.ops.doctor.surroundings import Surroundings, surroundings
from accredit.terminal.progress import Progress

MAX_FINDINGS = 500
"""The most findings that `accredit doctor` prints: a host's file may have any number of entries."""


def _look_at_versions(_: Surroundings) -> Iterable[Result]:
    return [good("versions", f"accredit {version_text()}, Python {platform.python_version()}, {sys.executable}")]


_Look = Callable[[Surroundings], Iterable[Result]]
LOOKS: Mapping[Subject, _Look] = {
    "keys": look_at_keys,
    "configuration": look_at_configuration,
    "store": look_at_store,
    "login": look_at_logins,
    "gateway": look_at_gateways,
    "desk": look_at_desk,
    "hosts": look_at_entries,
    "versions": _look_at_versions,
}
_SUBJECTS = get_args(Subject)


def run_doctor(*, config: Path | None, production: bool, left_out: Sequence[str]) -> int:
    """Run `accredit doctor`: make all checks, and print the findings; return the exit code. Raises
    `ConfigurationError`."""
    if production:
        return go_through(config, left_out)
    if left_out:
        raise ConfigurationError("--except is of the checklist for production", "give --production, too")
    at = surroundings(config, os.environ)
    with Progress("looking"):
        found = findings_of(at, LOOKS)
    return print_results(found, "findings", members, ("bad", "note", "good"))


def members(finding: Result) -> dict[str, str]:
    """Return a finding's members in JSON."""
    texts = {"what": finding.what, "remedy": finding.remedy, "command": finding.command}
    return {"subject": finding.about, "level": finding.state, **texts}


def findings_of(at: Surroundings, looks: Mapping[Subject, _Look], seconds: float = DOCTOR_SECONDS) -> list[Result]:
    """Return the findings of all looks, ordered by subject, without duplicates."""
    found: dict[Subject, Found[list[Result]]] = run_looks(
        {subject: partial(_collect, subject, look, at) for subject, look in looks.items()}, seconds
    )
    findings = [
        each.fit(each.about, _shorten)
        for subject, value in found.items()
        for each in ([bad(subject, *value)] if isinstance(value, Unknown) else value)
    ]
    return sorted(dict.fromkeys(findings), key=lambda each: _SUBJECTS.index(each.about))[:MAX_FINDINGS]


def _collect(subject: Subject, look: _Look, at: Surroundings) -> list[Result]:
    findings: list[Result] = []
    try:
        for finding in look(at):
            findings.append(finding)  # noqa: PERF402 - what was found before a failure counts
    except FAILURES as error:
        findings.append(bad(subject, *explain_failure(error)))
    return findings


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_FINDING_CHARS else f"{text[:MAX_FINDING_CHARS]}..."
