"""A gateway's log as an auditor is given it: judged by the real commands, with public keys alone. I/O: files in the
test's folder."""

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from tests.world.in_process import Done
from tests.world.recorded import records_of, thread
from tests.world.records import POLICY

from accredit.attest import CallRecord
from accredit.base.clock import unix_seconds
from accredit.cli import main
from accredit.keys import PrivateKeyFile, log_signer, make_key, write_key
from accredit.ports import Records
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.reader import LogFile

LATER = 1_000
"""Seconds after a call: what its agent signed is too old for any gateway then."""


def command(*arguments: str | Path) -> Done:
    """Runs `accredit` with these arguments, in this process."""
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["accredit", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main()
    return Done(code, out.getvalue(), err.getvalue())


def export(log: Path, call: str, *, after: int = LATER) -> Path:
    """The bundle of a call in a log's file, as it is exported so many seconds later."""
    out = log.parent / f"{call}-{after}.json"
    if not out.exists():
        with patch("accredit.ops.log_export.unix_seconds", lambda: unix_seconds() + after):
            done = command(
                "log", "export", "--store", f"sqlite:///{log}", "--call", call, "--bundle", "--out", out
            )  # fmt: skip
        assert done.code == 0, done
    return out


class Told(NamedTuple):
    """What is told of a call: its record, what is kept beside it, and what the auditor of its bundle reads."""

    record: CallRecord
    kept: tuple[bool, bool]
    """Certificates, and a proof."""
    code: int
    found: Mapping[str, Any]

    @property
    def allowed(self) -> bool:
        """Whether the record says so."""
        return self.record.decision is not None and self.record.decision.verdict == "allow"

    @property
    def proved(self) -> bool:
        """Whether both a person's and an agent's signatures show it."""
        return all((self.found.get(part) or {}).get("verified") for part in ("allowed", "signed"))

    def __str__(self) -> str:
        """All of it in a line: method, verdict, what is kept; who it is shown for; what is not answered."""
        assert self.record.decision is not None
        observed = "" if self.record.decision.enforced else "would "
        kept = [name for name, there in zip(("certificates", "proof"), self.kept, strict=True) if there]
        shown = [name for name in ("allowed", "signed") if (self.found.get(name) or {}).get("verified")]
        said = f"{self.record.call.method} {observed}{self.record.decision.verdict}"
        said += f"; {' and '.join(kept) or 'nothing'} kept; {' and '.join(shown) or 'nothing'} shown"
        return said + "".join(f"; not {each}" for each in self.found.get("unanswered") or ())


class Audited:
    """A gateway's key, a person's, and the log that the gateway writes with `records`."""

    def __init__(self, folder: Path, owner: PrivateKeyFile) -> None:
        self.folder, self.log = folder, folder / "log.db"
        self._gateway = make_key("gateway", "Mail gateway", unix_seconds())
        write_key(folder / "gateway.key", self._gateway)
        write_key(folder / "owner.key", owner)

    @property
    def keys(self) -> tuple[str | Path, ...]:
        """The options that name both public keys."""
        return ("--key", self.folder / "gateway.key.pub", "--root", self.folder / "owner.key.pub")

    def records(self) -> Records:
        """Who writes the log, signed by the gateway."""
        return QueuedRecords(
            thread(self.log, log_signer(self._gateway)), durable=True, policy_digest=POLICY, on_problem=pytest.fail
        )

    def whole(self, *options: str) -> Done:
        """`accredit log verify` of the whole log, for programs."""
        return command("log", "verify", "--store", f"sqlite:///{self.log}", *self.keys, "--json", *options)

    def told(self, *options: str, after: int = LATER) -> list[Told]:
        """Each call, whose bundle is exported so many seconds later and verified by itself."""
        with LogFile(self.log) as log:
            decided = [(each, log.kept_of(each)) for each in records_of(self.log) if each.decision is not None]
        return [
            Told(record, (bool(chain), bool(proof)), *self._bundle(record, after, options))
            for record, (chain, proof) in decided
        ]

    def _bundle(self, record: CallRecord, after: int, options: tuple[str, ...]) -> tuple[int, Any]:
        out = export(self.log, record.call.id, after=after)
        done = command("log", "verify", out, *self.keys, "--json", *options)
        return done.code, json.loads(done.out)
