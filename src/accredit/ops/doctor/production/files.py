"""Checks the files that a configuration names. I/O: looks at files, and reads the endpoint's certificate.

- Only this user and root may write files that decide who may do what, or files with secrets: whoever replaces a secret
  can forge sessions and records. Nobody else may read secrets. Only permissions are checked, not contents. The
  configuration counts as a secret if it holds values of headers or variables, or a URL or command that may contain a
  secret (`hosts.credentials`).
- Anything but a regular file is a fault: opening a pipe would block.
- Links are followed, as the gateway follows them.
- A private key beside a trusted public one is a fault, whatever its mode. It is found by its name, as `accredit keys
  new` names it: without the `.pub`.
"""

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from accredit.base.clock import unix_seconds
from accredit.base.text import one_line
from accredit.config.attest import own_key_file
from accredit.config.identity import IDENTITY_KEY_FILE
from accredit.config.load import Loaded
from accredit.config.named_files import NamedFile, named_files
from accredit.config.pins import lock_file
from accredit.config.servers import every_view
from accredit.hosts.credentials import secret_parts, url_holds_secret
from accredit.keys import read_file
from accredit.keys.own_files import OwnFault, fault_of_file, fault_of_folder
from accredit.keys.reading import FileContent
from accredit.limits import MAX_PEM_CHAIN_BYTES
from accredit.ops.doctor.engine import Found, Unknown, command_line
from accredit.ops.doctor.production.facts import FileFound
from accredit.stores import StoreUrl

_TITLES = {
    "attest.key_file": "the gateway's key",
    "attest.public_key_files": "a key of the log",
    "attest.signer_public_key_file": "the public key of attest.signer",
    "gateway.tls_cert_file": "the certificate",
    "proofs.registries.ca_file": "the authorities of {0.url}",
    "proofs.registries.pins": "a pin of {0.url}",
    "proofs.revocation.files": "a revocation list",
    "proofs.revocation.public_key_files": "a key of revocation lists",
    "proofs.roots.public_key_file": "the root {0.name}",
    "store.url": "the store",
    "tokens.issuers.jwks_file": "the keys of {0.issuer}",
    "tokens.issuers.public_key_file": "the keys of {0.issuer}",
}
_OF_ANOTHER = "is another user's"
_UNSYNCHRONISED = 5
"""What adjtimex(2) returns if the clock is not synchronized (`TIME_ERROR`)."""
_TIMEX_BYTES = 512
"""The size of the buffer for `struct timex`, which is smaller everywhere. All zeros in it mean: read only."""


def files_found(loaded: Loaded, store: Found[StoreUrl]) -> list[FileFound]:
    """Return the configuration and all files that it names."""
    named = [each for each in named_files(loaded) if each.is_needed or os.path.lexists(each.path)]
    return [
        *(_inspect_file(what, path, is_secret=is_secret) for what, path, is_secret in _unnamed_files(loaded)),
        *(_inspect_named(each) for each in named),
        *(found for each in named for found in _private_half(each)),
        *_folder_of_store(store),
    ]


def _title(file: NamedFile) -> str:
    """Return what a file is called in findings: its title in `_TITLES` or, without one, the name of its setting."""
    title = _TITLES.get(file.key)
    return title.format(file.table) if title is not None else file.name


def _private_half(file: NamedFile) -> Iterator[FileFound]:
    path = file.path.with_suffix("")
    if file.use.is_of_others and file.path.suffix == ".pub" and os.path.lexists(path):
        fault = f"its private half is on this machine, in {path}: who takes over the gateway can allow what they like"
        yield FileFound(_title(file), path, is_secret=True, fault=fault)


def _folder_of_store(store: Found[StoreUrl]) -> Iterator[FileFound]:
    """If the store's file does not exist yet, yield a fault of the folder in which it will be made."""
    file = None if isinstance(store, Unknown) else store.file
    if file is not None and not os.path.lexists(file) and (fault := fault_of_folder(file.parent)) is not None:
        yield _faulty("the store's folder", file.parent, fault, is_secret=True)


def _unnamed_files(loaded: Loaded) -> Iterator[tuple[str, Path, bool]]:
    """Yield the configuration, and the files that belong to it but that no setting names, each with whether it is
    secret."""
    attest, lock, own = loaded.config.attest, lock_file(loaded), own_key_file(loaded)
    if loaded.file is not None:
        yield "the configuration", loaded.file, False
        for held in islice(_find_credentials(loaded), 1):
            yield f"the configuration, which holds {held}", loaded.file, True
        identity = loaded.file.parent / IDENTITY_KEY_FILE
        if os.path.lexists(identity):
            yield "the key of the gateway's own tokens", identity, True
    if lock is not None and os.path.lexists(lock):
        yield "what is pinned", lock, False
    if own is not None and attest.key_file is None and (os.path.lexists(own) or attest.mode != "off"):
        yield "the gateway's key", own, True


def _find_credentials(loaded: Loaded) -> Iterator[str]:
    """Yield the settings in the configuration file itself that are, or may hold, a credential."""
    config = loaded.config
    named = {("telemetry", "endpoint"): [config.telemetry.endpoint]}
    issuers = config.tokens.issuers
    named["tokens", "issuers"] = [url for each in issuers for url in (each.jwks_url, each.introspection_url)]
    named["proofs", "registries"] = [each.url for each in config.proofs.registries]
    for (section, key), urls in named.items():
        if _in_file(loaded, section, key) and _any_holds(urls):
            yield f"{section}.{key}"
    for each in every_view(loaded):
        upstream = each.config.upstream
        token_url = upstream.auth.token_url if upstream.auth is not None else None
        for key, urls in {"url": [upstream.url], "urls": upstream.urls, "auth": [token_url]}.items():
            if _in_file(each, "upstream", key) and _any_holds(urls):
                yield f"{each.place('upstream')}.{key}"
        if _in_file(each, "upstream", "command") and any(held for _, held in secret_parts(upstream.command or ())):
            yield f"{each.place('upstream')}.command"
        for section, values in {"headers": upstream.headers, "env": upstream.env}.items():
            if _in_file(each, "upstream", section):
                literal = (name for name, value in values.items() if isinstance(value, str))
                yield from (f"{each.place('upstream')}.{section}.{name}" for name in literal)


def _in_file(loaded: Loaded, section: str, key: str) -> bool:
    origin = loaded.origins.get((section, key))
    return origin is not None and origin.kind == "file"


def _any_holds(urls: Iterable[str | None]) -> bool:
    return any(url is not None and url_holds_secret(url) for url in urls)


def _inspect_named(file: NamedFile) -> FileFound:
    if not (file.use.is_folder and file.path.is_dir()):
        return _inspect_file(_title(file), file.path, is_secret=file.use.is_secret)
    fault = fault_of_folder(file.path)
    title = f"the folder in {file.name}"
    return FileFound(title, file.path, False) if fault is None else _faulty(title, file.path, fault, is_secret=False)


def _inspect_file(what: str, path: Path, *, is_secret: bool) -> FileFound:
    try:
        status = path.stat()
    except (OSError, ValueError):
        fault = f"{path} is not there, or in no folder that may be looked into"
        return FileFound(what, path, is_secret, fault, is_there=False)
    if not stat.S_ISREG(status.st_mode):
        return FileFound(what, path, is_secret, f"{path} is no file")
    if is_secret and FileContent.of(b"", status).open_to_others:
        fault = f"others can read {path} (mode {stat.S_IMODE(status.st_mode):04o})"
        return FileFound(what, path, is_secret, fault, command_line("chmod", "600", str(path)))
    found = fault_of_file(path)
    return FileFound(what, path, is_secret) if found is None else _faulty(what, path, found, is_secret=is_secret)


def _faulty(what: str, path: Path, fault: OwnFault, *, is_secret: bool) -> FileFound:
    is_others = fault.text.endswith(_OF_ANOTHER)
    command = fault.command if fault.command.isprintable() else ""  # what is not can't be shown as it is
    return FileFound(what, path, is_secret, one_line(fault.text), command, is_others=is_others)


def certificate_until(loaded: Loaded) -> Found[int | None]:
    """Return when the endpoint's certificate chain expires, which is when the first certificate in it does (unix
    seconds); None if there is none. If one is not valid yet, the answer is `Unknown`."""
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - only for this look

    name = loaded.config.gateway.tls_cert_file
    if name is None:
        return None
    try:
        chain = load_pem_x509_certificates(read_file(Path(name), MAX_PEM_CHAIN_BYTES).data)
        begins = max(each.not_valid_before_utc for each in chain)
        if begins.timestamp() > unix_seconds():
            return Unknown(f"{name} is not good before {begins:%Y-%m-%d %H:%M} UTC")
        return int(min(each.not_valid_after_utc for each in chain).timestamp())
    except (ValueError, IndexError):
        return Unknown(f"{name} is no certificate in PEM")


def is_synchronised() -> Found[bool]:
    """Return whether the kernel reports a synchronized clock."""
    try:
        state = ctypes.CDLL(None, use_errno=True).ntp_adjtime(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return Unknown("this system does not say whether its clock is kept in step")
    return Unknown("the kernel may not be asked about its clock here") if state < 0 else state != _UNSYNCHRONISED
