"""Decides which requests the desk's page answers, and has the headers of every answer. No I/O.

The person's browser reaches the desk at 127.0.0.1, but other users, pages of other ports and other sites can, too. So
these must hold, checked in this order:

- [host] `Host` comes exactly once, and is the address that the desk advertises. This stops DNS rebinding.
- [route] The path and the method are known.
- [static] Pages and their static files hold no personal data, and need no further checks.
- [same-origin] Any other request of a browser comes from this very origin, if the browser says so (`Sec-Fetch-Site`).
- [writes] A write comes with exactly this `Origin` and `Sec-Fetch-Site: same-origin`. Its body is JSON, with a length
  within bounds.
- [bearer] `Authorization` comes exactly once, and is the bearer token of a signed-in session. Signing in needs none.

Cookies are neither set nor read. Not checked here: an ask's nonce (`desk`).
"""

from collections.abc import Callable

from msgspec import Struct
from starlette.datastructures import Headers

MAX_PAGE_BODY_BYTES = 4_096
"""The most bytes of a request's body from the page: a decision has some 200."""


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
EVERY_ANSWER: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""Headers of every answer, refusals included."""
SIGNED_IN = "signed_in"
"""A member of a request's state. It is set once all rules hold, with a signed-in session. The connection is then not
cut off."""


class PageRefusal(Struct, frozen=True):
    """Why a request is refused: the HTTP status, and a word for the page."""

    status: int
    error: str


def only(headers: Headers, name: str) -> str | None:
    """Return the value of a header that came exactly once, else None."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else None


def bearer_in(headers: Headers) -> str:
    """Return the bearer token, or "" if there is none, or more than one."""
    scheme, _, token = (only(headers, "authorization") or "").partition(" ")
    return token if scheme.lower() == "bearer" else ""


def host_fault(headers: Headers, address: str) -> PageRefusal | None:
    """Return the refusal of a `Host` other than `address` (`127.0.0.1:PORT`), or None ([host])."""
    return None if only(headers, "host") == address else PageRefusal(421, "other_host")


def api_fault(
    method: str, headers: Headers, address: str, signed_in: Callable[[str], bool], *, login: bool
) -> PageRefusal | None:
    """Check [same-origin], [writes] and [bearer] of an `/api/` request. With `login`, the request signs in, and needs
    no bearer token."""
    return (
        _site_fault(headers)
        or (_write_fault(headers, address) if method != "GET" else None)
        or (None if login or signed_in(bearer_in(headers)) else PageRefusal(401, "signed_out"))
    )


def _site_fault(headers: Headers) -> PageRefusal | None:
    sites = headers.getlist("sec-fetch-site")
    return None if sites in ([], ["same-origin"]) else PageRefusal(403, "other_site")


def _write_fault(headers: Headers, address: str) -> PageRefusal | None:
    if only(headers, "origin") != f"http://{address}" or only(headers, "sec-fetch-site") != "same-origin":
        return PageRefusal(403, "other_site")
    if only(headers, "content-type") != "application/json":
        return PageRefusal(415, "not_json")
    length = only(headers, "content-length")
    if length is None or not (length.isascii() and length.isdigit()):
        return PageRefusal(411, "no_length")
    return PageRefusal(413, "too_long") if int(length[:20]) > MAX_PAGE_BODY_BYTES else None
