"""The gate of an HTTP API: decides whether a request may pass. Asks the ports; logs.

Each request goes through `admit`. It is refused at the first step whose condition it does not meet:

- [target] Its target has the only spelling that is accepted (`http_api.targets`), and can't be mistaken for another
  route (400). The gateway's own routes are matched before the API's (`policy.drill`).
- [override] No header, no key of the query, no field of a form and no member of a JSON body tells the API to use
  another method (400). Frameworks look in all of these places for `_method`, and for the names of the override headers.
  A form or JSON in which a more lenient reader could find such a name is refused, too (400). So is a body that can't be
  searched: it has a content coding (415), or more than `objects.MAX_MEMBERS` members (413). Where a proxy asks, no body
  is seen.
- Then come the steps of `call_gate`: its token, the decision, the record.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from accredit.base.steps import Steps
from accredit.errors import FrameError, JsonError
from accredit.gateway.admission.call_gate import CallGate
from accredit.gateway.call import Call
from accredit.gateway.forwarding import values_of
from accredit.gateway.headers import RawHeaders
from accredit.gateway.media_types import is_json_request
from accredit.gateway.turns import in_turns
from accredit.http_api.call import HttpCall, http_call
from accredit.http_api.facts import decoded_keys, fold_key
from accredit.http_api.routes import RouteMatch
from accredit.http_api.targets import Target, read_target, unclear
from accredit.http_api.wire import PROOF_HEADER
from accredit.jsonrpc.objects import pairs
from accredit.policy.drill import DRILL_PATHS

_log = logging.getLogger("accredit.gateway.gate")
_OVERRIDES = ("x-http-method-override", "x-http-method", "x-method-override")
_HEADERS = tuple(each.encode("ascii") for each in _OVERRIDES)
_PROOF = PROOF_HEADER.lower().encode("ascii")


def _any_spelling(word: str) -> str:
    """Return a pattern for a word of which any character may be encoded."""
    also = {"-": "|_|%5f"}  # as PHP and CGI do with a header's name
    return "".join(
        f"(?:{re.escape(char)}|%{ord(char):02x}|%{ord(char.upper()):02x}{also.get(char, '')})" for char in word
    )


# PHP reads a blank, a dot or a bracket at a name's beginning as the underscore, or as nothing. Runs of blanks are
# possessive: strangers send these bodies, and two runs that could share their blanks would take quadratic time.
_NAMES = "|".join([f"(?:_|%5f|\\.|%2e|\\[|%5b){_any_spelling('method')}", *map(_any_spelling, _OVERRIDES)])
_IN_FORM = re.compile(rf"(?:^|[&;])(?:\+|%20)*+(?:{_NAMES})(?:=|&|;|\[|%5b|$)".encode("ascii"), re.IGNORECASE)
_BOUNDARY = re.compile(rb"boundary=(\"?)([0-9A-Za-z'()+_./:=?-]{1,70})\1[ \t]*(?:;|$)", re.IGNORECASE)
"""A boundary (RFC 2046 section 5.1.1) that all readers find: PHP ends it at a comma."""
_LONGEST_PART_HEAD_BYTES = 4_096
"""The longest head of a part that is looked at: that of a file has its name, of some 255 bytes, twice."""
_PART_BYTES_AT_ONCE = 8_192
"""How many bytes of parts' heads are looked at in one step. That takes some 10 ms."""
_IGNORED_IN_PART = re.compile(rb"""[\x00-\x20\x7f\\"'<:]+""")
"""What readers may drop in the head of a part. They differ in where its lines end, and in which blanks count."""
_IN_PLAIN = "|".join(_OVERRIDES).replace("-", "[-_]")
# Names in several pieces, or encoded (`name*`, `name="=?..."`), are for mail: no form needs them. Rack takes a name
# from `Content-ID`, too. The name of a file is looked at like that of its field, as `file name=` is both.
_IN_PART = re.compile(
    rf"(?<!file)name(?:\*|==\?)|(?:name=|content-id)(?:[_.[]method|{_IN_PLAIN})".encode("ascii"),
)
_STRUCTURED = re.compile(rb"[/+]json|form-(?:urlencoded|data)|multipart", re.IGNORECASE)
_JSON = re.compile(rb"[/+]json", re.IGNORECASE)
_CHARSET = re.compile(rb"charset[^=;]*=[\s\"']*([^\s\"';,]*)", re.IGNORECASE)
_LIKE_ASCII = frozenset((b"utf-8", b"utf8", b"ascii", b"us-ascii", b"iso-8859-1", b"windows-1252"))
"""Charsets in which the names that are looked for have the bytes that they have in ASCII."""
_BLANKS = re.compile(rb"(?:0|20)?(?:\+|%20)*+")  # also from within an encoded one
_SEARCHED_BYTES = 131_072
"""How many bytes of a form are searched in one step. The longest search of so many takes some 20 ms."""
_LONGEST_NAME_BYTES = 128
"""The bytes of the longest name in `_IN_FORM`, with all of its characters encoded, and of what stands around it."""
_MAY_NAME = re.compile(rb"method|\\[^\"\\/bfnrt]", re.IGNORECASE)


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
        return values_of(self.fields, name)


class ApiGate(CallGate):
    """The gate of one API."""

    async def admit(self, asked: ApiRequest, call: Call) -> HttpCall:
        """Take a request through all steps, and store what they find in its call. Raises the error that refuses it."""
        began, match = perf_counter(), None
        error: BaseException | None = None
        try:
            target = read_target(asked.target)
            match = _match_drill(asked) or self._api.routes.find(asked.method, target)
            await in_turns(_check_override(asked, target))
            return await self._admit(asked, call, target, match)
        except BaseException as found:
            error = found
            raise
        finally:
            self._measure(asked.method, match.route if match is not None else None, error, began)

    async def _admit(self, asked: ApiRequest, call: Call, target: Target, match: RouteMatch | None) -> HttpCall:
        entry = self.policy.catalog.find(asked.method, match.route) if match is not None else None
        json_body = asked.body is not None and _is_json(asked)
        guarded = http_call(
            "http" if self._api.proxy is None else "authorize",
            asked.method,
            target,
            match,
            entry,
            asked.values(_PROOF),
            asked.body or b"",
            json_body=json_body,
            maybe_form=bool(asked.body) and not json_body and _may_have_fields(asked),
            prefix=asked.prefix,
        )
        await self._admit_call(guarded, call, asked.credentials, targets=(guarded.target,))
        return guarded


def _match_drill(asked: ApiRequest) -> RouteMatch | None:
    route = DRILL_PATHS.get(asked.target) if asked.method == "POST" else None
    return RouteMatch(route, {}) if route is not None else None


def _is_json(asked: ApiRequest) -> bool:
    """Return whether a request declares its body as JSON in UTF-8, without a content coding. The header must not be
    repeated."""
    types = asked.values(b"content-type")
    return len(types) == 1 and is_json_request(types[0]) and not asked.values(b"content-encoding")


def _may_have_fields(asked: ApiRequest) -> bool:
    """Return whether a framework may find fields in a body: its content type is a form's or JSON's, or is missing."""
    declared = b"".join(asked.values(b"content-type"))
    return not declared or _STRUCTURED.search(declared) is not None


def _check_override(asked: ApiRequest, target: Target) -> Steps[None]:
    """Refuse a request that asks for another method ([override]), in steps. Raises `RequestError`."""
    _check_query(target)
    if any(asked.values(name) for name in _HEADERS):
        raise unclear("a header names another method")
    if len(asked.values(b"content-type")) > 1 or len(asked.values(b"content-encoding")) > 1:
        raise unclear("two headers say how its body is read")
    body = asked.body
    if not body:
        return
    if any(value.lower() != b"identity" for value in asked.values(b"content-encoding")):
        raise unclear("its body is coded, so it may name another method", status=415)
    declared = b"".join(asked.values(b"content-type"))
    if _STRUCTURED.search(declared) and not {each.lower() for each in _CHARSET.findall(declared)} <= _LIKE_ASCII:
        raise unclear("its body is in another charset, so it may name another method")
    if any(_is_override(fold_key(name)) for name in _members(body, declared)):
        raise unclear("the body names another method")
    if _is_json(asked):
        return
    if len(body) > _SEARCHED_BYTES:
        yield
    if (yield from _names_method(body)) or (yield from _names_method_in_part(body, declared)):
        raise unclear("a form names another method")


def _check_query(target: Target) -> None:
    keys: Sequence[tuple[str, str]] | None = decoded_keys(target.query)
    named = keys is None or any(_is_override(folded) for _, folded in keys)
    if named or _IN_FORM.search(target.query.encode("latin-1")):
        raise unclear("its query can't be read, or names another method")


def _names_method(form: bytes) -> Steps[bool]:
    """Return whether a name in a form is one of `_IN_FORM`, in steps. No step ends within the blanks before a name. A
    name that begins near the end of a step is searched for in the next step."""
    start = 0
    while True:
        blanks = _BLANKS.match(form, start + _SEARCHED_BYTES)
        after = blanks.end() if blanks is not None else len(form)
        end = after + _LONGEST_NAME_BYTES
        found = _IN_FORM.search(form, start, end)
        if found is not None and (found.end() < end or end >= len(form)):
            return True
        if end >= len(form):
            return False
        start = after
        yield


def _names_method_in_part(body: bytes, declared: bytes) -> Steps[bool]:
    """Return whether the headers of a part in a multipart form contain such a name (`_IN_PART`), or are too long to be
    searched. They are all that stands between a delimiter and the next empty line. Raises `RequestError` for a boundary
    that readers may read in two ways."""
    if b"multipart" not in declared.lower():
        return False
    boundary = _BOUNDARY.search(declared)
    if boundary is None or declared.lower().count(b"boundary") > 1:
        raise unclear("the boundary of its parts can be read in two ways")
    delimiter, end, seen = b"--" + boundary[2], 0, 0
    while (begin := body.find(delimiter, end)) >= 0:
        begin += len(delimiter)
        longest = begin + _LONGEST_PART_HEAD_BYTES
        end = body.find(b"\r\n\r\n", begin, longest)
        if end < 0 and len(body) > longest:
            return True
        end = end if end >= 0 else len(body)
        if _IN_PART.search(_IGNORED_IN_PART.sub(b"", unquote_to_bytes(body[begin:end])).lower()):
            return True
        seen += end - begin + len(delimiter)
        if seen > _PART_BYTES_AT_ONCE:
            seen = 0
            yield
    return False


def _members(body: bytes, declared: bytes) -> Iterable[str]:
    """Return the names of a JSON body's members, or none if no name of another method can be in it. This is done
    whatever the declared type, since frameworks differ in which types they read as JSON. Raises `RequestError` for a
    body that is declared as JSON, but that only more lenient readers can read: with NaN, comments or a byte order mark,
    or in UTF-16."""
    is_json = _JSON.search(declared.partition(b";")[0]) is not None  # not by a parameter: such readers are strict
    if is_json and b"\0" in body:
        raise unclear("its body is no JSON in UTF-8, so it may name another method")
    if _MAY_NAME.search(body) is None:
        return ()
    try:
        return [name for name, _ in pairs(body)]
    except FrameError as error:
        if error.bound:
            raise unclear("its body has too many members to be looked at", status=413) from None
        if is_json and isinstance(error, JsonError):
            raise unclear("its body is JSON that not all can read, so it may name another method") from None
        return ()


def _is_override(folded: str) -> bool:
    return (folded.lstrip("_[ ") == "method" and folded != "method") or folded.replace("_", "-") in _OVERRIDES
