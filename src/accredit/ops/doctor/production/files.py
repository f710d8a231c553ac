"""Checks the files that a configuration names. I/O: looks at files, and reads the endpoint's certificate.

- Nobody else may write files that decide who may do what, or files with secrets, on which the credibility of sessions
  and records rests. Nobody else may read secrets. Only permissions are checked, not contents. The configuration counts
  as a secret if it holds values of headers or variables, or a URL or command that may contain a secret
  (`hosts.credentials`).
- Anything but a regular file is a fault: opening a pipe would block.
- Links are followed, as the gateway follows them.
- A private key beside a trusted public one is a fault, whatever its mode. It is found by its name, as `accredit keys
  new` names it: without the `.pub`.
"""

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from accredit.base.clock import unix_seconds
from accredit.base.text import one_line
from accredit.config import Loaded, folder_of, lock_file, own_key_file
from accredit.config.servers import every_view
from accredit.config.values import SecretFrom
from accredit.hosts.credentials import secret_parts, url_holds_secret
from accredit.keys import read_file
from accredit.keys.own_files import OwnFault, fault_of_file, fault_of_folder
from accredit.keys.reading import FileContent
from accredit.limits import MAX_PEM_CHAIN_BYTES
from accredit.ops.doctor.engine import Found, Unknown, command_line
from accredit.ops.doctor.production.facts import FileFound
from accredit.stores import StoreUrl

_OF_ANOTHER = "is another user's"
_UNSYNCHRONISED = 5
"""What adjtimex(2) returns if the clock is not synchronized (`TIME_ERROR`)."""
_TIMEX_BYTES = 512
"""The size of the buffer for `struct timex`, which is smaller everywhere. All zeros in it mean: read only."""


def files_found(loaded: Loaded, store: Found[StoreUrl]) -> list[FileFound]:
    """Return the configuration and all files that it names."""
    return [
        *(_inspect_file(what, path, is_secret=False) for what, path in _plain_files(loaded)),
        *(_inspect_file(what, path, is_secret=True) for what, path in _secret_files(loaded, store)),
        *(_beside(what, path.with_suffix("")) for what, path in _deciding_keys(loaded) if _has_private(path)),
        *_folder_of_store(store),
    ]


def _has_private(public: Path) -> bool:
    return public.suffix == ".pub" and os.path.lexists(public.with_suffix(""))


def _beside(what: str, path: Path) -> FileFound:
    fault = f"its private half is on this machine, in {path}: who takes over the gateway can allow what they like"
    return FileFound(what, path, is_secret=True, fault=fault)


def _folder_of_store(store: Found[StoreUrl]) -> Iterator[FileFound]:
    """If the store's file does not exist yet, yield a fault of the folder in which it will be made."""
    file = None if isinstance(store, Unknown) else store.file
    if file is None or os.path.lexists(file):
        return
    fault = fault_of_folder(file.parent)
    if fault is not None:
        yield _faulty("the store's folder", file.parent, fault, is_secret=True)


def _plain_files(loaded: Loaded) -> Iterator[tuple[str, Path]]:
    config = loaded.config
    if loaded.file is not None:
        yield "the configuration", loaded.file
    lock = lock_file(loaded)
    if lock is not None and os.path.lexists(lock):
        yield "what is pinned", lock
    yield from _deciding_keys(loaded)
    folder = folder_of(loaded, ("proofs", "revocation"))
    for name in config.proofs.revocation.files:
        yield "a revocation list", folder / name
    folder = folder_of(loaded, ("tokens", "issuers"))
    for issuer in config.tokens.issuers:
        for named in (issuer.jwks_file, issuer.public_key_file):
            if named is not None:
                yield f"the keys of {issuer.issuer}", folder / named
    if config.gateway.tls_cert_file is not None:
        yield "the certificate", Path(config.gateway.tls_cert_file)
    if config.attest.signer_public_key_file is not None:
        yield "the public key of attest.signer", Path(config.attest.signer_public_key_file)


def _deciding_keys(loaded: Loaded) -> Iterator[tuple[str, Path]]:
    proofs = loaded.config.proofs
    folder = folder_of(loaded, ("proofs", "roots"))
    for root in proofs.roots:
        yield f"the root {root.name}", folder / root.public_key_file
    folder = folder_of(loaded, ("proofs", "registries"))
    for registry in proofs.registries:
        for pin in registry.pins:
            yield f"a pin of {registry.url}", folder / pin
        if registry.ca_file is not None:
            yield f"the authorities of {registry.url}", folder / registry.ca_file
    folder = folder_of(loaded, ("proofs", "revocation"))
    for name in proofs.revocation.public_key_files:
        yield "a key of revocation lists", folder / name
    folder = folder_of(loaded, ("attest", "public_key_files"))
    for name in loaded.config.attest.public_key_files:
        yield "a key of the log", folder / name


def _secret_files(loaded: Loaded, store: Found[StoreUrl]) -> Iterator[tuple[str, Path]]:
    config = loaded.config
    own = own_key_file(loaded)
    if own is not None and (os.path.lexists(own) or config.attest.mode != "off"):
        yield "the gateway's key", own
    named = {
        "gateway.tls_key_file": config.gateway.tls_key_file,
        "rounds.keys_file": config.rounds.keys_file,
        "cluster.keys_file": config.cluster.keys_file,
    }
    yield from ((what, Path(name)) for what, name in named.items() if name is not None)
    if config.store.password is not None:
        yield "store.password", folder_of(loaded, ("store", "password")) / config.store.password.file
    if config.tokens.bootstrap is not None:
        folder = folder_of(loaded, ("tokens", "bootstrap"))
        yield "tokens.bootstrap.key_file", folder / config.tokens.bootstrap.key_file
        if os.path.lexists(secret := folder / config.tokens.bootstrap.secret_file):
            yield "tokens.bootstrap.secret_file", secret
    folder = folder_of(loaded, ("tokens", "issuers"))
    for number, issuer in enumerate(config.tokens.issuers):
        if issuer.introspection_client_secret is not None and issuer.introspection_client_secret.file:
            place = f"tokens.issuers[{number}].introspection_client_secret"
            yield place, folder / issuer.introspection_client_secret.file
    kind, _, name = (config.attest.signer or "").partition(":")
    if kind == "file2":
        yield "attest.signer", folder_of(loaded, ("attest", "signer")) / name
    yield from _of_upstreams(loaded)
    if not isinstance(store, Unknown) and store.file is not None and os.path.lexists(store.file):
        yield "the store", store.file


def _of_upstreams(loaded: Loaded) -> Iterator[tuple[str, Path]]:
    held = next(_find_credentials(loaded), None)
    if held is not None and loaded.file is not None:
        yield f"the configuration, which holds {held}", loaded.file
    for each in every_view(loaded):
        upstream, place = each.config.upstream, each.place("upstream")
        given = {"headers": upstream.headers, "env": upstream.env}
        for section, values in given.items():
            for name, value in values.items():
                if isinstance(value, SecretFrom) and value.file:
                    yield f"{place}.{section}.{name}", folder_of(each, ("upstream", section)) / value.file
        if upstream.auth is not None and upstream.auth.client_secret.file:
            yield f"{place}.auth", folder_of(each, ("upstream", "auth")) / upstream.auth.client_secret.file


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


def _inspect_file(what: str, path: Path, *, is_secret: bool) -> FileFound:
    status = _status(path)
    if status is None:
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


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


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
