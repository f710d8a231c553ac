"""The facts of a call that constraints are evaluated against (Ratify sections 2 and 7). No I/O."""

import hashlib
import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from accredit.ratify.canonical import canonical, number


class CallFacts(Struct, frozen=True, kw_only=True):
    """The call itself, for extension constraints that need it.

    `verifier_id` is the gateway's. `params_digest()` returns the SHA-256 of the RFC 8785 form of the params, without
    `_meta`, tokens, and the members that only one leg of the call has. `definition` is the pinned digest of the tool's
    definition, in lower-case hex, or None.

    If the call's arguments are gone, `argument_digests` holds the digests that were kept of some of them, by JSON
    Pointer. Each is the SHA-256 of the argument's RFC 8785 form, in lower-case hex.
    """

    verifier_id: str
    method: str
    target: str
    arguments: object
    params_digest: Callable[[], bytes]
    definition: str | None = None
    argument_digests: Mapping[str, str] | None = None


class VerifierContext(Struct, frozen=True, kw_only=True):
    """What the verifier knows about the call. Unknown facts are None or "".

    Units are degrees, metres, and metres per second. `invocations_in_window(cert_id, window_s)` returns how often a
    certificate was used in the last `window_s` seconds, without the present use. The caller must refuse negative
    amounts and speeds. If `has_resource` is False, no resource is requested, whatever the other members say. `call` is
    used only by extension constraints.
    """

    current_lat: float | None = None
    current_lon: float | None = None
    current_alt_m: float | None = None
    current_speed_mps: float | None = None
    requested_amount: float | None = None
    requested_currency: str | None = None
    invocations_in_window: Callable[[str, int], int] | None = None
    requested_resource_id: str = ""
    requested_path: str = ""
    has_resource: bool = True
    call: CallFacts | None = None


def finite(fact: float | None) -> float | None:
    """Return the fact, or None if it is absent, NaN or infinite: a NaN must never allow a call."""
    if type(fact) not in (int, float):
        return None
    try:
        return fact if fact is not None and math.isfinite(fact) else None
    except OverflowError:
        return None


def verifier_context_hash(context: VerifierContext) -> bytes:
    """Return the 32-byte hash of a context, as it is in receipts and verdicts (Ratify section 4).

    The hash does not cover the requested resource: a verdict for one resource says nothing about another.
    """
    members = {
        "current_alt_m": _fact(context.current_alt_m),
        "current_lat": _fact(context.current_lat),
        "current_lon": _fact(context.current_lon),
        "current_speed_mps": _fact(context.current_speed_mps),
        "has_amount": finite(context.requested_amount) is not None,
        "has_location": finite(context.current_lat) is not None and finite(context.current_lon) is not None,
        "has_speed": finite(context.current_speed_mps) is not None,
        "requested_amount": _fact(context.requested_amount),
        "requested_currency": context.requested_currency or "",
    }
    return hashlib.sha256(canonical(members)).digest()


def _fact(value: float | None) -> object:
    known = finite(value)
    return 0 if known is None else number(known)
