"""Gathers the facts, judges each check by them, and prints the results in order. I/O: threads, stdout.

1. Facts are gathered concurrently, for at most `DOCTOR_SECONDS`; a check whose facts are late is unknown.
2. The exit code is 0 if every check passes that was not skipped by name, and 1 if one fails or is unknown.
3. A configuration that can't be read is an error (exit code 2). So is one merely found in the current folder, which
   may be somebody else's (`surroundings`): its store and gateway would be contacted.
"""

import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from accredit.base.clock import unix_seconds
from accredit.cli.actions.doctor.production import configured, files, running, stored, there
from accredit.cli.actions.doctor.production.facts import Facts, Found, Unknown
from accredit.cli.actions.doctor.production.results import Result
from accredit.cli.actions.doctor.surroundings import surroundings
from accredit.cli.actions.output import BAD, GOOD, QUIET, print_json, say
from accredit.cli.progress import Progress
from accredit.config import Loaded, build_all_settings, build_watching, check_no_loop, store_of, tls_context
from accredit.errors import AccreditError, ConfigurationError
from accredit.gateway.settings import GatewaySettings
from accredit.limits import DOCTOR_SECONDS
from accredit.stores import StoreUrl

_Line = Callable[[Facts], Result]
LINES: Mapping[str, _Line] = {
    f"production.{line.__name__}": line
    for line in (
        *(configured.configuration, configured.files, configured.keys),
        *(configured.tls, configured.outgoing, configured.hosts, configured.admin, configured.tokens),
        *(configured.proofs, configured.scopes, configured.definitions, configured.answers),
        *(configured.revocation, configured.quotas),
        *(configured.store, there.schema, there.synchronous, there.role, there.room, there.clock),
        *(configured.sealing, configured.records, configured.evidence, there.shipping, there.drill),
        *(there.ready, there.user, there.descriptors, configured.stopping, configured.metrics),
    )
}
"""Checks by id."""
_MARKS = {"ok": ("ok  ", GOOD), "no": ("NO  ", BAD), "unknown": ("?   ", ""), "left out": ("--  ", QUIET)}


def go_through(
    config: Path | None, left_out: Sequence[str], environ: Mapping[str, str] = os.environ, *, as_json: bool
) -> int:
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
    results = {name: line(facts) for name, line in LINES.items()}
    is_well = all(each.state == "ok" for name, each in results.items() if name not in left_out)
    told = [{"id": name, **to_builtins(each), "left_out": name in left_out} for name, each in results.items()]
    if as_json:
        print_json({"ok": is_well, "checks": told})
        return 0 if is_well else 1
    for name, each in results.items():
        mark, style = _MARKS["left out" if name in left_out else each.state]
        say(f"{mark}  {name}: {each.what}", style)
        for more in filter(None, (each.remedy, each.command)):
            say(f"      {more}")
    counts = Counter(each.state for name, each in results.items() if name not in left_out)
    say("")
    text = f"{counts['ok']} ok, {counts['no']} not, {counts['unknown']} can't be told from here"
    say(text + (f", {len(set(left_out))} left out on your word" if left_out else ""), QUIET if is_well else BAD)
    return 0 if is_well else 1


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
        names = ("lists", "database", "file_store", "room", "log", "drilled")
        return dict.fromkeys(names, lambda: store)
    return {
        "lists": lambda: stored.lists_found(loaded, store),
        "database": lambda: stored.database_found(store),
        "file_store": lambda: stored.file_found(store),
        "room": lambda: stored.room_found(store),
        "log": lambda: stored.log_found(store),
        "drilled": lambda: stored.drill_found(store, stored.prover_found(loaded)),
    }


def _store(loaded: Loaded) -> Found[StoreUrl]:
    try:
        return store_of(loaded)
    except ConfigurationError as error:
        return Unknown(error.what)


def _settings(loaded: Loaded, environ: Mapping[str, str]) -> Found[Sequence[GatewaySettings]]:
    try:
        settings = build_all_settings(loaded, environ)
        check_no_loop(loaded.config.gateway, settings)
        tls_context(loaded.config.gateway)
        build_watching(loaded)
    except ConfigurationError as error:
        return Unknown(error.what)
    return settings


def run_looks(looks: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """Run the look-ups concurrently; return each result, or `Unknown` (rule 1)."""
    told: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    for name, look in looks.items():
        thread = threading.Thread(target=_take, args=(name, look, told), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # there is no room for a thread
            told.put((name, _failure(error)))
    found = dict[str, Any].fromkeys(looks, Unknown(f"this look took more than {seconds:g} s"))
    late_at, waiting = time.monotonic() + seconds, len(looks)
    while waiting:
        try:
            name, value = told.get(timeout=max(0.0, late_at - time.monotonic()))
        except queue.Empty:
            break
        found[name], waiting = value, waiting - 1
    return found


def _take(name: str, look: Callable[[], Any], told: "queue.SimpleQueue[tuple[str, Any]]") -> None:
    try:
        value = look()
    except (AccreditError, OSError, ValueError, RuntimeError, MemoryError) as error:
        value = _failure(error)
    told.put((name, value))


def _failure(error: Exception) -> Unknown:
    return Unknown(f"this look has failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
