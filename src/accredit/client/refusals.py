"""Recognizes refusals among errors, and explains them to people. Only I/O: checks which files exist.

A person is told three things: what was refused, what the delegation covers, and the command that would change that. The
server chose the scope in the command, and the person is told so. The command grants no more than a desk would propose:
calls of this target at this gateway, a few within an hour. No command is suggested for a scope that lets an agent
delegate or speak for somebody, for a sensitive scope, for an unknown gateway, and for a name that can't be signed.

No text here holds a key, a proof, a challenge or a token.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from accredit.base.text import excerpt, one_line, several
from accredit.base.values import members_of
from accredit.client.presenter import Expired, NotValidYet, ProofPresenter
from accredit.client.proving import scope_in
from accredit.consent.call import CallTerms
from accredit.errors import ConfigurationError, ProofRefused
from accredit.keys import public_path
from accredit.limits import (
    LIKE_CALLS,
    LIKE_SECONDS,
    MAX_IDENTIFIER_LENGTH_BYTES,
    MAX_TOLD_REASON_CHARS,
    MAX_TOLD_URL_CHARS,
)
from accredit.policy.constraint_words import duration
from accredit.policy.lists import SCOPE, VERIFIER
from accredit.policy.refusals import UNKNOWN_ERRORS
from accredit.ratify import Constraint
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import MaxAmount, MaxRate, TimeWindow
from accredit.ratify.scopes import IDENTITY, WILDCARDS, is_sensitive
from accredit.refusals import BY_WORD, CODES, OAUTH_ONLY

if TYPE_CHECKING:  # it takes longer to load than all else, and clients of HTTP APIs do without
    from mcp_types import ErrorData

_LIMIT = "LIMIT"
_MARK = "[Not covered by this agent's delegation: needs "
_MISMATCH = ("found", "url", "known_url")
_STALE = ("ratify_invalid: stale_challenge", "stale_challenge")
_CLOCKS = (
    "This machine's clock and the gateway's differ, unless the call waited for long: compare the clocks with"
    " `accredit doctor`, and have the network set both (timedatectl set-ntp true)."
)
_AHEAD = re.compile(r"stale_challenge: challenge is -(\d{1,9}) seconds old")
_NOT_PORTABLE = frozenset("<>&")
_NOT_SHOWN = (
    "Another delegation of this agent's covers it. It is not shown to a gateway whose id nobody named: it is with"
    " --gateway-id (gateway_id of ProofPresenter)."
)
_NO_COMMAND = (
    "No command is suggested that grants this: whoever may allow it decides what exactly, and writes their own"
    " (`accredit grant --help`)."
)


def refusal_of(error: "ErrorData") -> ProofRefused | None:
    """Return the refusal that a JSON-RPC error reports, or None if it reports none."""
    data = members_of(error.data)
    word = data.get("error")
    if isinstance(word, str) and (error.code in CODES or word in UNKNOWN_ERRORS.values()):
        return ProofRefused(data, error.message, error.code)
    return None


class Caller(Struct, frozen=True):
    """The caller: its proofs, the server's URL ("" for none), and the command of ours that is running ("" for a program
    of the user's). `key_fault` is why there are no proofs, if a key was named."""

    presenter: ProofPresenter | None
    url: str = ""
    command: str = "accredit connect"
    key_fault: ConfigurationError | None = None

    @property
    def faults(self) -> tuple[ConfigurationError, ...]:
        """What is wrong with the key, or with each delegation that can't be used."""
        if self.key_fault is not None:
            return (self.key_fault,)
        return self.presenter.faults if self.presenter is not None else ()

    def gateway_at(self, refusal: ProofRefused) -> str:
        """Return the id of the refusing gateway: the pinned one or, for a caller without a key, the one that the
        gateway claims. Return "" if it is unknown, or can't be signed."""
        meta = members_of(refusal.data.get("_meta"))
        id = meta.get(VERIFIER) or members_of(meta.get("ratify_challenge")).get("verifier_id")
        if self.presenter is not None:
            with suppress(ConfigurationError):  # an unreadable file pins nothing
                id = self.presenter.pin(self.url).id
        return id if isinstance(id, str) and _is_portable(id) else ""

    def shown(self) -> frozenset[str]:
        """Return the scopes covered by the delegations that the gateway may see."""
        with suppress(ConfigurationError):
            return (
                self.presenter.granted_at(self.presenter.pin(self.url)) if self.presenter is not None else frozenset()
            )
        return frozenset()


def explain_refusal(refusal: ProofRefused, caller: Caller, method: str, target: object) -> str:
    """Explain to a person, in a few lines, why a call of this `method` and `target` was refused."""
    presenter = caller.presenter
    row = BY_WORD.get(refusal.error)
    faults = caller.faults if row is not None and row.grant_helps else ()
    for each in faults if presenter is not None and not presenter.granted else ():
        if isinstance(each, NotValidYet):  # a new delegation would not help
            return f"Not allowed: {one_line(each.what)}: {one_line(each.remedy)} ({excerpt(refusal.error)})."
    scope = scope_in(refusal.data.get("required_scope"))
    lines = [f"Not allowed: {_reason(refusal, scope, presenter)} ({excerpt(refusal.error)})."]
    has_remedy = caller.key_fault is not None or scope is None or any(isinstance(each, Expired) for each in faults)
    lines += [f"{one_line(each.what)}{f': {one_line(each.remedy)}' if has_remedy else ''}." for each in faults]
    if faults and (caller.key_fault is not None or (has_remedy and presenter is not None and not presenter.granted)):
        return "\n".join(lines)  # first a key, or the old delegation anew: a second command would only confuse
    if scope is not None and (row is None or row.grant_helps):
        granted = presenter.granted if presenter is not None else frozenset[str]()
        shown = caller.shown()
        covers = ", ".join(sorted(shown))
        gateway = caller.gateway_at(refusal)
        says = f"the gateway {excerpt(gateway)} says so" if gateway else "an unknown server says so"
        covered = f"This agent's delegation covers {covers or 'nothing'}."
        lines.append(f"It needs the scope {excerpt(scope)}: {says}, and this program can't check that. {covered}")
        if scope in granted - shown:
            lines.append(_NOT_SHOWN)
    if row is not None and row.advice:
        lines.append(row.advice)
    if refusal.message.startswith(_STALE):
        lines.append(_CLOCKS)
    if scope is not None and row is not None and row.grant_helps:
        terms = None if is_for_a_person(scope) else _terms(caller.gateway_at(refusal), method, target)
        more = _constraints(refusal, scope, presenter)
        lines += [_NO_COMMAND] if terms is None else _grant(scope, caller, [*terms, *more])
    return "\n".join(lines)


def _reason(refusal: ProofRefused, scope: str | None, presenter: ProofPresenter | None) -> str:
    if refusal.error == "gateway_changed":  # both ids whole, for a person to compare
        was, found = (excerpt(str(refusal.data.get(name) or "nobody")) for name in ("pinned", "found"))
        return f"this gateway was {was}, and now says that it is {found}; nothing was signed for it"
    if refusal.error == "gateway_mismatch":
        found, url, known = (excerpt(str(refusal.data.get(name)), MAX_TOLD_URL_CHARS) for name in _MISMATCH)
        return f"{url} says that it is {found}, which is known as the gateway at {known}; nothing more is sent to it"
    ahead = _AHEAD.search(refusal.message)
    if ahead is not None:  # Ratify's own words speak of a negative age
        minutes = round(int(ahead[1]) / 60)
        when = several(minutes, "minute") if minutes else several(int(ahead[1]), "second")
        return f"the proof was made {when} in the future: is this machine's clock right?"
    target = refusal.data.get("target")
    unproved = presenter is None and refusal.error == "ratify_challenge_required"
    if isinstance(target, str) and scope is not None and (unproved or _lacks_scope(refusal)):
        return f"nobody has allowed this agent {excerpt(target)}"
    message = refusal.message.removeprefix(f"{refusal.error}: ").removesuffix(f"; {OAUTH_ONLY}")
    return excerpt(message, MAX_TOLD_REASON_CHARS)


def _constraints(refusal: ProofRefused, scope: str, presenter: ProofPresenter | None) -> list[str]:
    """Return options for a new grant that repeat the delegation's constraints, except for the one that refused the
    call."""
    reason = refusal.data.get("reason")
    if presenter is None or not isinstance(reason, str):
        return []
    match = presenter.constraints_refused(scope, reason)
    if match is None:
        return []
    words = [word for each in match[1] for word in _option(each)]
    return [*words, _option(match[0])[0], _LIMIT] if refusal.error == "ratify_constraint_denied" else words


def _option(constraint: Constraint) -> list[str]:
    """Return a constraint as an option of `accredit grant`."""
    match constraint:
        case MaxRate() if constraint.count > 0 and constraint.window_s > 0:
            return ["--rate", f"{constraint.count}/{duration(constraint.window_s)}"]
        case TimeWindow():
            return ["--between", f"{constraint.start}-{constraint.end}@{constraint.tz}"]
        case MaxAmount() if constraint.max_amount == int(constraint.max_amount):
            return ["--max-amount", f"{int(constraint.max_amount)}{constraint.currency}"]
        case _:
            # Without blanks no name in it reads as a command, wherever a terminal wraps the line.
            return ["--constraint", canonical(constraint.members()).decode().replace(" ", "\\u0020")]


def _lacks_scope(refusal: ProofRefused) -> bool:
    row = BY_WORD.get(refusal.error)
    return row is not None and row.lacks_scope


def is_for_a_person(scope: str) -> bool:
    """Return whether only a person should decide to grant a scope. The server chose it, so no command is suggested for
    such a scope."""
    return scope.startswith(IDENTITY) or scope in WILDCARDS or "*" in scope or is_sensitive(scope)


def _is_portable(name: str) -> bool:
    """Return whether a name can be signed, and shown in a command."""
    return 0 < len(name.encode("utf-8", "replace")) <= MAX_IDENTIFIER_LENGTH_BYTES and (
        name.isprintable() and _NOT_PORTABLE.isdisjoint(name)
    )


def _terms(gateway: str, method: str, target: object) -> list[str] | None:
    """Return the option that binds a grant to calls of a target at a gateway. Return None if they can't be signed."""
    if not gateway or not isinstance(target, str) or not _is_portable(target):
        return None
    return _option(CallTerms(gateway=gateway, method=method, target=(target,)).constraint())


def _grant(scope: str, caller: Caller, constraints: Sequence[str]) -> list[str]:
    presenter = caller.presenter
    own_key = presenter.key_path if presenter is not None else None
    key = own_key or _free(Path("agent.key"))
    name = re.sub(r"[^A-Za-z0-9]+", "-", scope).strip("-") or "delegation"
    out = str(_free(key.with_name(f"{name}.json")))
    words = ["accredit", "grant", "--issuer", "PATH", "--agent", str(public_path(key)), "--scope", scope]
    length = duration(LIKE_SECONDS)
    uses = [] if "--rate" in constraints else ["--rate", f"{LIKE_CALLS}/{length}"]
    words += [*constraints, *uses, "--expires", length, "--out", out]
    options, named = f"--delegation {shlex.quote(out)}", shlex.quote(str(key))
    lines: list[str] = []
    if presenter is None:
        lines.append(f"This agent has no key yet; make one: accredit keys new {named} --kind agent")
        options = f"--key {named} {options}"
    limit = f", and {_LIMIT} what they allow" if _LIMIT in constraints else ""
    lines.append(f"Whoever may allow it does so with this command, where PATH is their private key{limit}:")
    lines.append(f"  {shlex.join(words)}")
    more = f"{options} to the arguments of `{caller.command}`" if caller.command else f"{out} to ProofPresenter's list"
    lines.append(f"Then add {more}.")
    return lines


def _free(path: Path) -> Path:
    """Return a path at which there is no key and no public key, so that no file is replaced."""
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(each for each in chain((path,), names) if not any(map(os.path.lexists, (each, public_path(each)))))


def mark_uncovered(item: dict[str, object]) -> dict[str, object]:
    """Return a list's item, marked as covered by no delegation (`--show-uncovered`)."""
    mark = f"{_MARK}{excerpt(str(members_of(item.get('_meta')).get(SCOPE)))}]"
    return {**item, "description": f"{mark} {item.get('description') or ''}".rstrip()}


def strip_mark(description: str) -> str:
    """Return the server's own description of an item that may be marked."""
    return description.partition("]")[2].lstrip() if description.startswith(_MARK) else description


def public_data(data: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a refusal's data that the host may see. The challenge is left out: it is for the client
    alone."""
    return {name: value for name, value in data.items() if name != "_meta"}
