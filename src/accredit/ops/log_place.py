"""Finds the log, the trusted keys, and times on the command line. Reads the configuration, files and the clock."""

import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec import Struct

from accredit.attest import Envelope, Head, LogKey, RecordKey, decode_envelope, timestamp
from accredit.base.clock import unix_ms
from accredit.base.deferred import Deferred
from accredit.base.files import open_file
from accredit.base.standard import standing_for
from accredit.base.values import decodable
from accredit.errors import AttestationError, ConfigurationError, StoreUnavailable, WireError
from accredit.keys import KeyFile, load_public_key, load_root, log_key, public_path, read_file
from accredit.limits import MAX_ATTESTATION_BYTES, MAX_KEY_FILE_BYTES, MAX_PEM_BYTES
from accredit.ratify import HybridPublicKey
from accredit.ratify.strict_json import parse

if TYPE_CHECKING:
    from accredit import stores
    from accredit.config import attest as identity
    from accredit.config import load as loading
    from accredit.config import proofs
    from accredit.config import store as storage
    from accredit.config.load import Loaded
    from accredit.stores import LogStore
    from accredit.stores.postgres import session
else:  # for a log and its configuration: of a call in a file with its keys in files nobody asks for them
    loading, proofs = Deferred("accredit.config.load"), Deferred("accredit.config.proofs")
    identity, storage = Deferred("accredit.config.attest"), Deferred("accredit.config.store")
    stores, session = Deferred("accredit.stores"), Deferred("accredit.stores.postgres.session")

_KEPT = "name a file that `accredit log checkpoint` wrote, or the log of a gateway, in JSON"
_AGO = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}


@decodable
class _LoggedHead(Struct):
    event: Literal["checkpoint"]
    writer: str
    count: int
    head: str


class LogSource(NamedTuple):
    """Whose log a command is about: that of the named store, else that of the configuration."""

    store: str | None = None
    config: Path | None = None

    def place(self) -> "LogStore":
        """Return the store that holds the log. Raises `ConfigurationError`."""
        loaded = _load(self.config) if self.store is None else None
        url = stores.parse_store_url(self.store or "", Path.cwd()) if loaded is None else storage.store_of(loaded)
        if url.lasting is None:
            no_file = loaded is not None and loaded.file is None  # likely the wrong folder, whose default is memory
            raise ConfigurationError(
                "no configuration: there is no accredit.toml here" if no_file else "a store in memory has no log",
                "name the gateway's store with --store sqlite:///FILE, or its configuration with --config",
            )
        file = url.lasting.file
        if file is not None and not os.path.lexists(file):
            raise ConfigurationError(
                f"no call is on record yet: {file} is not there",
                "a gateway makes it when it starts (`accredit serve --config FILE`); --store names another gateway's"
                " store",
            )
        return url.lasting

    def keys(self, paths: Sequence[Path]) -> list[LogKey | RecordKey]:
        """Return the keys to verify shown calls with: the named keys if there are any, none if the store is named.
        Otherwise return the keys of the configuration, if they are on this machine. Raises `ConfigurationError`."""
        if paths or self.store is not None:
            return [_public_key(path) for path in paths]
        try:
            return own_keys(_load(self.config))
        except ConfigurationError:  # who has no key can still read
            return []

    def people(self, paths: Sequence[Path]) -> Mapping[HybridPublicKey, str]:
        """Return the keys and names of people who may have allowed calls: the named keys, which may be none if the
        store is named. Otherwise return the roots of the configuration, if they are on this machine. Raises
        `ConfigurationError`."""
        if paths or self.store is not None:
            return people_in(paths)
        try:
            return proofs.roots_of(_load(self.config))
        except ConfigurationError:
            return {}


@contextmanager
def as_configuration_errors() -> Generator[None]:
    """Convert a log's errors to `ConfigurationError`."""
    try:
        yield
    except session.SchemaUnknown as error:
        raise ConfigurationError(
            str(error), "`accredit store status` says which tables are there, and `accredit store migrate` makes them"
        ) from None
    except StoreUnavailable as error:
        raise ConfigurationError(
            str(error),
            "name the gateway's store with --store; if it is locked, or does not answer, try again; if its disk is"
            " full, make room there",
        ) from None
    except AttestationError as error:
        raise ConfigurationError(
            str(error),
            "if a key is missing, name it with --key, or its configuration with --config; `accredit log verify` names a"
            " place that is damaged",
        ) from None


@contextmanager
def explain_damage(place: "LogStore") -> Generator[None]:
    """If a store can't be read because its file is damaged, raise a `ConfigurationError` that says so."""
    try:
        yield
    except StoreUnavailable as error:
        raise place.damage() or error from None


def public_keys(
    paths: Iterable[Path], config: Path | None = None, *, look_here: bool = True
) -> list[LogKey | RecordKey]:
    """Return the keys to verify a log with: the named ones, else the configuration's.

    If not `look_here`, the current folder is not searched for a configuration. Raises `ConfigurationError`, also if
    there is no key.
    """
    keys = [_public_key(path) for path in paths]
    if not keys:
        keys = own_keys(loading.load(config, os.environ, {}, look_here=look_here))
    if not keys:
        other = "set attest.key_file" if look_here or config is not None else "its configuration with --config"
        raise ConfigurationError(
            "nothing verifies without a key",
            f"name the gateway's public key with --key gateway.key.pub, or {other}",
        )
    return keys


def own_keys(loaded: "Loaded") -> list[LogKey | RecordKey]:
    """Return the keys that verify a configuration's log; may be empty. Raises `ConfigurationError`."""
    attest, private = loaded.config.attest, identity.own_key_file(loaded)
    public = public_path(private) if private is not None else None
    own = [public] if public is not None and (attest.key_file is not None or public.exists()) else []
    other = [Path(attest.signer_public_key_file)] if attest.signer_public_key_file is not None else []
    return [*map(_public_key, (*own, *other)), *identity.trusted_log_keys(loaded)]


def keys_by_kind(
    paths: Iterable[Path],
) -> tuple[list[LogKey | RecordKey], Mapping[HybridPublicKey, str], Mapping[str, str]]:
    """Sort public keys. Return the keys that verify records, people's keys with their names, and all names by id.
    Raises `ConfigurationError`."""
    found = [_read_key(path) for path in paths]
    files = [key for key in found if isinstance(key, KeyFile)]
    people = {key.public_key: key.name for key in files if key.kind == "human"}
    signers = [key for key in found if not isinstance(key, KeyFile) or key.kind != "human"]
    return list(map(_log_key, signers)), people, {key.id: key.name for key in files}


def names_in(paths: Iterable[Path]) -> Mapping[str, str]:
    """Return the names in public keys, by the keys' ids. Raises `ConfigurationError`."""
    return {key.id: key.name for key in map(load_public_key, paths)}


def gateway_names_in(paths: Iterable[Path]) -> Mapping[str, str]:
    """Return the names in gateways' public keys, by the keys' ids. Another signer's key has no name. Raises
    `ConfigurationError`."""
    return {key.id: key.name for key in map(_read_key, paths) if isinstance(key, KeyFile)}


def people_in(paths: Iterable[Path]) -> Mapping[HybridPublicKey, str]:
    """Return people's public keys, with their names. Raises `ConfigurationError`, also for any other kind of key."""
    return {key.public_key: key.name for key in map(load_root, paths)}


def _load(config: Path | None) -> "Loaded":
    return loading.load(config, os.environ, {})


def _public_key(path: Path) -> LogKey | RecordKey:
    """Read a gateway's key file, or another signer's key in PEM or as JSON. Raises `ConfigurationError`."""
    return _log_key(_read_key(path))


def _log_key(key: KeyFile | RecordKey) -> LogKey | RecordKey:
    return log_key(key) if isinstance(key, KeyFile) else key


def _read_key(path: Path) -> KeyFile | RecordKey:
    if not _is_record_key(read_file(path, max(MAX_KEY_FILE_BYTES, MAX_PEM_BYTES)).data):
        return load_public_key(path)
    from accredit.keys.record_signers import load_record_key  # noqa: PLC0415 - securesystemslib is slow to load

    return load_record_key(path)


def _is_record_key(data: bytes) -> bool:
    if data.startswith(b"-----BEGIN"):
        return True
    try:
        tree = parse(data, len(data))
    except WireError:
        return False
    return isinstance(tree, dict) and "keytype" in tree


def checkpoints(paths: Sequence[Path]) -> list[Envelope | Head]:
    """Read saved checkpoints: signed ones, or lines from a gateway's own log output that name one. Raises
    `ConfigurationError`, also for a file without any."""
    kept: list[Envelope | Head] = []
    for path in paths:
        before = len(kept)
        try:
            kept.extend(each for line in lines(path) if (each := _checkpoint(line)) is not None)
        except AttestationError as error:
            raise ConfigurationError(f"{path}: {error}", _KEPT) from None
        if len(kept) == before:
            raise ConfigurationError(f"{path}: no checkpoint is in it", _KEPT)
    return kept


def _checkpoint(line: bytes) -> Envelope | Head | None:
    if not line.startswith((b'{"ts"', b"accredit: ")):  # not what a gateway logs
        return decode_envelope(line)
    try:
        logged = msgspec.json.decode(line, type=_LoggedHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # a line about something else
    return Head(logged.writer, logged.count, logged.head)


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their ends, each of bounded length. Raises `ConfigurationError`."""
    source = standing_for(path)
    if source is not None:
        yield from (line.removesuffix(b"\n") for line in source.lines(MAX_ATTESTATION_BYTES + 2))
        return
    try:
        with open_file(path) as file:
            while line := file.readline(MAX_ATTESTATION_BYTES + 2):
                yield line.removesuffix(b"\n")
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}", "name a file that can be read") from None


def moment(option: str, text: str) -> int:
    """Read a time, or a duration before now; return unix milliseconds. Raises `ConfigurationError`."""
    ago = _AGO.fullmatch(text)
    if ago:
        return unix_ms() - int(ago[1]) * _UNITS_MS[ago[2]]
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ConfigurationError(
            f"{option} {text}: not a time", f"write one like {timestamp(unix_ms())}, or 7d (seven days ago)"
        )
    return int(time.timestamp() * 1000)
