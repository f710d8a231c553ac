"""An agent's first delegation: signs one, or checks whether an existing one is valid.

I/O: files; asks the configuration's servers which of their tools only read.

- It lasts `FIRST_GRANT_DAYS` days, and has the scopes of `accredit grant --all-read-only`, except sensitive ones. If no
  tool is read-only, or the gateway only observes, its scope is `identity:prove`. That permits nothing, but tells the
  gateway which agent calls.
- An existing delegation is never replaced. If it has a fault, that is reported, with the command that signs another.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from accredit.asking.reaching import Reach
from accredit.base.text import date_time
from accredit.config.load import load
from accredit.config.named_files import named_files
from accredit.config.store import store_of
from accredit.console.lists import ListPlace, list_places, revoked_ids, see_lists
from accredit.console.settings import read_settings
from accredit.errors import ConfigurationError
from accredit.keys import KeyFile, public_path
from accredit.ratify import HybridPublicKey
from accredit.ratify.scopes import is_sensitive
from accredit.setup.own_keys import OwnKey, Passphrases
from accredit.signing.documents import read_delegations
from accredit.signing.grant import GrantOptions, grant_delegation
from accredit.signing.grant_lookup import NothingReadOnly, ScopeSelection, look_up

FIRST_GRANT_DAYS = 30
"""For how many days the delegation that `accredit up` signs is valid: long enough to see what an agent does, and short
enough that the person looks at it again."""
GRANT_ENDING_SECONDS = 3 * 86_400
"""How many seconds before a delegation ends the person is told: three days, so that a weekend does not hide it."""


IDENTITY = "identity:prove"


class GrantFault(NamedTuple):
    """What is wrong with a delegation. If `is_bad`, calls are refused already; otherwise they soon will be."""

    text: str
    is_bad: bool


def sign_first(
    config: Path, observes: bool, person: OwnKey, agent: OwnKey, out: Path, passphrases: Passphrases, reach: Reach
) -> None:
    """Sign and write an agent's first delegation. Raises `ConfigurationError`."""
    scopes, notes = ((IDENTITY,), ()) if observes else _read_only(config, reach)
    sign_own(person, agent, out, passphrases, scopes, notes)


def sign_own(
    person: OwnKey,
    agent: OwnKey,
    out: Path,
    passphrases: Passphrases,
    scopes: tuple[str, ...] = (IDENTITY,),
    notes: tuple[str, ...] = (),
    *,
    replace: bool = False,
) -> None:
    """Sign and write a delegation of these scopes, which ends after `FIRST_GRANT_DAYS`. Raises `ConfigurationError`."""
    request = GrantOptions(
        issuer=person.path,
        agent=public_path(agent.path),
        scope=scopes,
        expires=f"{FIRST_GRANT_DAYS}d",
        out=out,
        force=replace,
        passphrase=passphrases.of,
        notes=notes,
    )
    grant_delegation(request)


def _read_only(config: Path, reach: Reach) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the scopes of read-only tools, and notes for the signer."""
    try:
        found = look_up(ScopeSelection(all_read_only=True, config=config, reach=reach))
    except NothingReadOnly:
        note = "note: no tool says that it only reads: the agent may use none yet, and you are asked for each call"
        return (IDENTITY,), (note,)
    scopes = tuple(scope for scope in found.scopes if not is_sensitive(scope))
    left_out = ", ".join(scope for scope in found.scopes if is_sensitive(scope))
    notes = (*found.notes, *((f"note: {left_out} is left out: it is sensitive",) if left_out else ()))
    return scopes or (IDENTITY,), notes


def taken_back(person: KeyFile, configurations: Iterable[Path], environ: Mapping[str, str]) -> frozenset[str]:
    """Return the ids on the person's revocation lists in files of this machine: where `desk.toml` says, and where the
    gateways of these configurations read them. What can't be read is left out: others say so."""
    places: list[ListPlace] = []
    with suppress(ConfigurationError):
        places += list_places(read_settings(environ))
    for file in configurations:
        with suppress(ConfigurationError):
            loaded = load(file, environ, {})
            named = (each.path for each in named_files(loaded) if each.key == "proofs.revocation.files")
            places += [ListPlace(each, str(each)) for each in named]
            store = store_of(loaded).lasting
            places += [ListPlace(store, store.name)] if store is not None else []
    files = [each for each in places if isinstance(each.place, Path) or each.place.file is not None]
    return revoked_ids(see_lists(files, {person.id: person.public_key}.get))


def fault_of_grant(
    file: Path,
    agent: KeyFile,
    roots: Collection[HybridPublicKey] | None,
    now: int,
    revoked: Collection[str] = (),
) -> GrantFault | None:
    """Return what is wrong with the delegation in a file, or None. It must be for this agent, from one of the `roots`
    (None: unknown), last a while, and not be `revoked` by its id. Signatures are not verified. Raises
    `ConfigurationError` for a file without a delegation."""
    chain = read_delegations(file)
    if chain[0].subject_pub_key != agent.public_key:
        return GrantFault(f"{file} is for another agent than {agent.name} ({agent.id})", is_bad=True)
    if roots is not None and chain[-1].issuer_pub_key not in roots:
        return GrantFault(f"{file} begins with {chain[-1].issuer_id}, which is no root of the gateway", is_bad=True)
    if any(each.cert_id in revoked for each in chain):
        return GrantFault(f"{file} was taken back", is_bad=True)
    ends = min(each.expires_at for each in chain)
    if now > ends:
        return GrantFault(f"{file} ended at {date_time(ends)}", is_bad=True)
    if ends - now < GRANT_ENDING_SECONDS:
        return GrantFault(f"{file} ends soon, at {date_time(ends)}", is_bad=False)
    return None


def grant_command(config: Path | None, person: Path, agent: Path, out: Path, *, observes: bool) -> str:
    """Return the command that signs a new delegation in place of the one in `out`. The command names the old
    delegation's scopes if that one has no constraints and no parent."""
    scopes = _plain_scopes(out)
    looked_up = config is not None and not observes and not scopes
    what = ["--all-read-only", "--config", str(config)] if looked_up else []
    for scope in () if looked_up else scopes or (IDENTITY,):
        what += ["--scope", scope]
    words = ["--issuer", str(person), "--agent", str(public_path(agent)), *what, "--expires", f"{FIRST_GRANT_DAYS}d"]
    return shlex.join(["accredit", "grant", *words, "--out", str(out), "--force"])


def _plain_scopes(file: Path) -> tuple[str, ...]:
    try:
        leaf, *parents = read_delegations(file)
    except ConfigurationError:
        return ()
    return () if parents or leaf.constraints else leaf.scope
