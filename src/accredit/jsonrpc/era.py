"""The era of a request, and the agreement of its HTTP headers with its body (2026-07-28). No I/O.

Source: 2026-07-28, basic/transports ("Standard headers", "Header validation") and basic/index ("Per-request protocol
fields"). A modern request is refused, in this order:

- [meta] `params._meta` lacks the protocol version or the client's capabilities: -32602;
- [headers] a routing header occurs twice, is missing, or differs from the body: -32020. The headers are
  `MCP-Protocol-Version`, `Mcp-Method` and, for calls with a target, `Mcp-Name`.

Intermediaries route by headers and servers act on bodies. So a message whose headers and body disagree is refused
before either is trusted. Whether the version is supported is for the upstream to decide.

Some routing headers have no counterpart in the message's body: any in the legacy era, or `Mcp-Name` on a list request.
They can't be compared, so they are not forwarded (`unmirrored_headers`).
"""

from collections.abc import Collection

from accredit.errors import RequestError
from accredit.jsonrpc.encode import HEADER_MISMATCH, INVALID_PARAMS
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.methods import META_CAPABILITIES, META_VERSION, METHODS, TARGET_MEMBER, Era, is_known, is_modern
from accredit.jsonrpc.objects import as_string
from accredit.jsonrpc.param_headers import DUPLICATED, PARAM_HEADERS, Headers, decode_header, plain_header
from accredit.jsonrpc.requests import Batch

VERSION_HEADER = b"mcp-protocol-version"
METHOD_HEADER = b"mcp-method"
NAME_HEADER = b"mcp-name"

_SHOWN = {VERSION_HEADER: "MCP-Protocol-Version", METHOD_HEADER: "Mcp-Method", NAME_HEADER: "Mcp-Name"}


def names_modern(headers: Headers) -> bool:
    """Return whether the headers name a modern version. Then a message is modern, whatever its body names."""
    return is_modern(_version_header(headers))


def check_agreement(frame: Request | Notification, headers: Headers) -> None:
    """Raise `RequestError` for a modern message whose headers and body disagree."""
    id = frame.id if isinstance(frame, Request) else None
    if isinstance(frame, Request):
        version = required_version(frame)
        _agree(headers, VERSION_HEADER, version, id)
    if isinstance(frame, Request) or METHOD_HEADER in headers:
        _agree(headers, METHOD_HEADER, frame.method, id)
    target = _target(frame, headers)
    if target is not None:
        _agree(headers, NAME_HEADER, target, id)


def unmirrored_headers(
    frame: Frame | Batch, era: Era, headers: Headers, routing: Collection[bytes]
) -> frozenset[bytes]:
    """Return those of the `routing` headers that mirror nothing in the body of a message. They were not compared with
    anything, so an intermediary that routes by them could take the message for another one.

    For a method that MCP does not define, its author defines the meaning of `Mcp-Name` and `Mcp-Param-*`, so these are
    not returned.
    """
    if era is Era.LEGACY or not isinstance(frame, Request | Notification):
        return frozenset(routing)
    mirrored = {METHOD_HEADER}
    if frame.method not in METHODS or _target(frame, headers) is not None:
        mirrored.add(NAME_HEADER)
    with_params = frame.method == "tools/call" or frame.method not in METHODS
    return frozenset(
        name for name in routing if name not in mirrored and not (with_params and name.startswith(PARAM_HEADERS))
    )


def _target(frame: Request | Notification, headers: Headers) -> str | None:
    """Return the value that `Mcp-Name` has to mirror, or None.

    A method that does not exist in the message's revision (such as `tasks/result`) has no target: the answer is "method
    not found", whatever its headers say (SEP-2663).
    """
    known = frame.method in TARGET_MEMBER and is_known(frame.method, _version_header(headers) or None)
    return frame.target if known else None


def _version_header(headers: Headers) -> str:
    return headers.get(VERSION_HEADER, b"").strip(b" \t").decode("latin-1")


def required_version(request: Request) -> str:
    """Return the protocol version in a modern request's body. Raises `RequestError` if required metadata is missing."""
    said = request.in_meta(META_VERSION)
    if said is None or request.in_meta(META_CAPABILITIES) is None:
        missing = [key for key in (META_VERSION, META_CAPABILITIES) if request.in_meta(key) is None]
        raise RequestError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}", id=request.id)
    version = as_string(said)
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
