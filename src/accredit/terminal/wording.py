"""Times, scopes, constraints, and logged calls in words. No I/O.

Times are unix seconds; `now` is the time at which somebody reads the text. Servers and agents chose the names in a log.
So these are printed as escaped JSON strings in ASCII, cut to a length: they can't end a line, control the terminal, or
imitate other names.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from accredit.base.text import date_time, escape_text, json_ascii, several
from accredit.limits import MAX_SAID_CHARS
from accredit.policy import constraint_words
from accredit.policy.constraint_words import UNITS, constraint
from accredit.ratify import Constraint, DelegationCert, VerifyResult
from accredit.ratify.structures import UNTIL_REVOKED

if TYPE_CHECKING:
    from accredit.policy.suggesting import Tally
    from accredit.stores.audit_log.proven import UnverifiedEntries

_NAMES = {"d": "day", "h": "hour", "m": "minute", "s": "second"}
scopes = constraint_words.scopes


def relative(at: int, now: int) -> str:
    """Return a time relative to `now` (`in 6 days`, `3 hours ago`, `now`), in whole units of the largest kind."""
    distance = abs(at - now)
    unit = next((unit for unit, size in UNITS.items() if distance >= size), None)
    if unit is None:
        return "now"
    words = several(distance // UNITS[unit], _NAMES[unit])
    return f"in {words}" if at > now else f"{words} ago"


def ends(cert: DelegationCert, now: int) -> str:
    """Return when a certificate ends."""
    if cert.expires_at == UNTIL_REVOKED:
        return "until revoked"
    verb = "expired" if cert.expires_at < now else "expires"
    return f"{verb} {relative(cert.expires_at, now)} ({date_time(cert.expires_at)})"


def begins(cert: DelegationCert, now: int) -> str:
    """Return when a certificate begins."""
    verb = "will be valid" if cert.issued_at > now else "signed"
    return f"{verb} {relative(cert.issued_at, now)} ({date_time(cert.issued_at)})"


def verdict(result: VerifyResult) -> str:
    """Return why a proof does not verify: its status, and then the reason, from which a repetition of the status is
    removed."""
    status = f"{result.identity_status}: "
    reason = result.error_reason.removeprefix(status)
    if reason.startswith("cert "):
        reason = reason.replace(f"): {status}", "): ", 1)
    return f"does not verify ({result.identity_status}): {reason}"


def constraints(found: Iterable[Constraint]) -> str:
    """Return constraints in words. All of them must hold."""
    return "; ".join(map(constraint, found)) or "none"


def shown_target(target: str) -> str:
    """Return a target's name, escaped and cut to a length."""
    text = json_ascii(target[:MAX_SAID_CHARS])
    return text if len(target) <= MAX_SAID_CHARS else f"{text}..."


def shown_call(method: str, target: str) -> str:
    """Return the method and target of a call. The route of an HTTP API contains its method."""
    return shown_target(target) if target.startswith(f"{method} ") else f"{method} {shown_target(target)}"


def unverified_note(left: "UnverifiedEntries") -> str:
    """Return the note on records that do not verify. Their names may be any text, so they are escaped."""
    where = f"the first at {shown_target(left.place)}: {escape_text(left.reason)}"
    return f"left out, as it does not verify: {several(left.entries, 'record')} ({where}); see accredit log verify"


def tally_text(tally: "Tally") -> str:
    """Return the number of calls, and when they were."""
    when = tally.first if tally.first == tally.last else f"{tally.first} to {tally.last}"
    return f"{several(tally.calls, 'call')}, {when}"
