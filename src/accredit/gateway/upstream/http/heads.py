"""The head of an upstream's answer. A head that comes repeatedly is parsed only once (`parsing`). No I/O."""

import re

from accredit.base.caching import CachedProperty
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, fold
from accredit.gateway.media_types import EVENTS_TYPE, JSON_TYPE, MediaType, answer_type
from accredit.jsonrpc.era import VERSION_HEADER
from accredit.limits import MAX_SESSION_ID_BYTES

WITH_RESULT = frozenset({200, 201, 203})
"""The statuses whose whole body is the answer to a request. With 205 clients see no body, with 206 they see a part of
one. Clients read the other statuses below 300 in different ways (RFC 9110 section 15.3)."""

_ONE_NAME = re.compile(rb"[!-+\--~]+")  # visible characters, as MCP requires, and no list


class PassedOn:
    """The headers of a head that one `Forwarding` lets through. They do not depend on the body's length."""

    __slots__ = ("by", "headers")

    def __init__(self) -> None:
        self.by: Forwarding | None = None
        self.headers: RawHeaders = []


class AnswerHead:
    """A head that has arrived.

    `headers` are as they came, including hop-by-hop ones, with names in lower case. `length` is the declared length.
    `chunked` says that the body comes in chunks. `idle_seconds` says for how long the connection may be reused
    afterwards.
    """

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        *,
        length: int | None = None,
        chunked: bool = False,
        idle_seconds: float = 0.0,
    ) -> None:
        self.status = status
        self.headers = headers
        self.length = length
        self.chunked = chunked
        self.idle_seconds = idle_seconds
        self._passed_on = PassedOn()

    def passed_on(self, forwarding: Forwarding) -> RawHeaders:
        """Return the headers to forward to the client. The result is cached for this `forwarding`; a head may live
        longer than that, and then it is made anew."""
        known = self._passed_on
        if known.by is not forwarding:
            known.by, known.headers = forwarding, forwarding.to_client(self.headers)
        return known.headers

    def with_length(self, length: int) -> "AnswerHead":
        """Return this head with another Content-Length. What is cached about the head is kept."""
        if length == self.length:
            return self
        head = AnswerHead.__new__(AnswerHead)
        head.__dict__ = {name: value for name, value in vars(self).items() if name != "fields"}
        head.length = length
        head.headers = [(name, b"%d" % length if name == b"content-length" else value) for name, value in self.headers]
        return head

    @CachedProperty
    def fields(self) -> dict[bytes, bytes]:
        """The values by name. The values of a repeated header are joined by `DUPLICATED`."""
        return fold(self.headers)

    @CachedProperty
    def media_type(self) -> MediaType:
        """The media type that the answer claims."""
        return answer_type(self.fields.get(b"content-type"))

    @CachedProperty
    def is_stream(self) -> bool:
        """Whether the answer is an event stream."""
        return self.media_type.name == EVENTS_TYPE

    @CachedProperty
    def is_json(self) -> bool:
        """Whether the answer is JSON in UTF-8."""
        return self.media_type.name == JSON_TYPE and self.in_utf8

    @CachedProperty
    def names_once(self) -> bool:
        """Whether the head names at most one session and one revision. If it names two, a list or an empty value, one
        client takes the first, another the last, and a third all of it."""
        named = [self.fields.get(name) for name in (SESSION_HEADER, VERSION_HEADER)]
        return all(value is None or _ONE_NAME.fullmatch(value) for value in named)

    @CachedProperty
    def session_fits(self) -> bool:
        """Whether the session id in the head is short enough to be sent back by the client."""
        return len(self.fields.get(SESSION_HEADER, b"")) <= MAX_SESSION_ID_BYTES

    @CachedProperty
    def in_utf8(self) -> bool:
        """Whether the answer names no charset other than UTF-8."""
        return self.media_type.in_utf8
