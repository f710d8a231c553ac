"""Refusals, as answers to the client of an HTTP API. I/O through the exchange."""

from collections.abc import Callable

from accredit.errors import AccreditError, AnswerError, ProofRefused, RequestError
from accredit.gateway.admission.call_gate import CallGate
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.replies import refusal
from accredit.http_api.wire import PROBLEM_TYPE, authenticate, problem, retry_after, status_of

NO_STORE = (b"cache-control", b"no-store")
AUTHENTICATE = b"www-authenticate"


async def refuse_request(
    exchange: Exchange, error: AccreditError, gate: CallGate, known: Callable[[int], int] | None = None
) -> None:
    """Count a refusal, and answer with it. `known` maps its status to one that the receiver knows."""
    gate.counters.refused(error)
    error.let_go()
    told, data = refusal(error), None
    status, headers = told.status, [*told.headers]
    if isinstance(error, ProofRefused):
        status, data = status_of(error), error.data
        if (seconds := retry_after(error)) is not None:
            headers.append((b"retry-after", b"%d" % seconds))
    elif isinstance(error, RequestError):
        data = {"error": error.word or "invalid_request"}
    status = status if known is None else known(status)
    if status in (401, 403) and not any(name == AUTHENTICATE for name, _ in headers):
        headers.append((AUTHENTICATE, authenticate(data or {}, gate.policy.verifier_id, gate.workspace)))
    message = "Invalid upstream response" if isinstance(error, AnswerError) else told.message  # it was no JSON-RPC
    body = problem(status, told.code, message, data or told.data)
    await exchange.reply(status, body, [(b"content-type", PROBLEM_TYPE), NO_STORE, *headers])
