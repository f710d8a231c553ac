"""Which errors are refusals, and what a person is told of one. Looks which files are there; no other I/O.

A person gets three things: what was asked, what the delegation covers, and the command that would change it. No text
here holds a key, a proof, a challenge or a token.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import cast

from mcp_types import ErrorData

from accredit.base.text import excerpt
from accredit.client.presenter import ProofPresenter
from accredit.client.proving import scope_in
from accredit.errors import ProofRefused
from accredit.keys import public_path
from accredit.limits import MAX_TOLD_REASON_CHARS, MAX_TOLD_URL_CHARS
from accredit.policy.constraint_words import duration
from accredit.policy.lists import SCOPE
from accredit.policy.refusals import UNKNOWN_ERRORS
from accredit.ratify import Constraint
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import MaxAmount, MaxRate, TimeWindow
from accredit.refusals import BY_WORD, CODES

_LIMIT = "LIMIT"
_MISMATCH = ("found", "url", "known_url")


def refusal_of(error: ErrorData) -> ProofRefused | None:
    """The refusal that a JSON-RPC error is, or None."""
    data = cast("dict[str, object]", error.data) if isinstance(error.data, dict) else {}
    word = data.get("error")
    if isinstance(word, str) and (error.code in CODES or word in UNKNOWN_ERRORS.values()):
        return ProofRefused(data, error.message, error.code)
    return None


def explained(refusal: ProofRefused, presenter: ProofPresenter | None, command: str = "accredit connect") -> str:
    """What a person is told who ran `command`, in some short lines."""
    scope = scope_in(refusal.data.get("required_scope"))
    lines = [f"Not allowed: {_reason(refusal, scope, presenter)} ({excerpt(refusal.error)})."]
    if scope is not None:
        covers = ", ".join(sorted(presenter.granted)) if presenter is not None else ""
        lines.append(f"It needs the scope {excerpt(scope)}. This agent's delegation covers {covers or 'nothing'}.")
    row = BY_WORD.get(refusal.error)
    if row is not None and row.advice:
        lines.append(row.advice)
    if scope is not None and row is not None and row.grant_helps:
        lines += _grant(scope, presenter, command, _constraints(refusal, scope, presenter))
    return "\n".join(lines)


def _reason(refusal: ProofRefused, scope: str | None, presenter: ProofPresenter | None) -> str:
    if refusal.error == "gateway_changed":  # both ids whole, for a person to compare
        was, found = (excerpt(str(refusal.data.get(name) or "nobody")) for name in ("pinned", "found"))
        return f"this gateway was {was}, and now says that it is {found}; nothing was signed for it"
    if refusal.error == "gateway_mismatch":
        found, url, known = (excerpt(str(refusal.data.get(name)), MAX_TOLD_URL_CHARS) for name in _MISMATCH)
        return f"{url} says that it is {found}, which is known as the gateway at {known}; nothing was signed for it"
    target = refusal.data.get("target")
    unproved = presenter is None and refusal.error == "ratify_challenge_required"
    if isinstance(target, str) and scope is not None and (unproved or _lacks_scope(refusal)):
        return f"nobody has allowed this agent {excerpt(target)}"
    return excerpt(refusal.message.removeprefix(f"{refusal.error}: "), MAX_TOLD_REASON_CHARS)


def _constraints(refusal: ProofRefused, scope: str, presenter: ProofPresenter | None) -> list[str]:
    """The options of a grant that keeps what the refused delegation asks for, but for what refused the call."""
    reason = refusal.data.get("reason")
    if presenter is None or not isinstance(reason, str):
        return []
    found = presenter.constraints_refused(scope, reason)
    if found is None:
        return []
    words = [word for each in found[1] for word in _option(each)]
    return [*words, _option(found[0])[0], _LIMIT] if refusal.error == "ratify_constraint_denied" else words


def _option(found: Constraint) -> list[str]:
    """A constraint, as `accredit grant` takes it."""
    match found:
        case MaxRate() if found.count > 0 and found.window_s > 0:
            return ["--rate", f"{found.count}/{duration(found.window_s)}"]
        case TimeWindow():
            return ["--between", f"{found.start}-{found.end}@{found.tz}"]
        case MaxAmount() if found.max_amount == int(found.max_amount):
            return ["--max-amount", f"{int(found.max_amount)}{found.currency}"]
        case _:
            return ["--constraint", canonical(found.members()).decode()]


def _lacks_scope(refusal: ProofRefused) -> bool:
    row = BY_WORD.get(refusal.error)
    return row is not None and row.lacks_scope


def _grant(scope: str, presenter: ProofPresenter | None, command: str, constraints: Sequence[str]) -> list[str]:
    own_key = presenter.key_path if presenter is not None else None
    key = own_key or _free(Path("agent.key"))
    name = re.sub(r"[^A-Za-z0-9]+", "-", scope).strip("-") or "delegation"
    out = str(_free(key.with_name(f"{name}.json")))
    words = ["accredit", "grant", "--issuer", "PATH", "--agent", str(public_path(key)), "--scope", scope]
    words += [*constraints, "--expires", "7d", "--out", out]
    options = f"--delegation {shlex.quote(out)}"
    lines: list[str] = []
    if presenter is None:
        lines.append(f"This agent has no key yet; make one: accredit keys new {key} --kind agent")
        options = f"--key {key} {options}"
    limit = f", and {_LIMIT} what they allow" if _LIMIT in constraints else ""
    lines.append(f"Whoever may allow it does so with this command, where PATH is their private key{limit}:")
    lines.append(f"  {shlex.join(words)}")
    lines.append(f"Then add {options} to the arguments of `{command}`.")
    return lines


def _free(path: Path) -> Path:
    """A name that no file has, nor its public half: what is made replaces nothing."""
    names = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(each for each in chain((path,), names) if not any(map(os.path.lexists, (each, public_path(each)))))


def uncovered(item: dict[str, object]) -> dict[str, object]:
    """An item of a list that no delegation covers, as a host shows it that is to show all (`--show-uncovered`)."""
    meta = cast("dict[str, object]", item["_meta"]) if isinstance(item.get("_meta"), dict) else {}
    note = f"[Not covered by this agent's delegation: needs {excerpt(str(meta.get(SCOPE)))}]"
    return {**item, "description": f"{note} {item.get('description') or ''}".rstrip()}


def public_data(data: Mapping[str, object]) -> dict[str, object]:
    """What programs of the host are told of a refusal: never a challenge, which is the client's own business."""
    return {name: value for name, value in data.items() if name != "_meta"}
