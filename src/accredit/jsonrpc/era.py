"""The era of a request, and the agreement of its HTTP headers with its body (2026-07-28). No I/O.

Source: 2026-07-28, basic/transports ("Standard headers", "Header validation") and basic/index ("Per-request
protocol fields"). A modern request is refused, in this order:

1. `params._meta` lacks the protocol version or the client's capabilities: -32602;
2. a routing header occurs twice, is missing, or differs from the body: -32020. The headers are
   `MCP-Protocol-Version`, `Mcp-Method` and, for calls with a target, `Mcp-Name`.

Intermediaries route by headers and servers act on bodies: one that says two things is refused before anyone
believes either. Whether the version is supported is the upstream's to say.

A routing header that mirrors nothing in its message (any in the legacy era, one that names the target of a list) was
compared with nothing, so it does not go on (`unmirrored`).
"""

import base64
import binascii
import re
from collections.abc import Mapping

from accredit.errors import RequestError
from accredit.jsonrpc.encode import HEADER_MISMATCH, INVALID_PARAMS
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.methods import META_CAPABILITIES, META_VERSION, METHODS, TARGET_MEMBER, Era, is_known, is_modern
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.scalars import as_string

VERSION_HEADER = b"mcp-protocol-version"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"
PARAM_HEADERS = b"mcp-param-"
"""What the names begin with of headers that mirror arguments of a tool."""

_SHOWN = {VERSION_HEADER: "MCP-Protocol-Version", METHOD_HEADER: "Mcp-Method", NAME_HEADER: "Mcp-Name"}
_PLAIN = re.compile(rb"[\t\x20-\x7e]*")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")

Headers = Mapping[bytes, bytes]
"""Header values by lower-case name; a header that came twice holds both values, joined by `DUPLICATED`."""

DUPLICATED = b"\0"
"""Joins the values of a repeated header: no value can hold it, so it equals nothing that a body says."""


def era_of(frame: Frame | Batch, headers: Headers) -> Era:
    """The era that a client's message belongs to: what its header names, or else what its body carries."""
    if is_modern(_version_header(headers)):
        return Era.MODERN
    return frame.era if isinstance(frame, Request) else Era.LEGACY


def check_agreement(frame: Request | Notification, headers: Headers) -> None:
    """Refuses a modern message whose headers and body disagree. Raises `RequestError`."""
    id = frame.id if isinstance(frame, Request) else None
    if isinstance(frame, Request):
        version = required_version(frame)
        _agree(headers, VERSION_HEADER, version, id)
    if isinstance(frame, Request) or METHOD_HEADER in headers:
        _agree(headers, METHOD_HEADER, frame.method, id)
    target = _target(frame, headers)
    if target is not None:
        _agree(headers, NAME_HEADER, target, id)


def unmirrored(frame: Frame | Batch | None, era: Era, headers: Headers) -> frozenset[bytes]:
    """The routing headers that were compared with nothing in a message (None: a request without a body), as there is
    nothing that they could mirror. Whoever routes by them would take the message for another one.

    Those of a method that MCP does not have mean what whoever defined it says.
    """
    routing = [name for name in headers if name in (METHOD_HEADER, NAME_HEADER) or name.startswith(PARAM_HEADERS)]
    if not routing:
        return frozenset()
    if era is Era.LEGACY or not isinstance(frame, Request | Notification):
        return frozenset(routing)
    mirrored = {METHOD_HEADER}
    if frame.method not in METHODS or _target(frame, headers) is not None:
        mirrored.add(NAME_HEADER)
    with_params = frame.method == "tools/call" or frame.method not in METHODS
    return frozenset(
        name for name in routing if name not in mirrored and not (with_params and name.startswith(PARAM_HEADERS))
    )


def plain_header(value: bytes) -> str | None:
    """The text of a header value, without the blanks around it (RFC 9110 section 5.5); None if it is not ASCII."""
    value = value.strip(b" \t")
    return value.decode("ascii") if _PLAIN.fullmatch(value) else None


def decode_header(value: bytes) -> str | None:
    """The same for a value that may have the Base64 sentinel form `=?base64?...?=`; None too if that is malformed."""
    text = plain_header(value)
    found = _SENTINEL.fullmatch(text or "")
    if found is None:
        return text
    try:
        decoded = base64.b64decode(found[1], validate=True)
        if base64.b64encode(decoded).decode("ascii") != found[1]:
            return None  # two spellings of one value: only the canonical one counts
        return decoded.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _target(frame: Request | Notification, headers: Headers) -> str | None:
    """What `Mcp-Name` mirrors. A method that the message's revision does not have (`tasks/result`) has no target there:
    that it is not found is the answer, whatever its headers say (SEP-2663)."""
    known = frame.method in TARGET_MEMBER and is_known(frame.method, _version_header(headers) or None)
    return frame.target if known else None


def _version_header(headers: Headers) -> str:
    return headers.get(VERSION_HEADER, b"").strip(b" \t").decode("latin-1")


def required_version(request: Request) -> str:
    """The protocol version that a modern request carries. Raises `RequestError` when required metadata is missing."""
    missing = [key for key in (META_VERSION, META_CAPABILITIES) if request.in_meta(key) is None]
    if missing:
        raise RequestError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}", id=request.id)
    version = as_string(request.in_meta(META_VERSION))
    if version is None:
        raise RequestError(INVALID_PARAMS, f"params._meta {META_VERSION} is not a string", id=request.id)
    return version


def _agree(headers: Headers, name: bytes, expected: str, id: int | str | None) -> None:
    value = headers.get(name)
    shown = _SHOWN[name]
    if value is None:
        raise RequestError(HEADER_MISMATCH, f"Header mismatch: {shown} is missing", id=id)
    if DUPLICATED in value:
        raise RequestError(HEADER_MISMATCH, f"Header mismatch: {shown} occurs twice", id=id)
    if (decode_header if name == NAME_HEADER else plain_header)(value) != expected:
        raise RequestError(HEADER_MISMATCH, f"Header mismatch: {shown} differs from the body", id=id)
