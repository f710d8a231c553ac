"""Gathers the facts, judges each check by them, and prints the results in order. I/O: as `engine`.

- Facts are gathered concurrently, for at most `DOCTOR_SECONDS`. A check whose facts are late is unknown.
- A configuration that can't be read is an error (exit code 2). So is one that nobody has named and that is merely found
  in the current folder. It may be somebody else's (`surroundings`), and its store and gateway would be contacted.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from accredit.base.clock import unix_seconds
from accredit.base.text import one_line
from accredit.config.build import build_all_settings
from accredit.config.listen import check_no_loop, tls_context
from accredit.config.load import Loaded
from accredit.config.monitoring import build_monitoring
from accredit.config.store import store_of
from accredit.errors import ConfigurationError
from accredit.gateway.settings import GatewaySettings
from accredit.limits import DOCTOR_SECONDS, MAX_FINDING_CHARS
from accredit.ops.doctor.engine import Found, NotKnown, Result, Unknown, print_results, run_looks, unknown
from accredit.ops.doctor.production import configured, environment, files, running, stored
from accredit.ops.doctor.production.facts import Facts
from accredit.ops.doctor.surroundings import surroundings
from accredit.ops.log_place import own_keys
from accredit.stores import StoreUrl
from accredit.terminal.progress import Progress

_Line = Callable[[Facts], Result]


def _answer(line: _Line) -> _Line:
    """Return the check, with an unknown result if a fact that it needs is unknown."""

    def answered(facts: Facts) -> Result:
        try:
            return line(facts)
        except NotKnown as error:
            return unknown(str(error))

    return answered


LINES: Mapping[str, _Line] = {
    f"production.{line.__name__}": _answer(line)
    for line in (
        *(configured.configuration, configured.files, configured.keys),
        *(configured.tls, configured.outgoing, configured.hosts, configured.admin, configured.tokens),
        *(configured.proofs, configured.scopes, configured.definitions, configured.answers),
        *(configured.revocation, configured.quotas),
        *(
            configured.store,
            environment.schema,
            environment.synchronous,
            environment.role,
            environment.connections,
            environment.room,
            environment.clock,
        ),
        *(configured.sealing, configured.records, configured.evidence, environment.shipping, environment.drill),
        *(environment.ready, environment.user, environment.descriptors, configured.stopping, configured.metrics),
    )
}
"""The lines of the checklist: each check by its id."""


def go_through(config: Path | None, left_out: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run all checks, and print the results; return the exit code. Raises `ConfigurationError`."""
    for each in left_out:
        if each not in LINES:
            raise ConfigurationError(f"--except {each}: there is no such line", f"name one of {', '.join(LINES)}")
    at = surroundings(config, environ)
    if at.problem is not None:
        raise at.problem
    if at.loaded is None:
        raise ConfigurationError("there is no configuration here", "name one with --config")
    if not at.is_own:
        raise ConfigurationError(f"{at.file} only lies here, and may be somebody else's", "name it with --config")
    with Progress("looking"):
        facts = facts_of(at.loaded, environ)
    results = [line(facts).fit(name, _escape) for name, line in LINES.items()]
    members = partial(members_in, left_out)
    return print_results(results, "checks", members, ("ok", "no", "unknown"), left_out)


def members_in(left_out: Sequence[str], line: Result) -> dict[str, object]:
    """Return the members in JSON of one line of the checklist."""
    texts = {"what": line.what, "remedy": line.remedy, "command": line.command}
    return {"id": line.about, "state": line.state, **texts, "left_out": line.about in left_out}


def _escape(text: str) -> str:
    return one_line(text[:MAX_FINDING_CHARS])


def facts_of(loaded: Loaded, environ: Mapping[str, str]) -> Facts:
    """Gather the facts for all checks."""
    store = _store(loaded)
    looks: dict[str, Callable[[], Any]] = {
        "settings": lambda: _settings(loaded, environ),
        "files": lambda: files.files_found(loaded, store),
        "certificate_until": lambda: files.certificate_until(loaded),
        "is_synchronised": files.is_synchronised,
        "health": lambda: running.health_found(loaded.config),
        "listens_outside": lambda: running.listens_outside(loaded.config),
        "processes": lambda: running.processes_found(loaded.config),
        **_of_store(loaded, store),
    }
    return Facts(loaded=loaded, now=unix_seconds(), store=store, **run_looks(looks, DOCTOR_SECONDS))


def _of_store(loaded: Loaded, store: Found[StoreUrl]) -> dict[str, Callable[[], Any]]:
    if isinstance(store, Unknown):
        names = ("lists", "database", "file_schema", "disk_space", "sinks", "drilled")
        return dict.fromkeys(names, lambda: store)
    return {
        "lists": lambda: stored.lists_found(loaded, store),
        "database": store.condition,
        "file_schema": lambda: stored.file_schema_found(store),
        "disk_space": lambda: stored.disk_space_found(store),
        "sinks": lambda: stored.sinks_found(store),
        "drilled": lambda: stored.drill_found(own_keys(loaded), store),
    }


def _store(loaded: Loaded) -> Found[StoreUrl]:
    try:
        return store_of(loaded)
    except ConfigurationError as error:
        return Unknown(error.what)


def _settings(loaded: Loaded, environ: Mapping[str, str]) -> Sequence[GatewaySettings]:
    settings = build_all_settings(loaded, environ)
    check_no_loop(loaded.config.gateway, settings)
    tls_context(loaded.config.gateway)
    build_monitoring(loaded)
    return settings
