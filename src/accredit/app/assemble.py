"""Makes the adapters for the ports through which calls are decided. Reads revocation lists and key files. Has a signer
of records sign once, in a process of its own.

Nothing is left open that threads or processes can't share. So the adapters survive a fork, and each worker opens its
own files and connections on first use.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from accredit.attest import Head, LogSigner
from accredit.base.clock import unix_seconds
from accredit.base.deferred import Deferred, load
from accredit.base.log_events import log_event
from accredit.config.attest import build_log_signer, gateway_id, trusted_log_keys, try_record_signer
from accredit.config.digest import policy_digest
from accredit.config.load import Loaded
from accredit.config.proofs import read_public_key
from accredit.config.store import store_of
from accredit.config.tokens import build_key_sources
from accredit.errors import ConfigurationError
from accredit.gateway.oauth_settings import IdpSettings, PeopleFor
from accredit.gateway.settings import ProofSettings
from accredit.gateway.upstream.http.sending import AccessTokensFor
from accredit.ports import AccessTokens, AskStore, ClientSource, KeySets, People, ProofStore, TaskStore
from accredit.rounds import KeyRing
from accredit.stores import open_revocations
from accredit.tokens.access import AccessGrant

if TYPE_CHECKING:  # what a gateway loads only if it has a store, or a log, or asks others for keys and tokens
    from accredit import net
    from accredit.net import client_documents, identity_provider
    from accredit.stores import OpenStore, RevocationLists, StoreUrl
    from accredit.stores.audit_log import process, queue, writer
    from accredit.stores.audit_log.places import LogPlace
    from accredit.stores.audit_log.requests import LogExecutor
    from accredit.stores.door.steps import Door
else:
    net, client_documents = Deferred("accredit.net"), Deferred("accredit.net.client_documents")
    identity_provider = Deferred("accredit.net.identity_provider")
    process, queue = Deferred("accredit.stores.audit_log.process"), Deferred("accredit.stores.audit_log.queue")
    writer = Deferred("accredit.stores.audit_log.writer")

_logger = logging.getLogger("accredit.app")


def _access_tokens(grant: AccessGrant) -> AccessTokens:
    return net.AccessTokens(grant)


def _people(idp: IdpSettings) -> People:
    return identity_provider.IdentityProvider(idp.issuer, idp.client_id, idp.client_secret)


class Ports(NamedTuple):
    """The adapters, each named after the interface (`accredit.ports`) that it implements; None if it is not needed. The
    caller closes all but the revocations."""

    store: "OpenStore | None" = None
    revocations: "RevocationLists | None" = None
    key_sets: KeySets | None = None
    records: "queue.QueuedRecords | None" = None
    tasks: TaskStore | None = None
    access_tokens: AccessTokensFor = _access_tokens
    door: "Door | None" = None
    asks: AskStore | None = None
    client_documents: ClientSource | None = None
    people: PeopleFor = _people


def assemble(loaded: Loaded, proofs: ProofSettings | None, ring: KeyRing | None = None) -> Ports:
    """Return the store, the revocation lists, the key sets and the log that a configuration names. What OAuth clients
    were granted is sealed with `ring`; without one, none are let in.

    Raises `ConfigurationError`.
    """
    return _deciding(Ports(records=_records(loaded)), loaded, proofs, ring)


def renew_ports(ports: Ports, loaded: Loaded, proofs: ProofSettings | None, ring: KeyRing | None = None) -> Ports:
    """Return adapters for a reloaded configuration. The store and the log stay open; revocation lists and key sets keep
    what they know. Raises `ConfigurationError`."""
    return _deciding(ports, loaded, proofs, ring)


async def refresh(ports: Ports) -> None:
    """Fetch remote key sets again."""
    if ports.key_sets is not None and isinstance(ports.key_sets, net.IssuerKeys):
        await ports.key_sets.refresh()


def _deciding(ports: Ports, loaded: Loaded, proofs: ProofSettings | None, ring: KeyRing | None) -> Ports:
    """Return `ports` with the adapters for decisions. Existing adapters are kept, with what they remember, even if they
    are no longer needed."""
    _load_libraries(loaded, proofs)
    tokens, judged = loaded.config.tokens.mode, proofs is not None and proofs.judged
    key_sets, revocations = _key_sets(loaded, ports.key_sets) if tokens != "off" else None, ports.revocations
    opened, tasks, store = ports.store, ports.tasks, store_of(loaded)
    if loaded.config.quotas.by_number and opened is None:
        _check_tables(store, ports)
        opened = store.open(unix_seconds())
    if judged or tokens == "required":
        if tasks is None or (judged and opened is None):
            _check_tables(store, ports)
        tasks = tasks or store.open_tasks()
        if proofs is not None and judged:
            opened = opened or store.open(unix_seconds())
            revocations = revocation_lists(loaded, proofs, store, opened, ports.revocations)
    ports = ports._replace(store=opened, revocations=revocations, key_sets=key_sets, tasks=tasks)
    return _with_door(ports, loaded, ring) if loaded.config.oauth.enabled and ring is not None else ports


def _with_door(ports: Ports, loaded: Loaded, ring: KeyRing) -> Ports:
    """Return `ports` with the adapters of the front door added."""
    store = store_of(loaded)
    return ports._replace(
        door=ports.door.sealed_with(ring) if ports.door is not None else store.open_door(ring),
        asks=ports.asks or store.open_asks(),
        client_documents=ports.client_documents
        or client_documents.ClientDocuments(private=loaded.config.oauth.private_documents),
    )


def _check_tables(store: "StoreUrl", ports: Ports) -> None:
    """Check the store's tables, unless `_records` has done so."""
    if ports.records is None:
        store.check_tables()


def _load_libraries(loaded: Loaded, proofs: ProofSettings | None) -> None:
    """Load the libraries that calls will need. So the first call does not wait, and workers share their parent's
    memory."""
    if proofs is not None and proofs.judged:
        load("cryptography.hazmat.primitives.asymmetric.mldsa", "nacl.bindings")
    servers = (loaded.config.upstream, *loaded.config.servers.by_name.values())
    if (
        loaded.config.tokens.mode != "off"
        or loaded.config.oauth.enabled
        or any(each.identity == "jwt" for each in servers)
    ):
        load("jwt")
    sealing = loaded.config.cluster.keys_file or loaded.config.rounds.keys_file or loaded.config.oauth.enabled
    if loaded.config.tokens.mode != "off" or sealing:
        load("cryptography.hazmat.primitives.ciphers.aead", "cryptography.hazmat.primitives.kdf.hkdf")  # sessions' ids
    if any(each.command for each in servers):
        load("accredit.gateway.upstream.stdio.backend")
    if loaded.config.gateway.merge:
        load("accredit.gateway.upstream.merged.backend")


def _key_sets(loaded: Loaded, before: KeySets | None) -> KeySets:
    return net.IssuerKeys(build_key_sources(loaded), before=before if isinstance(before, net.IssuerKeys) else None)


def _records(loaded: Loaded) -> "queue.QueuedRecords | None":
    mode = loaded.config.attest.mode
    if mode == "off":
        return None
    durable = mode == "durable"
    store = store_of(loaded).lasting
    if store is None:
        raise ConfigurationError("a store in memory has no log", 'set store.url = "sqlite:///accredit.db"')
    store.check_tables()
    place = store.log_place(gateway_id(loaded), trusted_log_keys(loaded), durable=durable)
    signer = build_log_signer(loaded)
    try_record_signer(loaded)
    return queue.QueuedRecords(
        _log_executor(place, signer),
        durable=durable,
        policy_digest=policy_digest(loaded),
        on_problem=_report_unwritten,
        on_checkpoint=_report_checkpoint,
        on_unverified=_report_unverified,
    )


def _log_executor(place: "LogPlace", signer: LogSigner) -> "LogExecutor":
    """Return the executor that writes the log. The gateway's own key signs in a separate process, as signing costs CPU.
    Another signer is used in a thread, as it mostly waits."""
    if signer.records is None:
        return process.LogProcess(place, signer, on_replaced=_report_replaced)
    return writer.LogThread(place, signer)


def revocation_lists(
    loaded: Loaded, proofs: ProofSettings, store: "StoreUrl", opened: ProofStore, before: "RevocationLists | None"
) -> "RevocationLists":
    """Read the revocation lists that a configuration names; `before` is the previous adapter. Raises
    `ConfigurationError`."""
    named = loaded.config.proofs.revocation
    keys = {key.id: key for key in (*proofs.policy.roots, *proofs.policy.pins)}
    for index, file in enumerate(named.public_key_files):
        key = read_public_key(Path(file), f"proofs.revocation.public_key_files[{index}]").public_key
        keys[key.id] = key
    return open_revocations(store, opened, map(Path, named.files), keys, _report, before)


def _report_unwritten(problem: str) -> None:
    log_event(_logger, logging.ERROR, "records can't be written", detail=problem)


def _report_replaced(exit_code: int | None) -> None:
    log_event(
        _logger, logging.WARNING, "the process that writes the log had ended, and is replaced", exit_code=exit_code
    )


def _report_unverified(what: str) -> None:
    log_event(_logger, logging.ERROR, "the log holds what does not verify", detail=what)


def _report_checkpoint(head: Head) -> None:
    log_event(_logger, logging.INFO, "checkpoint", writer=head.writer, count=head.sequence, head=head.sha256)


def _report(problem: str) -> None:
    log_event(_logger, logging.WARNING, "a revocation list is not taken", detail=problem)
