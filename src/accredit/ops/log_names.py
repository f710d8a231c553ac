"""Names of known keys for the ids in a log, and look-up of ids by prefix. Reads key files.

A key's owner chose its name, so the id is always shown with it. A call is found even if its records do not verify: the
caller reports that. If there are keys, the id of an agent or principal is only taken from a record that verifies.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from accredit.attest import LogKey, RecordKey
from accredit.config.load import load
from accredit.console.names import known_names as own_names
from accredit.keys import public_keys_in
from accredit.keys.places import config_folder
from accredit.ops.log_place import LogSource, names_in
from accredit.ops.log_record import Names
from accredit.stores.audit_log.calls import read_call_records
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reading import LogReader
from accredit.terminal.output import MAX_TOLD_CANDIDATES, MIN_ID_CHARS, find_by_prefix

_Keys = Sequence[LogKey | RecordKey]
_WHOLE = re.compile(r"[0-9a-f]{32}")

UNKNOWN_CALL = "`accredit log list` shows the ids of the calls that the log holds; older ones may be pruned"
_UNKNOWN_PARTY = "`accredit log list --json` shows the ids of those who called"


def known_names(paths: Iterable[Path], source: LogSource) -> Names:
    """Return the names in the given keys, and those that the person has given or has keys for (`console.names`). If the
    log is a configuration's, add the names in the keys beside that configuration.

    Raises `ConfigurationError`, but not for a file beside the configuration that is not a key.
    """
    names = {**own_names(config_folder(os.environ)), **names_in(paths)}
    return names if source.store is not None else {**names_beside(load(source.config, os.environ, {}).file), **names}


def names_beside(configuration: Path | None) -> dict[str, str]:
    """Return the names in the public keys beside a configuration, by the keys' ids."""
    if configuration is None:
        return {}
    return {key.id: key.name for _, key in public_keys_in(configuration.parent)}


def one_call(log: LogReader, prefix: str) -> str | None:
    """Return the id of the only call whose id begins with `prefix`. If there is none, or more than one, print the
    reason on stderr and return None. Raises `AttestationError`."""
    calls: dict[str, str] = {}
    for entry in log.of_calls(prefix) if len(prefix) >= MIN_ID_CHARS else ():
        record = entry.record()
        if record is not None and record.call.id.startswith(prefix):
            calls[record.call.id] = f"{record.times.received}  {record.call.target or record.call.method}"
        if len(calls) > MAX_TOLD_CANDIDATES:
            break
    return find_by_prefix(prefix, calls, "call", UNKNOWN_CALL)


def one_party(
    log: LogReader, prefix: str, names: Names, keys: _Keys, what: Literal["agent", "principal"]
) -> str | None:
    """Return the id of an agent or a principal, as `one_call` does for a call. A whole id need not be in the log."""
    if _WHOLE.fullmatch(prefix):
        return prefix
    prover, ids = Prover(keys), set[str]()
    for told in read_call_records(log.holding(prefix) if len(prefix) >= MIN_ID_CHARS else ()):
        authority = told.record.authority
        found = authority and (authority.agent_id if what == "agent" else authority.principal_id)
        if found and found not in ids and (not keys or prover.fault(told.entry) is None):
            ids.add(found)
    return find_by_prefix(prefix, {each: names.get(each, "") for each in ids}, what, _UNKNOWN_PARTY)
