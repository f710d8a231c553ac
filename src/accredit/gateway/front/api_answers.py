"""Refusals, as answers to the client of an HTTP API. No I/O."""

from collections.abc import Callable

from accredit.errors import AccreditError, ProofRefused, RequestError
from accredit.gateway.headers import RawHeaders
from accredit.gateway.replies import refusal
from accredit.http_api.wire import PROBLEM_TYPE, authenticate, problem, retry_after, status_of

NO_STORE = (b"cache-control", b"no-store")
AUTHENTICATE = b"www-authenticate"


def as_it_is(status: int) -> int:
    """Return a status unchanged."""
    return status


def api_refusal(
    error: AccreditError,
    verifier_id: str,
    workspace: str,
    metadata_url: str = "",
    *,
    known: Callable[[int], int] = as_it_is,
) -> tuple[int, RawHeaders, bytes]:
    """Return the status, headers and body of a refusal. `known` maps the status to one that the receiver knows."""
    told, data = refusal(error, metadata_url), None
    status, headers = told.status, [*told.headers]
    if isinstance(error, ProofRefused):
        status, data = status_of(error), error.data
        if (seconds := retry_after(error)) is not None:
            headers.append((b"retry-after", b"%d" % seconds))
    elif isinstance(error, RequestError):
        data = {"error": error.word or "invalid_request"}
    status = known(status)
    if status in (401, 403) and not any(name == AUTHENTICATE for name, _ in headers):
        headers.append((AUTHENTICATE, authenticate(data or {}, verifier_id, workspace)))
    body = problem(status, told.code, told.message, data or told.data)
    return status, [(b"content-type", PROBLEM_TYPE), NO_STORE, *headers], body
