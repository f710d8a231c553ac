"""Which header fields are forwarded in each direction, and which the gateway writes itself (docs/reference/headers.md).
No I/O.

If two programs read the same bytes differently, a client can get around the gate. So the gateway itself writes the
fields that say how to read a message. Fields that say where a message goes, or who sent it, are dropped. All other
fields:

- [guarded] where proofs or tokens are required, only what MCP needs is forwarded, and what `[gateway] forward_headers`
  adds;
- [open] otherwise all of them are forwarded: people pass their API keys in such fields.

CGI, WSGI and PHP take `Content_Type` and `Content.Type` for `Content-Type`. So each name is treated as the name that
the most lenient reader takes it for. A name that is not a lower-case token is dropped (RFC 9110 section 5.6.2; ASGI
gives names in lower case).

Source: RFC 9110 sections 7.6, 8 and 12 to 14, RFC 9530, and what common servers and proxies obey.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from accredit.base.caching import cache_short_values
from accredit.gateway.headers import RawHeaders
from accredit.gateway.media_types import JSON_TYPE, MAX_MEDIA_TYPE_BYTES, parse_media_type
from accredit.jsonrpc.param_headers import PARAM_HEADERS

MAX_MEDIA_RANGES = 32
"""How many elements of a client's `Accept` are forwarded. Browsers send ten."""


_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_TO_DASHES = bytes(code if chr(code).isalnum() and code < 128 else ord("-") for code in range(256))
_WEIGHT = re.compile(rb"[qQ]=(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


class Fate(Enum):
    """What is done with a header field."""

    PASSES = "passes"
    OWN = "own"
    """Dropped. The gateway writes this field itself if one is needed."""
    READ = "read"
    """Says how a message is read, or who may read it. Dropped, except where messages are passed through unread."""
    NEVER = "never"
    OTHER = "other"
    """Forwarded where neither proofs nor tokens are required, or if the configuration adds it."""


class Table:
    """The fates of one direction's fields. A name that ends with `*` is a prefix. An exact name wins over a prefix."""

    def __init__(self, names: Mapping[Fate, str]) -> None:
        listed = {name.encode("ascii"): fate for fate, text in names.items() for name in text.split()}
        self.listed = listed
        self._beginnings = [(name[:-1], fate) for name, fate in listed.items() if name.endswith(b"*")]

    def fate(self, name: bytes) -> Fate:
        """Return the fate of a field by its lower-case name."""
        if not _NAME.fullmatch(name):
            return Fate.NEVER
        plain = name.translate(_TO_DASHES)
        fate = self.listed.get(plain)
        if fate is None:
            begun = (fate for beginning, fate in self._beginnings if plain.startswith(beginning))
            fate = next(begun, Fate.OTHER)
        return Fate.NEVER if fate is Fate.PASSES and plain != name else fate


_HOP_BY_HOP = "connection http2-settings keep-alive proxy-* te trailer transfer-encoding upgrade "
_DIGESTS = "digest repr-digest unencoded-digest want-* x-amz-content-sha256 "
_WHERE_TO = (
    "base-url destination forwarded http-method-override max-forwards method-override path-info proxy script-name via "
    "x-accel-* x-forward-* x-forwarded x-forwarded-* x-host x-http-* x-invoke-* x-matched-path x-method "
    "x-method-override x-middleware-* x-ms-original-url x-nextjs-* x-original-* x-override-* x-proxy-* "
    "x-request-method x-rewrite-* x-script-name x-sendfile* x-verb x-waws-* "
)
_IN_WHOSE_NAME = (
    "cf-access-authenticated-* cf-access-jwt-assertion cf-connecting-ip* cf-visitor client-cert client-cert-chain "
    "client-ip front-end-https remote-* ssl-* true-client-ip x-arr-* x-auth-request-* x-authenticated-* x-client-cert* "
    "x-client-ip x-cluster-client-ip x-envoy-* x-real-ip x-remote-* x-scheme x-ssl-* x-url-scheme x-webauth-* "
)

TO_UPSTREAM = Table(
    {
        Fate.PASSES: "authorization last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id "
        f"{PARAM_HEADERS.decode()}* "
        "traceparent tracestate user-agent",
        Fate.OWN: "accept accept-encoding content-length content-type host",
        Fate.NEVER: _HOP_BY_HOP + _WHERE_TO + _IN_WHOSE_NAME + "access-control-* accredit-* expect",
        Fate.READ: _DIGESTS + "a-im accept-* content-* if-* mime-version range transfer-* x-content-*",
        Fate.OTHER: "accept-language",
    }
)
TO_CLIENT = Table(
    {
        Fate.PASSES: "allow cache-control mcp-protocol-version mcp-session-id retry-after www-authenticate "
        "x-accel-buffering",
        Fate.OWN: "content-encoding content-length content-type",
        Fate.NEVER: _HOP_BY_HOP + "access-control-* accredit-* alt-svc clear-site-data public-key-pins* "
        "service-worker-allowed strict-transport-security x-accel-* x-lighttpd-send-* x-litespeed-* x-proxy-* "
        "x-reproxy-* x-sendfile*",
        Fate.READ: _DIGESTS + "accept-ranges content-* location mime-version refresh transfer-*",
        Fate.OTHER: "content-disposition content-language content-security-policy content-security-policy-report-only",
    }
)
# A peer that names one of these in `Connection`, which RFC 9110 forbids, would have the gateway judge one message and
# the other side read another.
_END_TO_END = frozenset(
    {b"accept", b"authorization", b"cookie", b"content-encoding", b"content-type", b"origin", b"set-cookie"}
)


class Forwarding:
    """The header fields that one gateway forwards.

    With `listed_only`, it forwards only fields that a table lists and those of `added`. `own` are the names of the
    fields that the configuration puts into every request to the upstream.
    """

    def __init__(self, *, listed_only: bool, added: Iterable[str] = (), own: Iterable[str] = ()) -> None:
        self.listed_only = listed_only
        self._added = frozenset(name.lower().encode() for name in added)
        self._own = frozenset(name.lower().encode().translate(_TO_DASHES) for name in own)
        self._goes_up = cache_short_values(512)(self._to_upstream)
        self._comes_back = cache_short_values(512)(self._to_client)

    def to_upstream(self, raw: RawHeaders, *, body: bool) -> RawHeaders:
        """Return the fields of a client's request that are to be forwarded. `body` says that the forwarded request has
        a JSON body."""
        goes, hops = self._goes_up, False
        kept: RawHeaders = []
        accepts: list[bytes] = []
        for pair in raw:
            name = pair[0]
            if goes(name, False):
                kept.append(pair)
            elif name == b"accept":
                accepts.append(pair[1])
            elif name == b"connection":
                hops = True
        if hops:
            named = _hops(raw)
            kept = [pair for pair in kept if pair[0] not in named]
        accepted = accepted_types(b",".join(accepts)) if accepts else b""
        if accepted:
            kept.append((b"accept", accepted))
        if body:
            kept.append((b"content-type", JSON_TYPE))
        return kept

    def to_client(self, raw: RawHeaders) -> RawHeaders:
        """Return the fields of an upstream's answer that are to be forwarded. Fields that say how to read the body are
        left out: the gateway writes these itself."""
        hops, comes = _hops(raw), self._comes_back
        return [pair for pair in raw if comes(pair[0], False) and pair[0] not in hops]

    def unread_to_upstream(self, raw: RawHeaders) -> RawHeaders:
        """Return the fields to forward from a request outside MCP's paths. They include those that say how to read its
        body."""
        hops, goes = _hops(raw), self._goes_up
        return [pair for pair in raw if goes(pair[0], True) and pair[0] not in hops]

    def unread_to_client(self, raw: RawHeaders) -> RawHeaders:
        """Return the fields to forward from an answer outside MCP's paths. They include those that say how to read its
        body, except Content-Length."""
        hops, comes = _hops(raw), self._comes_back
        return [pair for pair in raw if comes(pair[0], True) and pair[0] not in hops]

    def api_to_upstream(self, raw: RawHeaders) -> RawHeaders:
        """Return the fields to forward from a request to an HTTP API, in their order: all end-to-end fields, except
        those that say where the request goes or who sent it, and those that the gateway writes. Fields of `_IF_NAMED`
        are forwarded only if the configuration adds them."""
        hops = _hops(raw)
        return [pair for pair in raw if pair[0] not in hops and self._goes_to_api(pair[0])]

    def _goes_to_api(self, name: bytes) -> bool:
        plain = name.translate(_TO_DASHES)
        if plain in self._own or plain in _WRITTEN_TO_APIS or not _NAME.fullmatch(name):
            return False
        if name in self._added or name in _OF_BODY:
            return True
        if plain.startswith(_IF_NAMED):
            return False
        return TO_UPSTREAM.fate(name) in (Fate.PASSES, Fate.OTHER)

    def _to_upstream(self, name: bytes, unread: bool) -> bool:
        if name.translate(_TO_DASHES) in self._own:
            return False
        fate = TO_UPSTREAM.fate(name)
        if unread:
            if name in _WRITTEN or (self.listed_only and name.startswith((b"mcp-", b"last-event-id"))):
                return False
            if fate in (Fate.READ, Fate.OWN):
                return name == name.translate(_TO_DASHES)
        return self._passes(name, fate)

    def _to_client(self, name: bytes, unread: bool) -> bool:
        if name.translate(_TO_DASHES) in self._own:
            return False  # a server's echo of who calls, or of the gateway's own key
        fate = TO_CLIENT.fate(name)
        if unread and fate in (Fate.READ, Fate.OWN):
            return name != b"content-length"
        return self._passes(name, fate)

    def _passes(self, name: bytes, fate: Fate) -> bool:
        return fate is Fate.PASSES or (fate is Fate.OTHER and (not self.listed_only or name in self._added))


_WRITTEN = frozenset({b"accept-encoding", b"content-length", b"host"})
"""Fields that the gateway's HTTP client writes itself, on every path."""


_WRITTEN_TO_APIS = frozenset({b"content-length", b"host", b"ratify-proof"})
_OF_BODY = frozenset({b"accept", b"accept-encoding", b"content-encoding", b"content-language", b"content-type"})
_IF_NAMED = (b"cookie", b"if-", b"range")


def can_be_added_for_api(name: str) -> bool:
    """Return whether an API's `forward_headers` may contain a name. It must be one of `_IF_NAMED`, since others are
    forwarded anyway or never."""
    raw = name.lower().encode("ascii", "replace")
    is_named = raw.startswith(_IF_NAMED) and raw == raw.translate(_TO_DASHES)
    return is_named and TO_UPSTREAM.fate(raw) in (Fate.OTHER, Fate.READ)


def can_be_added(name: str) -> bool:
    """Return whether `forward_headers` may contain a name.

    It must not say how a message is read or where it goes. Nor may it be a name that the gateway itself writes or
    removes.
    """
    raw = name.lower().encode("ascii", "replace")
    fates = {TO_UPSTREAM.fate(raw), TO_CLIENT.fate(raw)}
    return fates <= {Fate.OTHER, Fate.PASSES} and raw != b"authorization"


def can_name_caller(name: str) -> bool:
    """Return whether a header of this name may tell the server who calls. The name must have no other meaning."""
    raw = name.lower().encode("ascii", "replace")
    own = raw.startswith(b"accredit-") or TO_UPSTREAM.fate(raw) is Fate.OTHER
    return raw == raw.translate(_TO_DASHES) and raw.strip(b"-") == raw != b"" and own and raw not in _END_TO_END


def same_name(one: str, other: str) -> bool:
    """Return whether the most lenient reader takes two header names for one."""
    plain = (name.lower().encode("ascii", "replace").translate(_TO_DASHES) for name in (one, other))
    return next(plain) == next(plain)


def fields_by_plain_name(raw: RawHeaders) -> dict[bytes, RawHeaders]:
    """Return the fields by name. Each has the name that the most lenient reader takes its own name for."""
    found: dict[bytes, RawHeaders] = {}
    for pair in raw:
        found.setdefault(pair[0].translate(_TO_DASHES), []).append(pair)
    return found


def values_of(fields: Mapping[bytes, RawHeaders], name: bytes) -> list[bytes]:
    """Return the values of a header, whichever spelling of its name was sent. `fields` are by plain name."""
    return [value for _, value in fields.get(name, ())]


def _hops(raw: RawHeaders) -> Collection[bytes]:
    """Return the names that `Connection` marks as hop-by-hop."""
    values = [value for name, value in raw if name == b"connection"]
    if not values:
        return ()
    named = {token.strip().lower() for value in values for token in value.split(b",")}
    return {name for name in named - _END_TO_END if Fate.PASSES not in (TO_UPSTREAM.fate(name), TO_CLIENT.fate(name))}


@cache_short_values(256)
def accepted_types(value: bytes) -> bytes:
    """Return a client's `Accept` as the gateway writes it, or b"" if nothing is left of it.

    Only media types and weights are kept: because of another parameter a server could choose another representation.
    """
    ranges: list[bytes] = []
    for element in value.split(b",", MAX_MEDIA_RANGES)[:MAX_MEDIA_RANGES]:
        range_, _, parameters = element.partition(b";")
        media_type = parse_media_type(range_)
        if media_type is None or len(element) > MAX_MEDIA_TYPE_BYTES:
            continue
        weights = [part.strip() for part in parameters.split(b";") if _WEIGHT.fullmatch(part.strip())]
        ranges.append(media_type.name + b";" + weights[0].lower() if weights else media_type.name)
    return b", ".join(ranges)
