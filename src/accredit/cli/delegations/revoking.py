"""What `accredit revoke` runs: makes or extends an issuer's signed list.

The list that is there must be whole and the issuer's own: extending a forged one would sign what the forger left out.
Two processes that revoke at once wait for each other, so that neither's entry is lost.
"""

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from accredit.cli.delegations import words
from accredit.cli.delegations.documents import read_revocations
from accredit.cli.delegations.paper import print_facts, print_json, say
from accredit.errors import ConfigurationError, WireError
from accredit.keys import SigningKey, load_signing_key, write_file
from accredit.ratify import RevocationList, issue_revocation_list, revocation_list_fault
from accredit.ratify.needs import clock


def revoke_certificate(cert_id: str, issuer: Path, list_file: Path, *, as_json: bool) -> int:
    """Adds a certificate's id to a list; returns the exit code. Raises `ConfigurationError`."""
    if not cert_id.strip() or not cert_id.isprintable():
        raise ConfigurationError("CERT_ID: not a certificate's id", "`accredit inspect FILE` shows a delegation's ids")
    key = load_signing_key(issuer)
    with _locked(list_file):
        old = _read(list_file, key)
        is_new = old is None or cert_id not in old.revoked_certs
        revoked = _extend(old, cert_id, key, list_file) if old is None or is_new else old
    _report(revoked, cert_id, list_file, key, is_new=is_new, as_json=as_json)
    return 0


@contextlib.contextmanager
def _locked(list_file: Path) -> Generator[None]:
    # The folder's lock: the file itself is replaced, and a lock on it would be one on the old file.
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


def _read(list_file: Path, key: SigningKey) -> RevocationList | None:
    if not _exists(list_file):
        return None
    found = read_revocations(list_file)
    if found.issuer_id != key.about.id:
        raise ConfigurationError(
            f"{list_file} is the list of {found.issuer_id}, and the key is {key.about.name}'s ({key.about.id})",
            "name that issuer's key, or another file: each issuer has a list",
        )
    fault = revocation_list_fault(found, key.about.public_key)
    if fault:
        raise ConfigurationError(
            f"{list_file} was changed after it was signed: {fault}", "restore it, or begin a new list in another file"
        )
    return found


def _exists(list_file: Path) -> bool:
    try:
        list_file.stat()
    except FileNotFoundError:
        return False
    except OSError:  # it is there and can't be read, which is no reason to begin a new one
        return True
    return True


def _extend(old: RevocationList | None, cert_id: str, key: SigningKey, list_file: Path) -> RevocationList:
    before, updated_at = (old.revoked_certs, old.updated_at) if old else ((), 0)
    revoked = issue_revocation_list(key.signer, (*before, cert_id), max(clock(), updated_at))
    try:
        data = revoked.encode()
    except WireError as error:
        raise ConfigurationError(f"{list_file} can't take another entry: {error.reason}", "begin a new list") from None
    write_file(list_file, data + b"\n", replace=True)
    return revoked


def _report(
    revoked: RevocationList, cert_id: str, list_file: Path, key: SigningKey, *, is_new: bool, as_json: bool
) -> None:
    updated = words.timestamp(revoked.updated_at)
    if as_json:
        print_json(
            {
                "file": str(list_file),
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
            ("list", str(list_file)),
            ("signed by", f"{key.about.name} ({key.about.id})"),
            ("as of", updated),
            ("holds", f"{len(revoked.revoked_certs)} in all"),
        ]
    )
