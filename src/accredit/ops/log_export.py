"""Implements `accredit log export` and `log checkpoint`. Writes to stdout, or to a new file, which is written
completely or not at all.

The store is private, so files written from it are private, too (mode 0600).
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from accredit.attest import CallBundle, Envelope, Stored, encode_call_bundle, encode_envelope
from accredit.base.clock import unix_seconds
from accredit.base.standard import STDOUT
from accredit.base.terminal import two_lines
from accredit.base.text import several
from accredit.errors import ConfigurationError
from accredit.keys.files import write_lines
from accredit.ops.log_names import UNKNOWN_CALL, one_call
from accredit.ops.log_place import LogSource, as_configuration_errors
from accredit.ops.log_show import records_of
from accredit.stores import LogStore
from accredit.stores.audit_log.reading import LogReader
from accredit.terminal.output import say, tell
from accredit.terminal.progress import Progress

_SECONDS_A_DAY = 86_400
_OTHER_LOG = "see that [attest] mode is not off, that calls were made, and that --store or --config names the gateway's"


def run_export(*, source: LogSource, out: Path | None, call: str | None, bundle: bool, wait: bool) -> int:
    """Run `accredit log export`; return the exit code. Raises `ConfigurationError`."""
    if bundle and call is None:
        raise ConfigurationError("--bundle is for one call", "name it with --call")
    if wait and not bundle:
        raise ConfigurationError("--wait is for the signature in a bundle", "add --bundle")
    place = source.place()
    if call is not None:
        return _export_call(place, call, out, bundle=bundle, wait=wait)
    empty = two_lines("the log is empty", _OTHER_LOG)
    return _write(place, out, lambda log: map(encode_envelope, _envelopes(log)), empty)


def run_checkpoint(*, source: LogSource, out: Path | None) -> int:
    """Run `accredit log checkpoint`: write the latest checkpoint of each writer, one a line; return the exit
    code. Raises `ConfigurationError`."""
    empty = two_lines("the log holds no checkpoint", _OTHER_LOG)
    counted: dict[str, int] = {}
    code = _write(source.place(), out, lambda log: map(encode_envelope, _latest(log, counted)), empty)
    for writer, records in counted.items():
        click.echo(
            f"note: none of writer {writer}, which has {several(records, 'record')}: nothing shows a cut of it",
            err=True,
        )
    return code


def _export_call(store: LogStore, call_id: str, out: Path | None, *, bundle: bool, wait: bool) -> int:
    """Write the envelopes, or the bundle, of the call whose id begins with `call_id`; return the exit code. If `wait`,
    a bundle is made only once the agent's signature can be in it. Raises `ConfigurationError`."""
    with as_configuration_errors(), store.open_log() as log:
        whole_id = one_call(log, call_id)
    if whole_id is None:
        return 1
    while wait and (held := _held_left(store, whole_id)):  # the log is closed meanwhile
        tell(f"waiting {_duration(held)}: until then somebody could still use the agent's signature")
        time.sleep(held)
    pruned = two_lines(f"no record of call {whole_id}", UNKNOWN_CALL)  # it was there a moment ago
    return _write(store, out, lambda log: _bundle(log, whole_id) if bundle else _call(log, whole_id), pruned)


def _envelopes(log: LogReader) -> Iterator[Envelope]:
    return (entry.entry.envelope for entry in log.entries() if isinstance(entry.entry, Stored))


def _latest(log: LogReader, counted: dict[str, int]) -> Iterator[Envelope]:
    """Yield the latest checkpoints. Afterwards `counted` has the writers without a checkpoint, with their numbers of
    records."""
    counted.update((head.writer, head.sequence) for head in log.heads())
    for each in log.latest_checkpoints():
        if isinstance(each.entry, Stored):
            counted.pop(each.entry.place.partition("/")[0], None)
            yield each.entry.envelope


def _call(log: LogReader, call_id: str) -> list[bytes]:
    return [encode_envelope(envelope) for _, envelope in records_of(log, call_id)]


def _held_left(store: LogStore, call_id: str) -> int:
    """Return for how many seconds the proof of a call is still withheld."""
    with as_configuration_errors(), store.open_log() as log:
        records = records_of(log, call_id)
        return log.hold_left(records[0][0], unix_seconds()) if records else 0


def _bundle(log: LogReader, call_id: str) -> list[bytes]:
    records = records_of(log, call_id)
    if not records:
        return []
    decision = records[0][0]
    certificates = log.certificates(decision.authority.chain_sha256) if decision.authority else None
    now = unix_seconds()
    covering, proof = _covering(log, decision.log.writer, decision.log.sequence), log.shown_of(decision, now)
    held = log.hold_left(decision, now)
    if held:
        tell(_held_note(held))
    bundle = CallBundle(tuple(envelope for _, envelope in records), certificates, covering, proof)
    return [encode_call_bundle(bundle)]


def _held_note(seconds: int) -> str:
    return (
        "note: the agent's signature is left out, since somebody could still use it for"
        f" {_duration(seconds)}, and in five minutes a file without it is BAD. Export this call again: --wait waits"
    )


def _duration(seconds: int) -> str:
    return several(seconds, "second") if seconds < _SECONDS_A_DAY else several(-(-seconds // _SECONDS_A_DAY), "day")


def _covering(log: LogReader, writer: str, sequence: int) -> Envelope | None:
    found = log.covering(writer, sequence)
    return found.entry.envelope if found and isinstance(found.entry, Stored) else None


def _write(store: LogStore, out: Path | None, lines_of: Callable[[LogReader], Iterable[bytes]], nothing: str) -> int:
    """Write lines and return the exit code; `nothing` is the message if there are none."""
    out = None if out == STDOUT else out
    hidden = out is None and sys.stdout.isatty()
    with (
        as_configuration_errors(),
        store.open_log() as log,
        Progress("exporting", unit="entries", hidden=hidden) as progress,
    ):
        lines = progress.over(lines_of(log))
        written = _to_stdout(lines) if out is None else write_lines(out, (line + b"\n" for line in lines), private=True)
    if not written:
        click.echo(nothing, err=True)
    elif out is not None:
        say(f"wrote {out}")
    return 0 if written else 1


def _to_stdout(lines: Iterable[bytes]) -> int:
    written = 0
    for line in lines:
        sys.stdout.buffer.write(line + b"\n")
        written += 1
    sys.stdout.flush()
    return written
