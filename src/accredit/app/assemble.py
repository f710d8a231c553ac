"""Makes the adapters that answer the ports of a decision. Reads revocation lists and key files, and has a signer of
records sign once, in a process of its own.

Nothing that threads or processes can't share is open afterwards: the adapters may be taken across a fork, and each
worker opens its own files and connections at first use.
"""

import logging
import socket
from typing import NamedTuple

from accredit.attest import Head, LogSigner
from accredit.base.deferred import load
from accredit.base.log_events import log_event
from accredit.config import (
    Loaded,
    build_key_sources,
    build_log_signer,
    folder_of,
    gateway_id,
    policy_digest,
    read_public_key,
    store_of,
    try_record_signer,
)
from accredit.errors import ConfigurationError
from accredit.gateway.settings import ProofSettings
from accredit.gateway.upstream.http.own_token import AccessTokensFor
from accredit.ports import AccessTokens, KeySets, ProofStore, Records, Revocations, TaskStore
from accredit.stores import (
    InMemory,
    PostgresDatabase,
    SqliteFile,
    StoreUrl,
    check_store,
    open_revocations,
    open_store,
    open_tasks,
)
from accredit.stores.audit_log.process import LogProcess
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.requests import DatabaseLog, FileLog, LogExecutor, LogPlace
from accredit.stores.audit_log.thread import DatabaseThread, FileThread
from accredit.tokens import AccessGrant

_logger = logging.getLogger("accredit.app")


def _access_tokens(grant: AccessGrant) -> AccessTokens:
    from accredit import net  # noqa: PLC0415 - httpx2 costs 2 MiB, and only who needs a token needs it

    return net.AccessTokens(grant)


class Ports(NamedTuple):
    """The adapters, by port; None if nothing needs one. Whoever serves with them closes all but the revocations."""

    store: ProofStore | None = None
    revocations: Revocations | None = None
    key_sets: KeySets | None = None
    records: Records | None = None
    tasks: TaskStore | None = None
    access_tokens: AccessTokensFor = _access_tokens


def assemble(loaded: Loaded, proofs: ProofSettings | None) -> Ports:
    """Return the store, the revocation lists, the key sets and the log that a configuration names.

    Raises `ConfigurationError`.
    """
    _load_libraries(loaded, proofs)
    key_sets = _key_sets(loaded) if loaded.config.tokens.mode != "off" else None
    records = _records(loaded)
    if proofs is None or not proofs.required:
        return Ports(key_sets=key_sets, records=records, tasks=_tasks_alone(loaded))
    store = store_of(loaded)
    check_store(store)
    opened = open_store(store)
    revocations = _revocations(loaded, proofs, store, opened)
    return Ports(opened, revocations, key_sets, records, open_tasks(store))


def _tasks_alone(loaded: Loaded) -> TaskStore | None:
    """Return the memory of tasks where tokens guard them and no proofs do."""
    if loaded.config.tokens.mode != "required":
        return None
    check_store(store_of(loaded))
    return open_tasks(store_of(loaded))


def _load_libraries(loaded: Loaded, proofs: ProofSettings | None) -> None:
    """Load what calls will need: the first does not wait for it then, and workers share what their parent loaded."""
    if proofs is not None and proofs.required:
        load("cryptography.hazmat.primitives.asymmetric.mldsa")
    servers = (loaded.config.upstream, *loaded.config.servers.by_name.values())
    if loaded.config.tokens.mode != "off" or any(each.identity == "jwt" for each in servers):
        load("jwt")
    if loaded.config.tokens.mode != "off" or loaded.config.cluster.keys_file or loaded.config.rounds.keys_file:
        load("cryptography.hazmat.primitives.ciphers.aead", "cryptography.hazmat.primitives.kdf.hkdf")  # sessions' ids


def _key_sets(loaded: Loaded) -> KeySets:
    from accredit.net import IssuerKeys  # noqa: PLC0415 - httpx2 costs 2 MiB, and only keys at a URL need it

    return IssuerKeys(build_key_sources(loaded))


def _records(loaded: Loaded) -> Records | None:
    mode = loaded.config.attest.mode
    if mode == "off":
        return None
    durable = mode == "durable"
    place: LogPlace
    match store_of(loaded):
        case InMemory():
            raise ConfigurationError("a store in memory has no log", 'set store.url = "sqlite:///accredit.db"')
        case PostgresDatabase() as database:
            check_store(database)
            place = DatabaseLog(database, gateway_id(loaded), socket.gethostname())
        case SqliteFile(path):
            place = FileLog(path, "FULL" if durable else "NORMAL")
    signer = build_log_signer(loaded)
    try_record_signer(loaded)
    return QueuedRecords(
        _log_executor(place, signer),
        durable=durable,
        policy_digest=policy_digest(loaded),
        on_problem=_report_unwritten,
        on_checkpoint=_report_checkpoint,
    )


def _log_executor(place: LogPlace, signer: LogSigner) -> LogExecutor:
    """Return who writes the log. The gateway's own key signs in a process beside this one, as that costs CPU. Another
    signer works in a thread of this process: it mostly waits."""
    if signer.records is None:
        return LogProcess(place, signer, on_replaced=_report_replaced)
    return FileThread(place, signer) if isinstance(place, FileLog) else DatabaseThread(place, signer)


def _revocations(loaded: Loaded, proofs: ProofSettings, store: StoreUrl, opened: ProofStore) -> Revocations:
    named = loaded.config.proofs.revocation
    folder = folder_of(loaded, ("proofs", "revocation"))
    keys = {key.id: key for key in proofs.policy.roots}
    for index, file in enumerate(named.public_key_files):
        key = read_public_key(folder / file, f"proofs.revocation.public_key_files[{index}]").public_key
        keys[key.id] = key
    return open_revocations(store, opened, (folder / file for file in named.files), keys, _report)


def _report_unwritten(problem: str) -> None:
    log_event(_logger, logging.ERROR, "records can't be written", detail=problem)


def _report_replaced(exit_code: int | None) -> None:
    log_event(
        _logger, logging.WARNING, "the process that writes the log had ended, and is replaced", exit_code=exit_code
    )


def _report_checkpoint(head: Head) -> None:
    log_event(_logger, logging.INFO, "checkpoint", writer=head.writer, count=head.sequence, head=head.sha256)


def _report(problem: str) -> None:
    log_event(_logger, logging.WARNING, "a revocation list is not taken", detail=problem)
