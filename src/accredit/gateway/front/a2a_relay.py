"""Requests to an agent behind the gateway: decided, forwarded, and their answers judged.

- [whole-body] The body is read whole, within its bound, and then strictly (`a2a.requests`). It is written again for the
  agent: its params are exactly the text whose digest the proof covers.
- [headers] These are not forwarded: the proof, tokens for the gateway, hop-by-hop fields, fields that say where a
  request goes or who sent it (`forwarding`), and those of A2A. So an extension that is activated only by a header is
  not used. The gateway says which version it speaks, and asks for no content coding.
- [answer] What the agent answers, and each event of its streams, is judged (`a2a.answers`), and written again. An
  invalid event ends its stream with an error, after the good ones.
- [outcome] Before the client sees anything of the answer (of a stream: its first event), the owner of the answer's task
  is remembered, and the outcome is on record.
- [card] The agent's card is fetched at most each `CARD_SECONDS` for all who ask, and shown as `a2a.cards` says. The
  form for callers without a proof is made once, and reused.
- [pages] If no task on a page of a list is the caller's, and more pages follow, the gateway does not return that page,
  but asks for the next one, up to `MAX_TASK_PAGES` for one request.
- [total] If a filtered list has several pages, the gateway reads up to `MAX_TASK_PAGES` of them to count its tasks. If
  it has more pages, the total in the answer is the number of all the caller's tasks.
- [drill] A message for one of the gateway's own skills (`policy.drill`) that passes is answered here.
- [refusal] A refusal is an error of JSON-RPC, with status 200, or 503 if the client may try again later. There are two
  exceptions: no request of A2A could be read, or a request for the card came with a proof that is refused. The latter
  is answered as at an HTTP API.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from accredit.a2a.answers import Answers, Judged, next_page
from accredit.a2a.cards import CARD_PATH, MAX_CARD_BYTES, CardTerms, PublicCard, read_card, shown_card
from accredit.a2a.errors import error_told
from accredit.a2a.requests import A2aRequest, read_request
from accredit.a2a.shapes import VERSION, Card, ListParams, ListResult, Message, Part, SendResult
from accredit.attest import Outcome, result_digest
from accredit.errors import (
    AccreditError,
    AnswerError,
    ProofRefused,
    RequestError,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.gateway.admission.a2a_gate import A2aGate
from accredit.gateway.call import Call
from accredit.gateway.forwarding import Forwarding, fields_by_plain_name, values_of
from accredit.gateway.front.api_answers import NO_STORE, refuse_request
from accredit.gateway.front.endpoint import check_source
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.front.passthrough import refuse
from accredit.gateway.headers import JSON, RawHeaders
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE, is_json_request
from accredit.gateway.replies import refusal
from accredit.gateway.settings import AgentSettings, GatewaySettings
from accredit.gateway.turns import in_turns, next_turn, turn
from accredit.gateway.upstream.http.client import Answer
from accredit.gateway.upstream.http.sending import Sender
from accredit.gateway.upstream.large_answers import AnswerReservation, LargeAnswers
from accredit.gateway.upstream.reply import WhileConnected
from accredit.http_api.wire import PROOF_HEADER
from accredit.jsonrpc.encode import INVALID_REQUEST, to_json
from accredit.jsonrpc.sse import KEEP_ALIVE, SseParser, encode_event, pieces
from accredit.limits import EVENT_TIMES, EVENTS_AT_ONCE_BYTES, KEEP_ALIVE_SECONDS
from accredit.policy.agent_call import AgentCall
from accredit.policy.drill import is_drill
from accredit.policy.drill_answers import DRILL_TEXT

CARD_SECONDS = 30.0
"""How long an agent's card is shown as it was fetched. Anybody may ask for it, and each question would be one to the
agent."""
MAX_TASK_PAGES = 20
"""The most pages of a list that are asked for to answer one request. An agent's pages have 50 tasks if nobody says
otherwise, so a caller's tasks are found among 1,000 of others by one request."""
FAILED_CARD_SECONDS = 1.0
"""How long nobody asks for a card again that could not be had: those who wait for it are refused, too."""

_PROOF = PROOF_HEADER.lower().encode("ascii")
_VERSION = b"a2a-version"
_WRITTEN = (b"accept", b"content-", b"a2a-", b"x-a2a-")
_DRILLED = Judged(SendResult(message=Message(message_id="drill", role="ROLE_AGENT", parts=[Part(text=DRILL_TEXT)])))
_EVENTS = [(b"content-type", EVENTS_TYPE), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


class A2aRelay:
    """Serves one agent. `base` is the path of its URL."""

    def __init__(
        self,
        settings: GatewaySettings,
        agent: AgentSettings,
        gate: A2aGate,
        sender: Sender,
        forwarding: Forwarding,
        large: LargeAnswers,
        base: bytes,
    ) -> None:
        self._settings = settings
        self._agent = agent
        self._prefix = settings.path.encode("ascii")
        self._gate = gate
        self._sender = sender
        self._forwarding = forwarding
        self._large = large
        self._base = base or b"/"
        self._card: Card | None = None
        self._public: PublicCard | None = None
        self._card_until = self._failed_until = 0.0
        self._fetching = asyncio.Lock()

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request. Raises `ClientGone`, and `RequestError` for what is no request of A2A."""
        check_source(exchange, self._settings)
        head = exchange.head
        below = head.raw_path[len(self._prefix) :]
        if below == CARD_PATH.encode("ascii"):
            if head.method != "GET":
                raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
            await self._show_card(exchange)
        elif below not in (b"", b"/"):
            raise refuse(head.path)
        elif head.method != "POST":
            raise RequestError(INVALID_REQUEST, "Method not allowed", status=405)
        else:
            await self._answer(exchange)

    async def _answer(self, exchange: Exchange) -> None:
        fields = fields_by_plain_name(exchange.head.raw_headers)
        types = values_of(fields, b"content-type")
        if len(types) != 1 or not is_json_request(types[0]) or values_of(fields, b"content-encoding"):
            raise RequestError(INVALID_REQUEST, "The body is not declared as JSON, without a coding", status=415)
        body = await exchange.body(self._settings.max_request_bytes)
        call, asked = Call(), None
        try:
            asked = await in_turns(read_request(body, values_of(fields, _VERSION)))
            exchange.request_id = asked.id
            guarded = await self._gate.admit(asked, values_of(fields, _PROOF), exchange.credentials, call)
            exchange.vouched, exchange.speaker = True, call.speaker
            try:
                if is_drill(guarded.method, guarded.target):
                    await _settle(call, _DRILLED)
                    await exchange.reply(200, _DRILLED.frame(asked.id), [JSON, NO_STORE])
                else:
                    await self._forward(exchange, asked, guarded, call)
            except BaseException as error:
                await call.open_calls.close(error)
                raise
        except AccreditError as error:
            await self._refuse(exchange, asked, error)

    async def _refuse(self, exchange: Exchange, asked: A2aRequest | None, error: AccreditError) -> None:
        """Tell the client of a refusal ([refusal])."""
        told = error_told(error)
        if told is None:
            raise error
        self._gate.counters.refused(error, method=asked.method if asked is not None else None)
        error.let_go()
        id = asked.id if asked is not None else error.id if isinstance(error, RequestError) else None
        if exchange.started:
            await exchange.write(encode_event(told.frame(id), name=None))
            await exchange.end()
            return
        # What a client may try again later is said in HTTP's words, too.
        known = refusal(error)
        status, headers = (known.status, known.headers) if known.status == 503 else (200, ())
        await exchange.reply(status, told.frame(id), [JSON, NO_STORE, *headers])

    async def _forward(self, exchange: Exchange, asked: A2aRequest, guarded: AgentCall, call: Call) -> None:
        """Forward an allowed request, and its answer ([headers] to [pages])."""
        room = exchange.rooms.streams if asked.method == "SubscribeToTask" else exchange.rooms.calls
        with room.held(exchange), WhileConnected(exchange):
            held = self._large.of(exchange)
            try:
                judged = await self._ask(exchange, asked, guarded, call, held)
                for _ in range(MAX_TASK_PAGES - 1):
                    token = next_page(judged) if judged is not None else None
                    if not token:
                        break
                    judged = await self._ask(exchange, asked.at_page(token), guarded, call, held)
                if judged is not None and isinstance(asked.params, ListParams) and asked.params.filters:
                    judged = await self._counted(exchange, asked, guarded, call, held, judged)
                if judged is not None:
                    await self._gate.settle(call, guarded, judged)
                    frame = judged.frame(asked.id)
                    await _settle(call, judged)
                    await exchange.reply(200, frame, [JSON, NO_STORE])
            finally:
                held.leave()

    async def _ask(
        self, exchange: Exchange, asked: A2aRequest, guarded: AgentCall, call: Call, held: AnswerReservation
    ) -> Judged | None:
        """Return an answer with what this caller may see of it; None once the events of a stream are passed on."""
        prepared = self._sender.client.prepare("POST", self._headers(exchange), target=self._base)
        answer = await self._sender.exchange(exchange, prepared, asked.text)
        try:
            _check_head(answer)
            if answer.head.is_stream and asked.does.streams:
                await self._pass_events(exchange, answer, asked, guarded, call)
                return None
            if not answer.head.is_json:
                raise AnswerError("not JSON")
            text = await answer.read(self._settings.max_response_bytes, timeout=self._settings.patience, grow=held.grow)
        finally:
            answer.close()
        await turn(len(text))
        judged = Answers(asked.id, guarded).judge(text)
        if isinstance(asked.params, ListParams):
            return await self._gate.only_own(call, judged, whole=not asked.params.page_token)
        if isinstance(judged.result, Card):
            shown = shown_card(judged.result, self._terms(exchange), self._gate.granted(call))
            return judged._replace(result=shown)
        return judged

    async def _counted(
        self,
        exchange: Exchange,
        asked: A2aRequest,
        guarded: AgentCall,
        call: Call,
        held: AnswerReservation,
        judged: Judged,
    ) -> Judged:
        """Return a page of a list with the number of all its tasks ([total])."""
        listed, counted, token = judged.result, 0, ""
        if not isinstance(listed, ListResult) or self._gate.policy.observes:
            return judged
        if len(listed.tasks) == listed.total_size:
            return judged
        for _ in range(MAX_TASK_PAGES):
            page = await self._ask(exchange, asked.to_count(token), guarded, call, held)
            if page is None or not isinstance(page.result, ListResult):
                break
            counted += len(page.result.tasks)
            token = page.result.next_page_token
            if not token:
                return judged._replace(result=replace(listed, total_size=counted))
        return judged

    async def _pass_events(
        self, exchange: Exchange, answer: Answer, asked: A2aRequest, guarded: AgentCall, call: Call
    ) -> None:
        answers = Answers(asked.id, guarded)
        async with aclosing(self._events(exchange, answer)) as events:
            async for data in events:
                judged = answers.judge(data)
                frame = judged.frame(asked.id)
                await self._gate.settle(call, guarded, judged)
                if not exchange.started:
                    await _settle(call, judged)
                    await exchange.start(200, _EVENTS)
                await exchange.write(encode_event(frame, name=None))
        if not exchange.started:
            raise AnswerError("a stream without an event")
        await exchange.end()

    async def _events(self, exchange: Exchange, answer: Answer) -> AsyncGenerator[bytes]:
        """Yield the data of each event. While the agent is silent, the client gets comments. Raises `AnswerError` and
        `UpstreamError`."""
        parser, silent, since_turn = SseParser(self._settings.max_event_bytes), 0.0, 0
        held = self._large.of(exchange, times=EVENT_TIMES)
        wait = min(KEEP_ALIVE_SECONDS, self._settings.patience)
        try:
            while True:
                try:
                    chunk = await answer.chunk(timeout=wait)
                except UpstreamTimeout:
                    silent += wait
                    if silent >= self._settings.patience:
                        raise
                    if exchange.started:
                        await exchange.write(KEEP_ALIVE)
                    continue
                if not chunk:
                    return
                silent = 0.0
                for piece in pieces(chunk):
                    for event in parser.feed(piece):
                        since_turn += len(event.raw)
                        if event.data:
                            yield event.data
                    if since_turn > EVENTS_AT_ONCE_BYTES:
                        since_turn = 0
                        await next_turn()
                    await held.fit(parser.size)
        finally:
            held.leave()

    async def _show_card(self, exchange: Exchange) -> None:
        """Answer a request for the public card ([card])."""
        proofs = values_of(fields_by_plain_name(exchange.head.raw_headers), _PROOF)
        try:
            granted = await self._gate.granted_by(proofs)
        except ProofRefused as error:
            await refuse_request(exchange, error, self._gate)
            return
        exchange.vouched = granted is not None
        with exchange.rooms.calls.held(exchange):
            card = await self._known_card(exchange)
        terms = self._terms(exchange)
        if granted is not None:
            text = to_json(shown_card(card, terms, granted))
        else:
            self._public = self._public or PublicCard(card, terms)
            text = self._public.at(terms.url)
        await exchange.reply(200, text, [JSON, NO_STORE])

    async def _known_card(self, exchange: Exchange) -> Card:
        """Return the agent's card, fetched by one request at a time. Raises `AnswerError` and `UpstreamError`."""
        loop = asyncio.get_running_loop()
        async with self._fetching:
            if loop.time() < self._card_until and self._card is not None:
                return self._card
            if loop.time() < self._failed_until:
                raise UpstreamUnavailable("its card could not be had")
            try:
                self._card, self._public = await self._fetched_card(exchange), None
            except (AnswerError, UpstreamError):
                self._failed_until = loop.time() + FAILED_CARD_SECONDS
                raise
            self._card_until = loop.time() + CARD_SECONDS
            return self._card

    async def _fetched_card(self, exchange: Exchange) -> Card:
        headers = [(b"accept", JSON_TYPE), (b"accept-encoding", b"identity"), (_VERSION, VERSION.encode())]
        target = self._agent.card_path.encode("ascii")
        prepared = self._sender.client.prepare("GET", headers, target=target)
        answer = await self._sender.exchange(exchange, prepared)
        try:
            _check_head(answer)
            return read_card(await answer.read(MAX_CARD_BYTES, timeout=self._settings.patience))
        finally:
            answer.close()

    def _terms(self, exchange: Exchange) -> CardTerms:
        policy, url = self._gate.policy, self._agent.public_url
        if not url:
            host = exchange.head.headers.get(b"host", b"").decode("latin-1")
            url = f"{'https' if self._agent.tls else 'http'}://{host}{self._settings.path}"
        return CardTerms(url, policy.verifier_id, policy.catalog.routes, bool(self._agent.push_urls))

    def _headers(self, exchange: Exchange) -> RawHeaders:
        fields = fields_by_plain_name(self._forwarding.api_to_upstream(exchange.head.raw_headers))
        kept = [pair for name, pairs in fields.items() if not name.startswith(_WRITTEN) for pair in pairs]
        own = [(b"content-type", JSON_TYPE), (b"accept", b"application/json, text/event-stream")]
        own += [(b"accept-encoding", b"identity"), (_VERSION, VERSION.encode())]
        return [*kept, *own]


def _check_head(answer: Answer) -> None:
    if answer.status != 200:
        raise AnswerError(f"status {answer.status}")
    if answer.header(b"content-encoding") not in (None, b"identity"):
        raise AnswerError("a Content-Encoding that was not asked for")


async def _settle(call: Call, judged: Judged) -> None:
    """Record the outcome ([outcome]). Raises `ProofRefused` if that is impossible."""
    if not call.open_calls:
        return
    if judged.code is not None:
        outcome = Outcome(status="error", detail=f"error {judged.code}")
    else:
        digest: dict[Any, str] = result_digest(to_json(judged.result))
        outcome = Outcome(status="ok", result=digest)
    await call.open_calls.settle(outcome)
