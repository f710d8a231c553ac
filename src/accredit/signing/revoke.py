"""Implements `accredit revoke`: creates or extends an issuer's signed list, in a file or in a gateway's store. With
--at, no list is written: a gateway on another machine ends the logins, tokens and key that it keeps for the client to
which the certificate was issued.

If a call has used the certificate, a prefix of its id is enough. So that only the intended certificate is revoked:

- [prefix] The prefix has at least eight characters, and matches only one certificate.
- [issuer-only] Only certificates signed by the issuer are searched. Otherwise any caller could invent one for any
  prefix.
- [consent] The certificate is shown, with its subject and scopes, and the user agrees at the terminal or by `--yes`.
"""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from accredit.base.clock import unix_seconds
from accredit.base.standard import STDIN, STDOUT, is_for_programs
from accredit.console.elsewhere import GatewayElsewhere, read_address
from accredit.console.lists import ListPlace, begin_list, revoke
from accredit.errors import AccreditError, ConfigurationError, DeskError
from accredit.keys import AskPassphrase, SigningKey, load_signing_key
from accredit.ratify import DelegationCert, RevocationList, delegation_sign_bytes
from accredit.ratify.hybrid import signature_fault
from accredit.ratify.structures import decode_chain
from accredit.stores import LogStore, parse_store_url
from accredit.stores.rules import ListChange
from accredit.terminal import wording as words
from accredit.terminal.output import check_out, find_by_prefix, print_facts, print_result, say, tell, write_out
from accredit.terminal.progress import Progress

MIN_REVOKED_ID_CHARS = 8
"""How many characters of a certificate's id have to be written to revoke it. The chance that two of 1,000 certificates
begin with the same eight characters is 1 in 8,000."""


_OWN_ID = re.compile(r"[0-9a-f]{32}")
_BEGINNING = re.compile(r"[0-9a-f]{1,31}")

_WHOLE = "write the whole id, which `accredit inspect FILE` shows: only those of certificates that were used are known"


def run_revoke(
    *,
    issuer: Path,
    cert_id: str | None,
    list_file: Path | None,
    store: str | None,
    at: str | None,
    empty: bool,
    yes: bool,
    passphrase: AskPassphrase,
) -> int:
    """Run `accredit revoke`; return the exit code. Raises `ConfigurationError`."""
    _check_options(cert_id, list_file, store, at, empty=empty)
    if at is not None and cert_id is not None:
        return _end_elsewhere(cert_id, issuer, at, passphrase)
    out = STDOUT if list_file == STDIN else None
    check_out(out)
    database = None if store is None else _store(store)
    key = load_signing_key(issuer, passphrase)
    if cert_id is not None and database is not None and _BEGINNING.fullmatch(cert_id):
        found = _find_presented(database, cert_id, key)
        if found is None or not _confirm_revocation(found, agreed=yes):
            return 1
        cert_id = found.cert_id
    is_new = database is not None and not (database.file is None or os.path.lexists(database.file))
    place = ListPlace(database or list_file or Path(), str(list_file or store))
    change = begin_list(key, place) if cert_id is None else revoke(cert_id, key, place)
    if cert_id is not None and not _OWN_ID.fullmatch(cert_id):
        tell(f"warning: {cert_id} is no id that accredit gives (32 hex digits); `accredit inspect FILE` shows them")
    _warn(key, store, is_new=is_new)
    if out is not None:
        write_out(out, change.after)
    _report(change, cert_id, ("file" if store is None else "store", place.name), key)
    return 0


def _check_options(
    cert_id: str | None, list_file: Path | None, store: str | None, at: str | None, *, empty: bool
) -> None:
    if empty and cert_id is not None:
        raise ConfigurationError("CERT_ID and --empty are given", "name a certificate, or make a list without entries")
    if not empty and cert_id is None:
        raise ConfigurationError("CERT_ID is missing", "name a certificate; --empty makes a list without entries")
    if at is not None:
        if cert_id is None or list_file is not None or store is not None:
            raise ConfigurationError("--at is for a certificate, and in place of a list", "leave out the others")
        return
    if cert_id is not None and not (cert_id.strip() and cert_id.isprintable()):
        raise ConfigurationError("CERT_ID: not a certificate's id", "`accredit inspect FILE` shows a delegation's ids")
    if cert_id is not None and os.path.lexists(cert_id):
        raise ConfigurationError(
            f"CERT_ID: {cert_id} is a file",
            f"name a certificate's id; `accredit inspect {shlex.quote(cert_id)}` shows those in it",
        )
    if (list_file is None) == (store is None):
        raise ConfigurationError("a list is either in a file (--list) or in a store (--store)", "name one of them")


def _end_elsewhere(cert_id: str, issuer: Path, url: str, passphrase: AskPassphrase) -> int:
    """Have a gateway on another machine end the certificate `cert_id`, which the issuer has signed for a client of that
    gateway; return the exit code. Raises `ConfigurationError`."""
    if not _OWN_ID.fullmatch(cert_id):
        raise ConfigurationError("CERT_ID: not a whole id (32 hex digits)", "write it as `accredit connect-app` did")
    address, key = read_address(url), load_signing_key(issuer, passphrase)
    try:
        ended = asyncio.run(GatewayElsewhere(address, key.about.id, unix_seconds).take_back(cert_id, key.signer))
    except DeskError as error:
        raise ConfigurationError(f"not revoked: {error.reason}", "try again, or revoke it in a list") from None
    print_result({"at": address, "cert_id": cert_id, "ended": ended})
    if ended:
        say(f"{address} has ended {cert_id}: its logins, its tokens, and the agent's key")
    elif not is_for_programs():
        tell(f"{address} keeps nothing of {cert_id}, or does not know {key.about.name}'s key")
    return 0 if ended else 1


def _store(url: str) -> LogStore:
    found = parse_store_url(url, Path()).lasting
    if found is None:
        raise ConfigurationError(
            "--store memory: ends with the process that has it", "name the gateway's file: --store sqlite:///FILE"
        )
    return found


def _find_presented(database: LogStore, prefix: str, key: SigningKey) -> DelegationCert | None:
    """Return the issuer's certificate whose id begins with `prefix`, from those presented in calls ([prefix] and
    [issuer-only]). If there is not exactly one, return None, with the reason on stderr. Raises `ConfigurationError`."""
    candidates: dict[str, DelegationCert] = {}
    try:
        with database.open_log() as log, Progress("looking through certificates", unit="chains") as progress:
            for chain in progress.over(log.chains()):
                if prefix.encode() in chain:
                    candidates |= {cert.cert_id: cert for cert in _own(chain, prefix, key)}
    except AccreditError as error:
        raise ConfigurationError(
            f"{prefix} is no whole id, and the store's log, which may know it, can't be read: {error}", _WHOLE
        ) from None
    described = {cert_id: words.scopes(cert.scope) for cert_id, cert in candidates.items()}
    found = find_by_prefix(prefix, described, "certificate", _WHOLE, at_least=MIN_REVOKED_ID_CHARS)
    return None if found is None else candidates[found]


def _own(chain: bytes, prefix: str, key: SigningKey) -> Iterator[DelegationCert]:
    """Yield the chain's certificates whose id begins with the prefix, and that were signed by the key."""
    for cert in decode_chain(chain):
        is_meant = cert.cert_id.startswith(prefix) and cert.issuer_pub_key == key.about.public_key
        if is_meant and signature_fault(delegation_sign_bytes(cert), cert.signature, cert.issuer_pub_key) is None:
            yield cert


def _confirm_revocation(cert: DelegationCert, *, agreed: bool) -> bool:
    """Show on stderr what will be revoked; return whether the user agrees ([consent]). Raises `ConfigurationError`."""
    ends = words.ends(cert, unix_seconds())
    facts = [("certificate", cert.cert_id), ("for", cert.subject_id), ("scopes", words.scopes(cert.scope))]
    print_facts([*facts, ("ends", ends)], err=True)
    if agreed:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "only the beginning of an id is given, and there is nobody to ask", "write it whole, or say --yes"
        )
    return click.confirm("Revoke it?", default=False, err=True)


def _warn(key: SigningKey, store: str | None, *, is_new: bool) -> None:
    """Warn of what may make a revocation ineffective. Without this, nothing would show it."""
    if is_new:
        tell(f"warning: {store} was not there and has been made: no gateway that runs reads it")
    if key.about.kind != "human":
        tell(
            f"warning: the list is of {key.about.name}, of kind {key.about.kind}: gateways must name that public key in"
            " proofs.revocation.public_key_files, and do not start with a list of somebody whom they don't know"
        )


def _report(change: ListChange, cert_id: str | None, place: tuple[str, str], key: SigningKey) -> None:
    """Report the new list. `cert_id` is None for a list without entries. `place` is where the list is: the kind of
    place, and its name."""
    revoked = RevocationList.decode(change.after)
    is_new = change.after != change.before
    kind, where = place
    updated = words.date_time(revoked.updated_at)
    print_result(
        {
            kind: where,
            "issuer_id": revoked.issuer_id,
            "updated_at": updated,
            "made" if cert_id is None else "added": is_new,
            "revoked_certs": list(revoked.revoked_certs),
        }
    )
    show, streamed = (tell, True) if where == str(STDIN) else (say, False)
    if cert_id is None:
        show("made a list without entries" if is_new else "there is such a list already: nothing is changed")
    else:
        show(f"revoked {cert_id}" if is_new else f"{cert_id} was revoked before: nothing is changed")
    facts = [("list", where), ("signed by", f"{key.about.name} ({key.about.id})")]
    if cert_id is not None:
        facts.append(("as of", updated))
    print_facts([*facts, ("holds", f"{len(revoked.revoked_certs)} in all")], err=streamed)
