"""Implements `accredit grant`: reads keys and the parent chain, asks for consent if needed, signs, and writes the file.

The checks are in this order. Signing comes last, so nothing that is refused is ever signed:

- [files] The input files are of the right kinds, and the output file doesn't exist.
- [vocabulary] Each scope is a known one, or has a form that a catalog can define.
- [worthless] A delegation that would be worthless is refused (`ratify.issue`): its parent has expired, or lacks scopes.
- [consent] Warnings name the scopes that are sensitive, or known only to a catalog. Sensitive scopes need consent at
  the terminal, or `--yes`. Then the delegation is signed.
"""

import os
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from msgspec import Struct
from msgspec.structs import replace

from accredit.base.clock import unix_seconds
from accredit.base.standard import STDOUT, is_for_programs
from accredit.consent.call import CALL
from accredit.errors import ConfigurationError, IssueError, WireError
from accredit.keys import AskPassphrase, DelegationFile, KeyFile, SigningKey, load_public_key, load_signing_key
from accredit.keys.files import exists_already
from accredit.policy.catalog import MCP_SCOPES
from accredit.ratify import (
    Constraint,
    DelegationCert,
    Grant,
    HybridPublicKey,
    HybridSignature,
    HybridSigner,
    issue_delegation,
)
from accredit.ratify.constraints import Extension
from accredit.ratify.scopes import is_sensitive
from accredit.signing import arguments
from accredit.signing.documents import read_delegations
from accredit.signing.grant_lookup import SLIP, ScopeSelection, look_up
from accredit.signing.vocabulary import canonical_neighbour, catalog_scopes, impossible_scope
from accredit.terminal import wording as words
from accredit.terminal.output import Words, check_out, print_facts, print_result, tell, write_out

_CERT_ID_BYTES = 16


class GrantOptions(Struct, frozen=True, kw_only=True):
    """The options of one `accredit grant`, and the scopes that were found for it. `notes` are lines that are shown to
    the signer."""

    issuer: Path
    agent: Path
    wanted: ScopeSelection = ScopeSelection()
    constraints: tuple[Constraint, ...] = ()
    expires: str
    parent: Path | None = None
    out: Path
    force: bool
    yes: bool = False
    passphrase: AskPassphrase
    scope: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Parties(NamedTuple):
    issuer: SigningKey
    agent: KeyFile
    parents: tuple[DelegationCert, ...]


def read_constraints(
    max_amount: Sequence[str],
    between: Sequence[str],
    resource: Sequence[str],
    rate: Sequence[str],
    constraint: Sequence[str],
) -> tuple[Constraint, ...]:
    """Read all options that are constraints."""
    return (
        *map(arguments.max_amount, max_amount),
        *map(arguments.between, between),
        *map(arguments.resource, resource),
        *map(arguments.rate, rate),
        *map(arguments.constraint, constraint),
    )


def run_grant(request: GrantOptions) -> int:
    """Run `accredit grant`; return the exit code. Raises `ConfigurationError`."""
    found = look_up(request.wanted, request.constraints, force=request.force)
    return grant_delegation(replace(request, scope=found.scopes, notes=found.notes))


def grant_delegation(request: GrantOptions) -> int:
    """Sign and write a delegation; return the exit code. Raises `ConfigurationError`."""
    check_out(request.out)
    parties = _read(request)
    impossible = impossible_scope(request.scope)
    if impossible is not None:
        meant = canonical_neighbour(impossible.replace(".", ":"))
        raise ConfigurationError(
            f'not signed: "{impossible}" can be no scope',
            f"did you mean {meant}?"
            if meant
            else "write one like comms:email:send, custom:NAME, or one that a gateway's catalog names, like email:send",
        )
    now = unix_seconds()
    # A delegation is worthless after its parent expires, so it should say so itself.
    ends = (arguments.expiry(request.expires, now), *(cert.expires_at for cert in parties.parents))
    grant = Grant(
        subject=parties.agent.public_key,
        cert_id=secrets.token_hex(_CERT_ID_BYTES),
        scope=request.scope,
        issued_at=now,
        expires_at=max(now, min(ends)),
        constraints=request.constraints,
    )

    scopes = [*request.scope, *(scope for cert in parties.parents for scope in cert.scope)]
    vocabulary = MCP_SCOPES | catalog_scopes(scopes)
    signer = _AskingSigner(parties.issuer.signer, lambda: _confirm(request, parties))
    try:
        cert = issue_delegation(signer, grant, parents=parties.parents, vocabulary=vocabulary)
    except IssueError as error:
        raise ConfigurationError(f"not signed: {error}", _remedy(request)) from None
    try:
        data = DelegationFile((cert, *parties.parents)).encode()
    except WireError as error:
        raise ConfigurationError(f"the chain is too long to be proved: {error.reason}", _remedy(request)) from None
    write_out(request.out, data + b"\n", replace=request.force)
    _report(request, parties, cert, now)
    return 0


class _AskingSigner:
    """A signer that asks a person before it signs. Signing is the last step of issuing, so the person is asked once
    everything else is settled."""

    def __init__(self, signer: HybridSigner, confirm: Callable[[], None]) -> None:
        self._signer = signer
        self._confirm = confirm

    @property
    def id(self) -> str:
        return self._signer.id

    @property
    def public_key(self) -> HybridPublicKey:
        return self._signer.public_key

    def sign(self, message: bytes) -> HybridSignature:
        self._confirm()
        return self._signer.sign(message)


def _read(request: GrantOptions) -> _Parties:
    if request.out != STDOUT and not request.force and os.path.lexists(request.out):
        raise exists_already(request.out, can_force=True)
    issuer, agent = load_signing_key(request.issuer, request.passphrase), load_public_key(request.agent)
    if agent.kind != "agent":
        raise ConfigurationError(
            f"{request.agent} is a key of kind {agent.kind}, and delegations are for agents",
            "name the agent's public key; `accredit keys new PATH --kind agent` makes one",
        )
    if request.parent is None and issuer.about.kind != "human":
        raise ConfigurationError(
            f"{request.issuer} is not a human's key ({issuer.about.kind}): only a human begins a chain of delegations",
            "name a human's key, or with --parent the delegation that this key passes on",
        )
    parents = () if request.parent is None else read_delegations(request.parent)
    return _Parties(issuer, agent, parents)


def _confirm(request: GrantOptions, parties: _Parties) -> None:
    """Show warnings about a request, and ask for consent if needed. Raises `ConfigurationError`."""
    sensitive = tuple(filter(is_sensitive, request.scope))
    asks = bool(sensitive) and not request.yes
    if asks and not sys.stdin.isatty():
        raise ConfigurationError(
            f"not signed: {', '.join(sensitive)}: sensitive, and there is nobody to ask", "say --yes if it is meant"
        )
    _warn(request, sensitive)
    if asks:
        issuer, agent = parties.issuer.about, parties.agent
        tell(f"{issuer.name} ({issuer.id}) is about to let {agent.name} ({agent.id}) use {', '.join(sensitive)}")
        click.confirm("Sign this?", abort=True, err=True)


def _warn(request: GrantOptions, sensitive: tuple[str, ...]) -> None:
    for scope in sorted(catalog_scopes(request.scope)):
        if any(note.startswith(SLIP.format(scope)) for note in request.notes):
            continue  # said there, with what to do
        meant = canonical_neighbour(scope)
        hint = f"; did you mean {meant}? Then sign it again, with --scope {meant} --force" if meant else ""
        counts = "counts where a gateway or a server asks for it"
        tell(f"warning: {scope} is not one of Ratify's own scopes: it {counts}{hint}")
    for constraint in request.constraints:
        if isinstance(constraint, Extension) and constraint.type != CALL:
            tell(f"warning: only verifiers that know {constraint.type} can judge that constraint; others refuse")
    for note in request.notes:
        tell(note)
    for scope in sensitive:
        tell(f"warning: {scope} is sensitive")


def _remedy(request: GrantOptions) -> str:
    if request.parent is None:
        return "`accredit grant --help` shows how scopes and constraints are written"
    return f"`accredit inspect {shlex.quote(str(request.parent))}` shows whom it is for, what it grants and until when"


def _report(request: GrantOptions, parties: _Parties, cert: DelegationCert, now: int) -> None:
    issuer, agent = parties.issuer.about, parties.agent
    members = {name: value for name, value in cert.to_dict().items() if name in _SHOWN}
    times = {"issued_at": words.date_time(cert.issued_at), "expires_at": words.date_time(cert.expires_at)}
    print_result({"file": str(request.out), **members, **times})
    print_facts(
        [
            ("signed by", f"{issuer.name} ({issuer.id})"),
            ("for", f"{agent.name} ({agent.id})"),
            ("scopes", words.scopes(cert.scope)),
            ("constraints", words.constraints(cert.constraints)),
            ("ends", words.ends(cert, now)),
            ("certificate", cert.cert_id),
            ("written to", Words(str(request.out), "green")),
        ],
        err=request.out == STDOUT,
    )
    if cert.expires_at < arguments.expiry(request.expires, now) and not is_for_programs():
        tell(f"note: it ends with the delegation in {request.parent}")


_SHOWN = ("cert_id", "issuer_id", "subject_id", "scope", "constraints")
