"""What `accredit revoke` runs: makes or extends an issuer's signed list, in a file or in a gateway's store."""

import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from accredit.base.standard import STDIN, STDOUT
from accredit.cli.actions import wording as words
from accredit.cli.actions.output import check_out, find_by_prefix, print_facts, print_json, say, tell, write_out
from accredit.console.revoking import revoke
from accredit.errors import AccreditError, ConfigurationError
from accredit.keys import AskPassphrase, SigningKey, load_signing_key
from accredit.ratify import RevocationList
from accredit.stores import InMemory, LogStore, SqliteFile, open_log, parse_store_url
from accredit.stores.rules import ListChange

_OWN_ID = re.compile(r"[0-9a-f]{32}")
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")
_NEGATIVE = 1

_WHOLE = "write the whole id, which `accredit inspect FILE` shows: only those of certificates that were used are known"


class _Presented(Struct):
    cert_id: str
    issuer_id: str
    scope: list[str]


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
    out = STDOUT if list_file == STDIN else None
    check_out(out, as_json=as_json)
    key = load_signing_key(issuer, ask)
    where = str(list_file or store)
    database = None if store is None else _store(store)
    if database is not None and _BEGINNING.fullmatch(cert_id):
        whole_id = _presented(database, cert_id, key.about.id)
        if whole_id is None:
            return _NEGATIVE
        cert_id = whole_id
    is_new = isinstance(database, SqliteFile) and not database.path.exists()
    change = revoke(cert_id, key, Path(where) if database is None else database, where)
    _warn(cert_id, key, store, is_new=is_new)
    place = "file" if store is None else "store"
    if out is not None:
        write_out(out, change.after)
    _report(change, cert_id, (place, where), key, as_json=as_json)
    return 0


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
    show, streamed = (tell, True) if where == str(STDIN) else (say, False)
    show(f"revoked {cert_id}" if is_new else f"{cert_id} was revoked before: nothing is changed")
    print_facts(
        [
            ("list", where),
            ("signed by", f"{key.about.name} ({key.about.id})"),
            ("as of", updated),
            ("holds", f"{len(revoked.revoked_certs)} in all"),
        ],
        err=streamed,
    )
