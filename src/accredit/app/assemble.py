"""Joins what a decision needs from outside with who answers it here. Reads revocation lists and key files.

Nothing that threads or processes can't share is open afterwards: what this gives may be taken across a fork, and each
worker opens its own at first use.
"""

import logging
from pathlib import Path
from typing import NamedTuple

from accredit.config import Loaded, build_key_sources, folder_of, read_public_key
from accredit.gateway.logs import log_event
from accredit.gateway.settings import ProofSettings
from accredit.net import IssuerKeys
from accredit.ports import KeySets, ProofStore, Revocations
from accredit.stores import RevocationLists, open_store, store_file

_logger = logging.getLogger("accredit.app")


class Ports(NamedTuple):
    """Who answers; None where nothing is asked. Whoever serves with them closes the store and the key sets."""

    store: ProofStore | None = None
    revocations: Revocations | None = None
    key_sets: KeySets | None = None


def assemble(loaded: Loaded, proofs: ProofSettings | None) -> Ports:
    """The store, the revocation lists and the key sets that a configuration names. Raises `ConfigurationError`."""
    key_sets = IssuerKeys(build_key_sources(loaded)) if loaded.config.tokens.mode != "off" else None
    if proofs is None or not proofs.required:
        return Ports(key_sets=key_sets)
    url, folder = loaded.config.store.url, folder_of(loaded, ("store", "url"))
    store = open_store(url, folder)
    return Ports(store, _revocations(loaded, proofs, store_file(url, folder)), key_sets)


def _revocations(loaded: Loaded, proofs: ProofSettings, store: Path | None) -> Revocations:
    named = loaded.config.proofs.revocation
    folder = folder_of(loaded, ("proofs", "revocation"))
    keys = {key.id: key for key in proofs.policy.roots}
    for index, file in enumerate(named.public_key_files):
        key = read_public_key(folder / file, f"proofs.revocation.public_key_files[{index}]").public_key
        keys[key.id] = key
    lists = RevocationLists((folder / file for file in named.files), keys, store=store, on_problem=_report)
    lists.load()
    return lists


def _report(problem: str) -> None:
    log_event(_logger, logging.WARNING, "a revocation list is not taken", detail=problem)
