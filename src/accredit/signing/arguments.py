"""Converts options for time, scopes and constraints to protocol values. No I/O but time zone data.

Each function takes an option's text and raises `ConfigurationError`, naming the option, if it can't be read.
"""

import binascii
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import replace

from accredit.consent.call import CALL, CallTerms
from accredit.errors import ConfigurationError, FrameError, WireError
from accredit.keys import read_file
from accredit.limits import MAX_PROOF_BUNDLE_BYTES, MAX_STATEMENT_BYTES
from accredit.policy.constraint_words import UNITS
from accredit.policy.facts import CONTEXT_NAMES, TEXTS, facts_fault
from accredit.policy.guarded_call import GUARDED, guarded_call_from_values
from accredit.ratify import CallFacts, Constraint, Extension, VerifierContext, read_constraint, zone_names
from accredit.ratify.constraints import MaxAmount, MaxRate, ResourcePath, TimeWindow, evaluate
from accredit.ratify.signable import HASH_BYTES
from accredit.ratify.strict_json import parse
from accredit.ratify.structures import UNTIL_REVOKED

_PARAMS = 'name a file with the params of the call: {"name": "send_email", "arguments": {...}}'

_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_AMOUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Z][A-Z0-9]{2,7})")
_BETWEEN = re.compile(r"([0-9]{2}:[0-9]{2})-([0-9]{2}:[0-9]{2})@(\S+)")
_RESOURCE = re.compile(r"(.+):(/(?!/).*)", re.DOTALL)
_RATE = re.compile(r"([1-9][0-9]{0,8})/(\S+)")

_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")

# How verdicts begin for constraints that no call could satisfy. The protocol fixes these texts (Ratify section 7).
_NEVER = (
    "malformed ",
    "bad start time",
    "bad end time",
    "unknown timezone",
    "polygon has fewer",
    "geo_polygon spans",
)
_ANY_CALL = VerifierContext(current_lat=0, current_lon=0, invocations_in_window=lambda _cert_id, _window_s: 0)


def seconds(option: str, text: str) -> int:
    """Read a duration, such as `15m`. `option` is named in the error."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{option} {text}: not a duration", "write one like 30s, 15m, 12h or 7d")
    return int(match[1]) * UNITS[match[2]]


def expiry(text: str, now: int) -> int:
    """Read `--expires` for a delegation that begins at `now`. Return its last unix second."""
    return UNTIL_REVOKED if text == "until-revoked" else now + seconds("--expires", text)


def moment(text: str) -> int:
    """Read `--now`, which is in unix seconds or RFC 3339. Return unix seconds."""
    if text.isascii() and text.isdigit() and len(text) <= 11:
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ConfigurationError(f"--now {text}: not a time", "write one like 2026-08-01T12:00:00Z, or unix seconds")
    return int(time.astimezone(UTC).timestamp())


def max_amount(text: str) -> Constraint:
    """Read `--max-amount 500USD`."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--max-amount {text}: not an amount", "write one like 500USD or 99.50EUR")
    return MaxAmount(currency=match[2], max_amount=float(match[1]))


def between(text: str) -> Constraint:
    """Read `--between 09:00-17:00@Europe/Berlin`."""
    match = _BETWEEN.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"--between {text}: not a window of time", "write one like 09:00-17:00@Europe/Berlin (or @UTC)"
        )
    window = TimeWindow(start=match[1], end=match[2], tz=match[3])
    if window.tz not in zone_names():
        raise ConfigurationError(f"--between {text}: no such time zone", "name one like Europe/Berlin or UTC")
    return _possible(f"--between {text}", window)


def resource(text: str) -> Constraint:
    """Read `--resource ID[:/prefix]`. A colon that is followed by two slashes is part of the id."""
    match = _RESOURCE.fullmatch(text)
    if not text:
        raise ConfigurationError("--resource: empty", "name a resource like git:github.com/acme/api:/docs")
    return ResourcePath(resource_id=match[1], path_prefix=match[2]) if match else ResourcePath(resource_id=text)


def rate(text: str) -> Constraint:
    """Read `--rate 10/1h`."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--rate {text}: not a rate", "write one like 10/1h: ten calls in an hour")
    return MaxRate(count=int(match[1]), window_s=seconds("--rate", match[2]))


def constraint(text: str) -> Constraint:
    """Read `--constraint JSON`: a constraint in its wire form."""
    try:
        read = read_constraint(parse(text.encode("utf-8", "surrogatepass"), MAX_PROOF_BUNDLE_BYTES))
    except (WireError, ValueError) as error:
        reason = error.reason if isinstance(error, WireError) else str(error)
        raise ConfigurationError(
            f"--constraint: {reason}", 'write JSON like \'{"type": "max_speed_mps", "max_mps": 20}\''
        ) from None
    if isinstance(read, Extension) and read.name == CALL:
        try:
            CallTerms.read(read)
        except WireError as error:
            raise ConfigurationError(
                f"--constraint {CALL}: {error.reason}", "correct it: as it is, it allows nothing"
            ) from None
    return _possible(f"--constraint {read.type}", read)


def facts(texts: Iterable[str]) -> VerifierContext:
    """Read every `--fact NAME=VALUE`: facts about a call, with which constraints are judged."""
    members: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in CONTEXT_NAMES or not equals:
            raise ConfigurationError(
                f"--fact {text}: not a fact", f"write NAME=VALUE; the names are {', '.join(CONTEXT_NAMES)}"
            )
        members[CONTEXT_NAMES[name]] = value if name in TEXTS else _number(name, value)
    return replace(VerifierContext(), **members)


def call_facts(path: Path | None, method: str, gateway_id: str) -> CallFacts | None:
    """Read `--params`, `--method` and `--gateway-id`: the call for which a `dev.accredit.call` constraint is judged.
    Return None if they are not given."""
    if path is None:
        if method or gateway_id:
            raise ConfigurationError("--method and --gateway-id say whose and what call: --params is missing", _PARAMS)
        return None
    try:
        params = msgspec.json.decode(read_file(path, MAX_STATEMENT_BYTES).data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"--params {path}: not JSON", _PARAMS) from None
    if not isinstance(params, dict):
        raise ConfigurationError(f"--params {path}: not a JSON object", _PARAMS)
    members = cast("dict[str, object]", params)
    method = method or ("resources/read" if "uri" in members else "tools/call")
    if method not in GUARDED:
        raise ConfigurationError(f"--method {method}: no such call", f"name one of {', '.join(sorted(GUARDED))}")
    try:
        call = guarded_call_from_values(method, members, "", None)
    except FrameError as error:
        raise ConfigurationError(f"--params {path}: {error.detail}", _PARAMS) from None
    return call.facts(gateway_id)


def session_context(text: str) -> bytes:
    """Read `--session-context BASE64`. Return b"" if it is not given."""
    try:
        digest = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        digest = b"?"
    if len(digest) not in (0, HASH_BYTES):
        raise ConfigurationError(
            f"--session-context: not {HASH_BYTES} bytes in base64",
            "copy the proof's session_context, if it is the right one",
        )
    return digest


def _number(name: str, text: str) -> float:
    if not _NUMBER.fullmatch(text) or facts_fault({name: float(text)}):
        raise ConfigurationError(f"--fact {name}={text}: not such a number", f"write a plain one, such as {name}=12.5")
    return float(text)


def _possible(option: str, read: Constraint) -> Constraint:
    """Return the constraint if some call could satisfy it. Otherwise raise `ConfigurationError`."""
    outcome = evaluate(read, _ANY_CALL, "", 0, {})
    if outcome is not None and outcome.detail.startswith(_NEVER):
        raise ConfigurationError(f"{option}: {outcome.detail}", "correct it: as it is, no call would ever be allowed")
    return read
