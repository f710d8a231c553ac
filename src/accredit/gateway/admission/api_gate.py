"""The gate of an HTTP API: decides whether a request may go on. Asks the ports; logs.

Each request goes through `admit`. It is refused at the first step whose condition it does not meet:

- [target] Its target has the only spelling that is accepted (`http_api.targets`), and can't be mistaken for another
  route (400). The gateway's own routes come first (`policy.drill`).
- [override] No header, query or form field tells the API to use another method (400).
- [token] Where tokens are on, a token in its header is valid, and there is one if one is required.
- [decision] `policy.decide` decides it, as it does MCP calls. Its proof has to be bound to it.
- [record] The decision is on record. If it can't be recorded, the request is refused.

Where proofs are only observed, [decision] refuses a request only for a quota that applies without proofs.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from time import perf_counter

from msgspec import Struct

from accredit.attest import RecordedParams
from accredit.base.clock import unix_seconds
from accredit.base.log_events import log_event
from accredit.base.random_ids import RandomIds
from accredit.base.text import excerpt
from accredit.errors import (
    AccreditError,
    ConfigurationError,
    KeysUnavailable,
    ProofRefused,
    RequestError,
    TokenError,
)
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.request_state import subject_of
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.headers import RawHeaders
from accredit.gateway.media_types import is_json_request
from accredit.gateway.recording.early_refusals import AnonymousRecordBudget
from accredit.gateway.recording.recorder import About, Recorder
from accredit.gateway.settings import ApiUpstream, GatewaySettings
from accredit.http_api.call import HttpCall, http_call
from accredit.http_api.facts import decoded_keys
from accredit.http_api.routes import Match
from accredit.http_api.targets import Target, read_target, unclear
from accredit.http_api.wire import PROOF_HEADER
from accredit.policy import drive, refusals
from accredit.policy.decide import decide
from accredit.policy.drill import DRILL_PATHS
from accredit.policy.passing import CallerIdentity
from accredit.policy.quotas import QuotaCaller, QuotaReached
from accredit.policy.uses import take
from accredit.ports import ProofStore, Revocations
from accredit.telemetry import Meter
from accredit.telemetry.board import OTHER
from accredit.telemetry.labels import error_of

_log = logging.getLogger("accredit.gateway.gate")
_OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
_PROOF = PROOF_HEADER.lower().encode("ascii")
# PHP reads a blank, a dot or a bracket at a name's beginning as the underscore, or as nothing.
_IN_FORM = re.compile(
    rb"(?:^|[&;])(?:\+|%20)*(?:_|%5f|\.|%2e|\[|%5b)(?:m|%6d|%4d)(?:e|%[64]5)(?:t|%[75]4)(?:h|%[64]8)(?:o|%[64]f)(?:d|%[64]4)"
    rb"(?:=|&|;|\[|%5b|$)",
    re.IGNORECASE,
)
_IN_PARTS = re.compile(rb"name\*?[ \t]*=[ \t]*(?:[\w-]*'')?[\"']?[ \t]*_method\b", re.IGNORECASE)


class ApiRequest(Struct, frozen=True):
    """A request to an API, as the gateway or the asking proxy received it. `target` is its raw path and query. `fields`
    are its header fields, by the names under which the most lenient reader finds them (`forwarding`). `credentials` are
    its Authorization fields, which `fields` lacks. `body` is None if it was not seen. `prefix` preceded the target in
    the path that was sent; the proof covers both."""

    method: str
    target: bytes
    fields: Mapping[bytes, RawHeaders]
    credentials: RawHeaders
    body: bytes | None = None
    prefix: str = ""

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of a header, whichever spelling of its name was sent."""
        return [value for _, value in self.fields.get(name, ())]


class ApiGate:
    """One per API. Raises `ConfigurationError` if the settings need a port that was not given."""

    def __init__(
        self,
        settings: GatewaySettings,
        api: ApiUpstream,
        counters: Counters,
        *,
        store: ProofStore | None,
        revocations: Revocations | None,
        bearer: Bearer | None,
        recorder: Recorder | None,
        strangers: AnonymousRecordBudget,
        meter: Meter | None,
    ) -> None:
        if settings.proofs is None or not settings.proofs.judged:
            raise ConfigurationError("an HTTP API is served, and proofs are off", "require proofs, or observe them")
        if store is None or revocations is None:
            raise ConfigurationError("proofs are judged, and there is no store", "give create_app a store")
        self.policy = settings.proofs.policy
        self._api = api
        self._quotas = settings.quotas
        self._counters = counters
        self._store = store
        self._revocations = revocations
        self._bearer = bearer
        self._recorder = recorder
        self._strangers = strangers
        self._meter = meter
        self._ids = RandomIds()

    async def admit(self, asked: ApiRequest, call: Call) -> HttpCall:
        """Take a request through all steps, and store what they find in its call. Raises the error that refuses it."""
        began, match = perf_counter(), None
        error: BaseException | None = None
        try:
            target = read_target(asked.target)
            match = _match_drill(asked) or self._api.routes.find(asked.method, target)
            _check_override(asked, target)
            return await self._admit(asked, call, target, match)
        except BaseException as found:
            error = found
            raise
        finally:
            self._measure(asked.method, match, error, began)

    async def _admit(self, asked: ApiRequest, call: Call, target: Target, match: Match | None) -> HttpCall:
        entry = self.policy.catalog.find(asked.method, match.route) if match is not None else None
        json_body = asked.body is not None and _is_json(asked)
        guarded = http_call(
            self._api.protocol,
            asked.method,
            target,
            match,
            entry,
            asked.values(_PROOF),
            asked.body or b"",
            json_body=json_body,
            prefix=asked.prefix,
        )
        try:
            await self._check_token(asked, call, guarded.target)
        except (TokenError, KeysUnavailable, RequestError) as error:
            await self._record_stranger(guarded, call, error)
            raise
        refused: AccreditError | None = None
        try:
            await self._decide(guarded, call)
        except ProofRefused as error:
            refused = error
        refused = refused or call.refusal
        await self._record(guarded, call, refused)
        if self._meter is not None:
            self._meter.decided(None, refused)
        if refused is not None:
            raise refused
        if call.observed is not None:
            self._counters.refused(call.observed, method=guarded.target, observed=True)
        return guarded

    async def _check_token(self, asked: ApiRequest, call: Call, route: str) -> None:
        """Authenticate the request ([token]). Raises `TokenError`, `KeysUnavailable` and `RequestError`."""
        if self._bearer is None:
            return
        call.token = await self._bearer.of_header(asked.credentials)
        self._bearer.require(call.token)
        self._bearer.check_tool(route, call.token)

    async def _decide(self, guarded: HttpCall, call: Call) -> None:
        """Decide a request ([decision]), and store the decision. Raises `ProofRefused` for quotas that count without
        proofs."""
        now = unix_seconds()
        steps = decide(guarded, self.policy, now, call.token)
        decision = await drive(steps, self._store, self._revocations, now)
        call.guarded, call.decision = guarded, decision
        if decision.fault is not None:
            _report(guarded, decision.fault)
        if not decision.enforced and guarded.is_counted and self._quotas.entries:
            await self._take_quotas(guarded, call, now)

    async def _take_quotas(self, guarded: HttpCall, call: Call, now: int) -> None:
        entry = self.policy.catalog.find(guarded.method, guarded.target)
        facts = entry.facts.of(guarded.arguments) if entry is not None else {}
        try:
            taken = self._quotas.taken_by(guarded.target, QuotaCaller(subject=subject_of(call.token)), facts)
            await drive(take((), taken, None, now), self._store, None, now)
        except QuotaReached as reached:
            raise refusals.quota_reached(guarded, None, reached) from None
        except Exception as error:  # fail closed if the store does not answer
            _report(guarded, error)
            raise refusals.no_decision(guarded, None) from None

    async def _record(self, guarded: HttpCall, call: Call, refused: AccreditError | None) -> None:
        """Record the decision ([record]). Raises `ProofRefused` for an allowed request that could not be recorded."""
        about = _about(guarded, self._ids.draw())
        if call.authority is not None or call.token is not None:
            call.speaker = CallerIdentity(call.authority, call.token, about.call)
        if self._recorder is None:
            return
        try:
            call.open_calls.add(await self._recorder.begin_about(about, call, refused))
        except ProofRefused:
            if refused is None:
                raise
            self._counters.unrecorded(logged=True)

    async def _record_stranger(self, guarded: HttpCall, call: Call, error: AccreditError) -> None:
        """Record a request that is refused for its token, within the log's budget for anonymous callers."""
        strangers = self._strangers
        if self._recorder is None:
            return
        if not strangers.has_room():
            strangers.left_out += 1
            self._counters.unrecorded(logged=strangers.left_out == 1)
            return
        strangers.take()
        left_out, strangers.left_out = strangers.left_out, 0
        reason = f"{left_out} refused requests before this one left no record" if left_out else None
        try:
            await self._recorder.begin_about(_about(guarded, self._ids.draw()), Call(), error, reason=reason)
        except ProofRefused:
            strangers.left_out += left_out + 1
            self._counters.unrecorded(logged=False)

    def _measure(self, method: str, match: Match | None, error: BaseException | None, began: float) -> None:
        if self._meter is not None:
            labels = (method, match.route) if match is not None else (OTHER, "")
            self._meter.served.observe((labels, "" if error is None else error_of(error)), perf_counter() - began)


def _match_drill(asked: ApiRequest) -> Match | None:
    route = DRILL_PATHS.get(asked.target) if asked.method == "POST" else None
    return Match(route, {}) if route is not None else None


def _about(guarded: HttpCall, call: str) -> About:
    params = RecordedParams(guarded.digest.hex())
    return About(guarded.method, guarded.target, params, 0, None, guarded.protocol, call)


def _report(guarded: HttpCall, fault: Exception) -> None:
    log_event(_log, logging.ERROR, "decision_failed", method=guarded.method, detail=excerpt(f"{fault!r}"))


def _is_json(asked: ApiRequest) -> bool:
    """Return whether a request declares its body as JSON in UTF-8, without a content coding. The header must not be
    repeated."""
    types = asked.values(b"content-type")
    return len(types) == 1 and is_json_request(types[0]) and not asked.values(b"content-encoding")


def _check_override(asked: ApiRequest, target: Target) -> None:
    """Refuse a request that asks for another method ([override]). Raises `RequestError`."""
    keys: Sequence[tuple[str, str]] | None = decoded_keys(target.query)
    named = keys is None or any(folded.lstrip("_[ ") == "method" and folded != "method" for _, folded in keys)
    if named or _IN_FORM.search(target.query.encode("latin-1")):
        raise unclear("its query can't be read, or names another method")
    if any(asked.values(name) for name in _OVERRIDES):
        raise unclear("a header names another method")
    if len(asked.values(b"content-type")) > 1 or len(asked.values(b"content-encoding")) > 1:
        raise unclear("two headers say how its body is read")
    body = asked.body
    if body and not _is_json(asked) and (_IN_FORM.search(body) or _IN_PARTS.search(body)):
        raise unclear("a form names another method")
