"""What all checks share: the person's folder, and the configuration. I/O: files.

A configuration is the person's own if it was named, or if `accredit up` knows it. One merely found in the current
folder may be somebody else's. It is read, and so are its files, but nothing that it names is contacted over the
network. If none is named and none is in the current folder, the configuration that `accredit up` runs is used or, if
none runs, the latest one that it made.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accredit.app.pid_file import is_served
from accredit.config.load import DEFAULT_FILE, Loaded, load
from accredit.config.named_files import named_files
from accredit.console.settings import find_key, read_settings
from accredit.errors import ConfigurationError
from accredit.keys import load_root, read_key
from accredit.keys.own_files import known_files
from accredit.keys.places import config_folder
from accredit.ratify import HybridPublicKey
from accredit.setup.own_grant import taken_back
from accredit.setup.own_keys import OWNER_KEY


class Surroundings(NamedTuple):
    """The environment, the current folder (`here`), the person's `folder`, and the configuration.

    `file` is the configuration's file, if one was found. `loaded` is its content, or `problem` says why it could not be
    read. `is_own` says whether it is the person's own. `known` are all configurations that `accredit up` knows.
    `revoked` are the ids of the certificates that the person has taken back, as files of this machine say.
    """

    environ: Mapping[str, str]
    here: Path
    folder: Path
    file: Path | None
    loaded: Loaded | None
    problem: ConfigurationError | None
    is_own: bool
    known: tuple[Path, ...]
    revoked: frozenset[str] = frozenset()

    @property
    def person_key(self) -> Path:
        """The path of the person's key, existing or not."""
        try:
            return find_key(read_settings(self.environ))
        except ConfigurationError:
            return self.folder / OWNER_KEY

    @property
    def roots(self) -> frozenset[HybridPublicKey] | None:
        """The roots of the person's own configuration whose keys can be read; None if there is no such configuration,
        or if it does not judge proofs."""
        if self.loaded is None or not self.is_own or self.loaded.config.proofs.mode == "off":
            return None
        files = [each.path for each in named_files(self.loaded) if each.key == "proofs.roots.public_key_file"]
        try:
            return frozenset(load_root(file).public_key for file in files) or None
        except ConfigurationError:
            return None  # which the look at the configuration says


def surroundings(config: Path | None, environ: Mapping[str, str]) -> Surroundings:
    """Find the configuration, and read it. Raises `ConfigurationError` if the named one doesn't exist."""
    named = config or (Path(environ["ACCREDIT_CONFIG"]) if environ.get("ACCREDIT_CONFIG") else None)
    if named is not None and not os.path.exists(named):
        raise ConfigurationError(f"there is no {named}", "name a configuration that is there: --config FILE")
    here = Path.cwd()
    file = named.absolute() if named is not None else here / DEFAULT_FILE
    found = file if os.path.lexists(file) and (named is not None or not file.exists() or file.is_file()) else None
    try:
        known = tuple(map(Path, known_files(environ)))
    except ConfigurationError:
        known = ()  # which `accredit up` says
    if found is None:
        found = _run_by_up(known)
    loaded, problem = None, None
    if found is not None:
        try:
            loaded = load(found, environ, {})
        except ConfigurationError as error:
            problem = error
    is_own = named is not None or (found is not None and Path(os.path.realpath(found)) in known)
    revoked = _find_revoked({*known, *([found] if is_own and found is not None else [])}, environ)
    return Surroundings(environ, here, config_folder(environ), found, loaded, problem, is_own, known, revoked)


def _find_revoked(files: set[Path], environ: Mapping[str, str]) -> frozenset[str]:
    try:
        person = read_key(find_key(read_settings(environ))).public()
    except ConfigurationError:
        return frozenset()  # which the look at the keys says
    return taken_back(person, files, environ)


def _run_by_up(known: Sequence[Path]) -> Path | None:
    """Return the configuration that `accredit up` runs or, if none runs, the latest that it has made."""
    there = [each for each in reversed(known) if each.is_file()]
    return next((each for each in there if is_served(each)), there[0] if there else None)
