"""The person's own gateways on this machine, for their desk: found by their configurations. I/O: files.

From a configuration the desk learns where calls are recorded, whose signatures are trusted there, where a revocation
list goes, and the names of gateways, servers and keys.

- [whose] A configuration is the person's own if they have named it, if `accredit up` knows it, or if it is in the
  current folder and a process of the same user serves it. Any other may be somebody else's, and is not read.
- [own-files] Nobody else may write to the configuration, to its store, or to the public keys that it names
  (`own_files`). A named one is refused otherwise. Any other is left out, with a warning.
- [order] The named one comes first, then those that are served now, then the others, the latest first.

Private keys are not read: a gateway's id comes from its public key.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accredit.app.pid_file import is_served
from accredit.attest import LogKey, RecordKey
from accredit.config.attest import own_key_file
from accredit.config.load import DEFAULT_FILE, Loaded, load
from accredit.config.named_files import named_files
from accredit.config.proofs import roots_of
from accredit.config.store import store_of
from accredit.console.lists import ListPlace
from accredit.console.names import known_names
from accredit.errors import ConfigurationError, WireError
from accredit.keys import KeyFile, load_public_key, public_path, read_file
from accredit.keys.own_files import OwnFault, fault_of_file, fault_of_folder, known_files
from accredit.keys.places import config_folder
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ops.log_names import names_beside
from accredit.ops.log_place import own_keys
from accredit.ratify import HybridPublicKey, RevocationList
from accredit.stores import LogStore
from accredit.terminal.output import tell

MAX_OWN_GATEWAYS = 16
"""How many of the person's gateways a desk uses at one time."""


class OwnGateway(NamedTuple):
    """A gateway as its configuration describes it. `id` is "" if there is none yet. `keys` sign its log, and `roots`
    are the people whose delegations count there. `store` is None if it is in memory. `names` are names by the ids of
    the gateway, its servers, and the public keys beside its configuration, as they were when it was read."""

    file: Path
    loaded: Loaded
    id: str
    name: str
    keys: Sequence[LogKey | RecordKey]
    roots: Mapping[HybridPublicKey, str]
    store: LogStore | None
    names: Mapping[str, str]

    def list_places(self, person: KeyFile) -> list[ListPlace]:
        """Return where this gateway reads the revocation list of `person`: in its store or, if that is in memory, in a
        file. There is no place if the gateway does not trust the person."""
        if person.public_key not in self.roots:
            return []
        if self.store is not None:
            return [ListPlace(self.store, self.store.name)]
        files = [each.path for each in named_files(self.loaded) if each.key == "proofs.revocation.files"]
        return [ListPlace(each, str(each)) for each in files if _is_list_of(person, each)]


def own_gateways(
    environ: Mapping[str, str], named: Path | None = None, warn: Callable[[str], None] = tell
) -> list[OwnGateway]:
    """Find the person's gateways. Raises `ConfigurationError` for the `named` configuration only."""
    if named is not None and not os.path.lexists(named):
        raise ConfigurationError(f"there is no {named}", "name a configuration that is there: --config FILE")
    found = [_read(named.absolute(), environ)] if named is not None else []
    seen = {os.path.realpath(each.file) for each in found}
    for file in _others(environ):
        if os.path.realpath(file) in seen or len(found) == MAX_OWN_GATEWAYS:
            continue
        seen.add(os.path.realpath(file))
        try:
            found.append(_read(file, environ))
        except ConfigurationError as error:
            warn(f"warning: the gateway of {file} is left out: {error.what}")
    return found


def names_here(environ: Mapping[str, str], gateways: Iterable[OwnGateway]) -> Mapping[str, str]:
    """Return all names on this machine, by ids of keys and gateways. The person's own names come before those that
    stand beside a configuration. Gateways of one name are told apart by their folders."""
    gateways = list(gateways)
    names: dict[str, str] = {}
    for each in reversed(gateways):
        names.update(each.names)
    called = [each.name for each in gateways]
    for each in gateways:
        if each.id and called.count(each.name) > 1:
            names[each.id] = f"{each.name} in {each.file.parent.name}"
    return {**names, **known_names(config_folder(environ))}


def _others(environ: Mapping[str, str]) -> list[Path]:
    """Return the configurations that nobody has named ([whose]), in [order]."""
    try:
        known = [Path(each) for each in reversed(known_files(environ))]
    except ConfigurationError as error:
        tell(f"warning: {error.what}")
        known = []
    known = [each for each in known if each.is_file()]
    here = Path.cwd() / DEFAULT_FILE
    served = [each for each in (here, *known) if each.is_file() and fault_of_file(each) is None and is_served(each)]
    return [*dict.fromkeys((*served, *known))]


def _read(file: Path, environ: Mapping[str, str]) -> OwnGateway:
    """Read a configuration. Raises `ConfigurationError`."""
    _check_own(fault_of_file(file), file)
    loaded = load(file, environ, {})
    private = own_key_file(loaded)
    public = public_path(private) if private is not None else None
    paths = [] if public is None else [public]
    paths += [each.path for each in named_files(loaded) if each.use.is_policy]
    for path in paths:
        if os.path.lexists(path):
            _check_own(fault_of_file(path), path)
    store = store_of(loaded).lasting
    if store is not None and store.file is not None:
        there = os.path.lexists(store.file)
        _check_own(fault_of_file(store.file) if there else fault_of_folder(store.file.parent), store.file)
    key = _public_key(public)
    gateway_id = loaded.config.gateway.id or (key.id if key is not None else "")
    name = loaded.config.gateway.id or (key.name if key is not None else "")
    servers = {f"{gateway_id}/{each}": each for each in loaded.config.servers.by_name}
    names = {**names_beside(file), **({gateway_id: name, **servers} if gateway_id else {})}
    return OwnGateway(file, loaded, gateway_id, name, _or_nothing(own_keys, loaded), _roots(loaded), store, names)


def _check_own(fault: OwnFault | None, path: Path) -> None:
    if fault is not None:
        raise ConfigurationError(
            f"{path} may be somebody else's: {fault.text}", fault.command or "take the right to write there from others"
        )


def _public_key(path: Path | None) -> KeyFile | None:
    """Return a gateway's public key, if it is there."""
    if path is not None:
        with contextlib.suppress(ConfigurationError):
            key = load_public_key(path)
            return key if key.kind == "gateway" else None
    return None


def _or_nothing(read: Callable[[Loaded], Sequence[LogKey | RecordKey]], loaded: Loaded) -> Sequence[LogKey | RecordKey]:
    with contextlib.suppress(ConfigurationError):  # nothing is verified then, and the pages say so
        return read(loaded)
    return ()


def _roots(loaded: Loaded) -> Mapping[HybridPublicKey, str]:
    with contextlib.suppress(ConfigurationError):  # the key of a root may not be there yet
        return roots_of(loaded)
    return {}


def _is_list_of(person: KeyFile, path: Path) -> bool:
    """Return whether a file that others can't write holds the person's revocation list."""
    if fault_of_file(path) is not None:
        return False
    with contextlib.suppress(ConfigurationError, WireError):
        return RevocationList.decode(read_file(path, MAX_STATEMENT_BYTES).data).issuer_id == person.id
    return False
