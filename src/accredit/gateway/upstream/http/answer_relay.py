"""Judges and forwards the answer of a server behind HTTP, whole or as a stream.

- [errors] A status of 400 and above is forwarded with its body. A body that claims to be JSON, but is not a JSON-RPC
  error of this exchange, is replaced; the status and `WWW-Authenticate` stay. Any other body must be text.
- [redirects] A redirect is neither followed nor forwarded, but described (`client.words_for`). A request must be
  answered with 200, 201 or 203 (`WITH_RESULT`): no other status below 400 has a meaning here.
- [accepted] When the server has accepted a notification or a response, the client gets 202 and no body, as soon as the
  head of the answer has come. The answer's body is dropped (`unasked`). Its headers are dropped too, unless the body is
  known to be empty.
- [answers] A request is answered with JSON, which is one frame, or with an event stream, in which each event is a
  frame.
- [hidden-headers] A 401 may concern the gateway's credentials, not the client's. That is so where the gateway manages
  the replicas itself (`HttpUpstream.looked_after`), and where it removes tokens from requests to one of several
  servers. There a 401 counts as an unavailable server, as no credentials of the client could help.
- [headers] An answer is invalid if it names a charset other than UTF-8, more than one session or revision, or a session
  id of more than `MAX_SESSION_ID_BYTES`.
- [encoding] An encoded body is forwarded as it came only if its client decodes this coding and all decoders read it
  alike. Otherwise it is decoded.

A refused answer loses all its headers. If it announced a session, that is ended upstream.
"""

import codecs
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from accredit.attest import Outcome
from accredit.errors import AnswerError, FrameError, UpstreamRefuses
from accredit.gateway.counters import Counters
from accredit.gateway.headers import JSON, SESSION_HEADER, RawHeaders
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE
from accredit.gateway.recording.open_calls import outcome_of_end
from accredit.gateway.replies import refusal
from accredit.gateway.room import EqualShares
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import in_turns, next_turn, turn
from accredit.gateway.upstream.http.client import REDIRECTS, Answer, Grow, words_for
from accredit.gateway.upstream.http.encoding import Decoded, accepted_codings, decode_answer
from accredit.gateway.upstream.http.parsing import WITH_RESULT
from accredit.gateway.upstream.http.sending import Sender
from accredit.gateway.upstream.http.sse_relay import EventRelay, LongLivedStreams
from accredit.gateway.upstream.http.unasked import UnaskedBodies
from accredit.gateway.upstream.large_answers import LargeAnswers
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.frames import Frame, Request, Success, decode_error
from accredit.jsonrpc.methods import LISTEN
from accredit.jsonrpc.objects import as_string, members
from accredit.jsonrpc.responses import Answers, Expected
from accredit.jsonrpc.text import check_utf8
from accredit.limits import EVENT_TIMES, LONG_ANSWER_BYTES, MAX_SESSION_ID_BYTES, MAX_SPLIT_BYTES, SHORT_MESSAGE_BYTES

LEADING_BLANK_BYTES = 65_536
"""How many bytes of a compressed body are searched for its first character. That shows whether the raw body looks like
JSON."""

_log = logging.getLogger("accredit.gateway")


class AnswerRelay:
    """Judges and forwards one server's answers. `standing` are its long-lived streams."""

    def __init__(
        self,
        settings: GatewaySettings,
        sender: Sender,
        counters: Counters,
        parts: EqualShares,
        *,
        own_credentials: bool,
        before: "AnswerRelay | None",
    ) -> None:
        """`before` is the previous relay of this server's answers: what it holds and reads is kept."""
        if before is not None:
            self.large, self.unasked, self.standing = before.large, before.unasked, before.standing
        else:
            self.large, self.unasked = LargeAnswers(settings, parts), UnaskedBodies(counters, parts)
            self.standing = LongLivedStreams()
        self._settings = settings
        self._max_bytes = settings.max_response_bytes
        self._max_error_bytes = min(settings.max_response_bytes, MAX_SPLIT_BYTES)
        self._patience = settings.patience
        self._sender = sender
        self._forwarding = sender.forwarding
        self._counters = counters
        self._own_credentials = own_credentials

    def begin(self) -> None:
        """Apply these settings' bounds from now on."""
        self.large.fit(self._settings)
        self.standing.go_by(self._settings)

    def forward(
        self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]
    ) -> Coroutine[Any, Any, None]:
        """Forward the upstream's answer to a client's POST. Raises `AccreditError`."""
        if answer.status >= 400:
            return self.error(reply, answer, expected, requests)
        if not expected.waiting and 200 <= answer.status < 300:
            return self._accepted(reply, answer)
        if answer.head.is_stream and 200 <= answer.status < 300:
            return self.stream(reply, answer, expected, requests)
        raw = answer.short(self._max_bytes) if b"content-encoding" not in answer.head.fields else None
        if raw is not None:
            return self._whole(reply, answer, raw, expected, requests, None)
        return self._growing(reply, answer, expected, requests)

    async def _accepted(self, reply: Reply, answer: Answer) -> None:
        """Answer 202, and drop the body ([accepted])."""
        is_plain = self.unasked.drop(answer) and answer.head.names_once and answer.head.session_fits
        await reply.reply(202, b"", answer.head.passed_on(self._forwarding) if is_plain else [])

    async def error(self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]) -> None:
        """Forward an answer of status 400 and above ([errors] and [hidden-headers])."""
        held = self.large.of(reply)
        try:
            await self._error(reply, answer, expected, requests, held.grow)
        finally:
            held.leave()

    async def _error(
        self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request], grow: Grow
    ) -> None:
        if answer.status == 401 and self._own_credentials:
            raise UpstreamRefuses
        text, headers = b"", self._forwarding.unread_to_client(answer.headers)
        outcome = Outcome(status="error", detail=f"HTTP status {answer.status}")
        try:
            text = raw = await answer.read(self._max_error_bytes, timeout=self._patience, grow=grow)
            problem = head_problem(answer)
            if problem is not None:
                raise problem
            body = await decode_body(answer, raw, self._max_error_bytes, grow)
            said = await error_type(answer, raw, body.text, expected)
            text, coding = as_it_came(raw, body, reply.head.headers.get(b"accept-encoding"))
            headers = [*answer.head.passed_on(self._forwarding), *said, *coding]
        except AnswerError as error:
            error.let_go()
            outcome = outcome_of_end(error)
            for request in requests:
                request.failed(error)
            if self._settings.enforce or error.bound:
                self._counters.refused(error)
                self._sender.disown(reply, answer, requests)
                text = refusal(error).frame()
                headers = [JSON, *(pair for pair in headers if pair[0] == b"www-authenticate")]
            else:
                self._counters.refused(error, observed=True)
        await reply.calls.fail(outcome)
        await reply.reply(answer.status, text, headers)

    async def stream(self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]) -> None:
        """Judge and forward an event stream, perhaps a standing one ([answers])."""
        held = self.large.of(reply, times=EVENT_TIMES)
        stands = not requests or any(request.method == LISTEN for request in requests)
        relay = EventRelay(
            reply,
            answer,
            expected,
            headers=self.stream_headers(answer),
            settings=self._settings,
            counters=self._counters,
            learn=partial(self._learn, reply, answer, requests),
            idle_seconds=None if stands else self._patience,
            hold=any(request.method == "initialize" for request in requests),
            held=held,
        )
        try:
            await (self.standing.run(relay) if stands else relay.run())
        finally:
            held.leave()
        if relay.late:
            self._sender.take_back(reply, expected)

    def stream_headers(self, answer: Answer) -> RawHeaders:
        """Return the headers for the client of an event stream.

        Events are forwarded decoded, since a compressed stream can't be cut where an event ends. Raises `AnswerError`
        for an invalid head ([redirects]). In observe mode an invalid head is only counted.
        """
        problem = _status_problem(answer) or head_problem(answer)
        if problem is None:
            return [*answer.head.passed_on(self._forwarding), (b"content-type", EVENTS_TYPE)]
        self._observe(problem)
        return [pair for pair in self._forwarding.unread_to_client(answer.headers) if pair[0] != b"content-encoding"]

    async def _growing(self, reply: Reply, answer: Answer, expected: Expected, requests: Sequence[Request]) -> None:
        """Forward an answer that may become large. Reserve room for it as it grows."""
        held = self.large.of(reply)
        try:
            await self._whole(reply, answer, None, expected, requests, held.grow)
        finally:
            held.leave()

    async def _whole(
        self,
        reply: Reply,
        answer: Answer,
        raw: bytes | None,
        expected: Expected,
        requests: Sequence[Request],
        grow: Grow | None,
    ) -> None:
        """Judge and forward an answer that is not a stream ([redirects] and [answers]). `raw` is its body, or None if
        the body is still to be read."""
        problem = self._head_problem(answer, expected)
        if problem is not None and self._settings.enforce:
            raise problem
        if raw is None:
            raw = await answer.read(self._max_bytes, timeout=self._patience, grow=grow)
        try:
            if problem is not None:
                raise problem
            text, headers = await self._good(reply, answer, raw, expected, requests, grow)
        except AnswerError as error:
            self._observe(error)
            text, headers = raw, self._forwarding.unread_to_client(answer.headers)
            for request in requests:
                request.failed(error)
            await reply.calls.fail(outcome_of_end(error))
        del raw  # the client may read the judged body slowly
        await reply.reply(answer.status, text, headers)

    async def _good(
        self,
        reply: Reply,
        answer: Answer,
        raw: bytes,
        expected: Expected,
        requests: Sequence[Request],
        grow: Grow | None,
    ) -> tuple[bytes, RawHeaders]:
        """Return the body to forward, with its headers. Raises `AnswerError`."""
        body = await decode_body(answer, raw, self._max_bytes, grow)
        judged = await self._judged(body.text, expected)
        if grow is not None:
            await grow(len(judged))  # edits may have made it longer
        for response, _ in expected.answers.members:
            self._learn(reply, answer, requests, response)
        if reply.calls:
            judged = await reply.calls.withhold(expected.answers) or judged
        text, coding = judged, []
        if judged is body.text and body.coding:
            text, coding = as_it_came(raw, body, reply.head.headers.get(b"accept-encoding"))
        expected.answers = Answers([])
        return text, [*answer.head.passed_on(self._forwarding), JSON, *coding]

    async def _judged(self, text: bytes, expected: Expected) -> bytes:
        """Judge a body. Return it in the form in which it is forwarded. Raises `AnswerError`."""
        if len(text) <= SHORT_MESSAGE_BYTES:
            return expected.body(text)
        return (await in_turns(expected.judging(text, alone=True)))[0]

    def _observe(self, error: AnswerError) -> None:
        """In observe mode, count an invalid answer and let it pass. In enforce mode, and for any exceeded bound, raise
        the error."""
        if self._settings.enforce or error.bound:
            raise error
        self._counters.refused(error, observed=True)

    def unusable(self, answer: Answer) -> AnswerError:
        """Return the error for a status that can't answer a request. For a redirect it names the target
        ([redirects])."""
        if answer.status not in REDIRECTS:
            return AnswerError(f"status {answer.status}")
        url, location = self._sender.client.url_of(answer.replica), answer.header(b"location")
        return AnswerError(words_for(answer.status, url, location, self._settings.key_of_url))

    def _learn(self, reply: Reply, answer: Answer, requests: Sequence[Request], frame: Frame) -> None:
        """Note the revision of the session that an `initialize` answer begins. Raises `AnswerError`."""
        if not isinstance(frame, Success) or len(frame.result) > LONG_ANSWER_BYTES:
            return  # no answer about a session is that long
        for request in requests:
            if request.method == "initialize" and frame.id == request.id:
                session, revision = answer.header(SESSION_HEADER), None
                with contextlib.suppress(FrameError):
                    revision = as_string(members(frame.result).get("protocolVersion"))
                if session is not None and revision is not None:
                    reply.negotiated(session, revision)

    def _head_problem(self, answer: Answer, expected: Expected) -> AnswerError | None:
        """Return what is wrong with an answer's head ([redirects] and [answers]), or None."""
        head = answer.head
        if answer.status == 200 and head.is_json and head.names_once and head.session_fits:
            return None
        if not 200 <= answer.status < 300:
            return self.unusable(answer)
        if answer.status != 202 and head.media_type.name != JSON_TYPE:
            return AnswerError("neither JSON nor an event stream")
        return _status_problem(answer) or head_problem(answer)


def _status_problem(answer: Answer) -> AnswerError | None:
    """Return what is wrong with a status below 400 ([redirects]), or None."""
    if answer.status in WITH_RESULT:
        return None
    return AnswerError(f"status {answer.status} in answer to a request")


def head_problem(answer: Answer) -> AnswerError | None:
    """Return what is wrong with an answer's head ([headers]), or None."""
    if not answer.head.names_once:
        return AnswerError("more than one Mcp-Session-Id or MCP-Protocol-Version, or one that is none")
    if not answer.head.session_fits:
        return AnswerError(f"a session's id of more than {MAX_SESSION_ID_BYTES} bytes", bound=True)
    return None if answer.head.in_utf8 else AnswerError("a charset other than utf-8")


async def decode_body(answer: Answer, raw: bytes, limit: int, grow: Grow | None = None) -> Decoded:
    """Return the decoded body of an answer; `grow` reserves memory for a number of bytes. Raises `AnswerError`."""
    coding = answer.head.fields.get(b"content-encoding")
    if coding is None:
        return Decoded(raw)
    steps = decode_answer(raw, coding, limit)
    while True:
        try:
            size = next(steps)
        except StopIteration as last:
            return last.value
        if grow is not None:
            await grow(len(raw) + size)
        await next_turn()


def as_it_came(raw: bytes, body: Decoded, accepted: bytes | None) -> tuple[bytes, RawHeaders]:
    """Return the bytes to send for an unchanged body, and the header that names their coding.

    `accepted` is the client's `Accept-Encoding`. A client without one may decode the body or not. So it gets a decoded
    body if the encoded bytes could be JSON themselves, as a Brotli stream can.
    """
    if not body.coding:
        return body.text, []
    decodes = accepted is None or body.coding in accepted_codings(accepted).split(b", ")
    if decodes and not _looks_like_json(raw):
        return raw, [(b"content-encoding", body.coding)]
    return body.text, []


async def error_type(answer: Answer, raw: bytes, body: bytes, expected: Expected) -> RawHeaders:
    """Check an error's body, and return its content type as a header. `raw` is the body as it came, `body` the decoded
    one. Raises `AnswerError`."""
    claimed = answer.head.media_type.name
    try:
        if claimed == JSON_TYPE and raw:
            await turn(len(body))
            frame = decode_error(body)
            if frame.id is not None and frame.id not in expected.open:
                raise FrameError("an error for an id that was not asked for")
            for request in expected.open.values():
                if request.watcher is not None:
                    request.watcher.answered(frame)
        else:
            check_utf8(body)
    except FrameError as error:
        raise AnswerError(error.detail, bound=error.bound) from None
    if b"\0" in body:
        raise AnswerError("an error that is neither JSON nor text")
    if answer.header(b"content-type") is None:
        return []
    return [(b"content-type", claimed if claimed not in (b"", EVENTS_TYPE) else b"text/plain")]


def _looks_like_json(body: bytes) -> bool:
    return body[:LEADING_BLANK_BYTES].removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")
