"""What `accredit revoke` runs: makes or extends an issuer's signed list, in a file or in a gateway's store.

The list that is there must be whole and the issuer's own: extending a forged one would sign what the forger left out.
Two processes that revoke at once wait for each other, so that neither's entry is lost.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.cli.actions import wording as words
from accredit.cli.actions.output import find_by_prefix, print_facts, print_json, say, tell
from accredit.errors import AccreditError, ConfigurationError, StoreUnavailable, WireError
from accredit.keys import AskPassphrase, SigningKey, load_signing_key, read_file, write_file
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ratify import RevocationList, issue_revocation_list, revocation_list_fault
from accredit.stores import InMemory, LogStore, PostgresDatabase, SqliteFile, open_log, parse_store_url
from accredit.stores.postgres.revocation_lists import change_list as change_list_in_database
from accredit.stores.rules import ListChange
from accredit.stores.sqlite.revocation_lists import change_list

_OWN_ID = re.compile(r"[0-9a-f]{32}")
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")
_NEGATIVE = 1

_WHOLE = "write the whole id, which `accredit inspect FILE` shows: only those of certificates that were used are known"


class _Presented(Struct):
    cert_id: str
    issuer_id: str
    scope: list[str]


_Extend = Callable[[bytes | None], bytes]
"""Takes a list's bytes (None if there is none yet) and returns those of the list with the new entry."""


def revoke_certificate(
    cert_id: str, issuer: Path, list_file: Path | None, store: str | None, *, ask: AskPassphrase, as_json: bool
) -> int:
    """Add a certificate's id to a list; return the exit code. Raises `ConfigurationError`."""
    if not cert_id.strip() or not cert_id.isprintable():
        raise ConfigurationError("CERT_ID: not a certificate's id", "`accredit inspect FILE` shows a delegation's ids")
    if os.path.lexists(cert_id):
        raise ConfigurationError(
            f"CERT_ID: {cert_id} is a file", f"name a certificate's id; `accredit inspect {cert_id}` shows those in it"
        )
    if (list_file is None) == (store is None):
        raise ConfigurationError("a list is either in a file (--list) or in a store (--store)", "name one of them")
    key = load_signing_key(issuer, ask)
    where = str(list_file or store)
    database = None if store is None else _store(store)
    if database is not None and _BEGINNING.fullmatch(cert_id):
        whole_id = _presented(database, cert_id, key.about.id)
        if whole_id is None:
            return _NEGATIVE
        cert_id = whole_id

    def extend(old: bytes | None) -> bytes:
        return _extend(old, cert_id, key, where)

    is_new = isinstance(database, SqliteFile) and not database.path.exists()
    change = _in_file(Path(where), extend) if database is None else _in_store(database, key, extend)
    _warn(cert_id, key, store, is_new=is_new)
    place = "file" if store is None else "store"
    _report(change, cert_id, (place, where), key, as_json=as_json)
    return 0


def _in_file(path: Path, extend: _Extend) -> ListChange:
    with _locked(path):
        before = read_file(path, MAX_STATEMENT_BYTES).data if _exists(path) else None
        after = extend(before)
        if after != before:
            write_file(path, after, replace=True)
    return ListChange(before, after)


@contextlib.contextmanager
def _locked(list_file: Path) -> Generator[None]:
    # The folder is locked, since the file is replaced: a lock on it would be one on the old file.
    with contextlib.ExitStack() as stack:
        try:
            folder = os.open(Path(os.path.realpath(list_file)).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError as error:
            raise ConfigurationError(
                f"can't lock the folder of {list_file}: {error.strerror}", "name a file in a folder of this machine"
            ) from None
        yield


def _exists(list_file: Path) -> bool:
    try:
        list_file.stat()
    except FileNotFoundError:
        return False
    except OSError:  # it may be there: that it can't be read is no reason to begin a new one
        return True
    return True


def _store(url: str) -> LogStore:
    found = parse_store_url(url, Path())
    if isinstance(found, InMemory):
        raise ConfigurationError(
            "--store memory: ends with the process that has it", "name the gateway's file: --store sqlite:///FILE"
        )
    return found


def _presented(database: LogStore, prefix: str, issuer_id: str) -> str | None:
    """Return the whole id of the issuer's only certificate whose id begins with `prefix`, among those that calls
    presented.

    None, with the reason on stderr, if there is not exactly one.
    """
    candidates: dict[str, str] = {}
    try:
        with open_log(database) as log:
            for chain in log.chains():
                candidates |= {
                    cert.cert_id: words.scopes(cert.scope)
                    for cert in msgspec.json.decode(chain, type=list[_Presented])
                    if cert.issuer_id == issuer_id
                }
    except (AccreditError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"{prefix} is no whole id, and the store's log, which may know it, can't be read: {error}", _WHOLE
        ) from None
    return find_by_prefix(prefix, candidates, "certificate", _WHOLE)


def _in_store(store: LogStore, key: SigningKey, extend: _Extend) -> ListChange:
    try:
        if isinstance(store, PostgresDatabase):
            return change_list_in_database(store, key.about.id, extend)
        return change_list(store.path, key.about.id, extend)
    except StoreUnavailable as error:
        raise ConfigurationError(f"not revoked: {error}", "try again, or name a file: --list FILE") from None


def _extend(old: bytes | None, cert_id: str, key: SigningKey, where: str) -> bytes:
    before: tuple[str, ...] = ()
    updated_at = unix_seconds()
    if old is not None:
        current = _verified(old, key, where)
        if cert_id in current.revoked_certs:
            return old
        before, updated_at = current.revoked_certs, max(updated_at, current.updated_at)
    try:
        return issue_revocation_list(key.signer, (*before, cert_id), updated_at).encode() + b"\n"
    except WireError as error:
        raise ConfigurationError(f"{where} can't take another entry: {error.reason}", "begin a new list") from None


def _verified(data: bytes, key: SigningKey, where: str) -> RevocationList:
    try:
        current = RevocationList.decode(data)
    except WireError as error:
        what = str(error).removeprefix("wire: ")
        raise ConfigurationError(
            f"{where} is not a revocation list: {what}", "name a file that holds a revocation list"
        ) from None
    if current.issuer_id != key.about.id:
        raise ConfigurationError(
            f"{where} is the list of {current.issuer_id}, and the key is {key.about.name}'s ({key.about.id})",
            "name that issuer's key, or another file: each issuer has a list",
        )
    fault = revocation_list_fault(current, key.about.public_key)
    if fault:
        raise ConfigurationError(
            f"{where} was changed after it was signed: {fault}", "restore it, or begin a new list in another file"
        )
    return current


def _warn(cert_id: str, key: SigningKey, store: str | None, *, is_new: bool) -> None:
    """Warn of what may keep a revocation from counting: whoever revokes relies on it, and nothing else would tell."""
    if not _OWN_ID.fullmatch(cert_id):
        tell(f"warning: {cert_id} is no id that accredit gives (32 hex digits); `accredit inspect FILE` shows them")
    if is_new:
        tell(f"warning: {store} was not there and has been made: no gateway that runs reads it")
    if key.about.kind != "human":
        tell(
            f"warning: the list is of {key.about.name}, of kind {key.about.kind}: gateways must name that public key in"
            " proofs.revocation.public_key_files, and do not start with a list of somebody whom they don't know"
        )


def _report(change: ListChange, cert_id: str, place: tuple[str, str], key: SigningKey, *, as_json: bool) -> None:
    revoked = RevocationList.decode(change.after)
    is_new = change.after != change.before
    kind, where = place
    updated = words.timestamp(revoked.updated_at)
    if as_json:
        print_json(
            {
                kind: where,
                "issuer_id": revoked.issuer_id,
                "updated_at": updated,
                "added": is_new,
                "revoked_certs": list(revoked.revoked_certs),
            }
        )
        return
    say(f"revoked {cert_id}" if is_new else f"{cert_id} was revoked before: nothing is changed")
    print_facts(
        [
            ("list", where),
            ("signed by", f"{key.about.name} ({key.about.id})"),
            ("as of", updated),
            ("holds", f"{len(revoked.revoked_certs)} in all"),
        ]
    )
