"""The places of bearer tokens in a request, and how they are removed. No I/O.

There are three places:

- [header] the `Authorization: Bearer` header (RFC 6750 section 2.1); another scheme counts as absent;
- [argument] `params.arguments._token`, unless the tool's own `inputSchema` declares it: then it is the tool's;
- [meta] `params._meta.token`.

The first enabled place that is not empty decides, even if its content can't be a token. All places are emptied,
including later ones and those that are not enabled. Not checked here: whether a token is valid.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from accredit.errors import AmbiguousToken
from accredit.tokens.claims import NOT_JSON

Source = Literal["header", "argument", "meta"]
"""A place, as `[tokens] sources` names it."""

CREDENTIALS = frozenset({b"authorization", b"dpop"})
"""The header fields of a token, whatever its scheme, and of the proof that belongs to it (RFC 9449 section 4)."""
ARGUMENT = "_token"
META = "token"

_BEARER = re.compile(rb"(?i:bearer)(?:[ \t]+(.*))?", re.DOTALL)


class FoundTokens(Struct, frozen=True):
    """The content of each place of a request: None for nothing, "" for something that can't be a token. The object's
    `repr` hides it."""

    header: str | None = None
    argument: str | None = None
    meta: str | None = None

    def __repr__(self) -> str:
        return "<FoundTokens>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []

    def deciding(self, sources: Collection[Source], *, argument_is_the_tools: bool = False) -> str | None:
        """Return the token that decides, or None.

        `argument_is_the_tools` says that `_token` is the tool's own argument (`declares_token`). It matters only if the
        member `argument` is not None.
        """
        argument = None if argument_is_the_tools else self.argument
        values = {"header": self.header, "argument": argument, "meta": self.meta}
        return next((text for place, text in values.items() if place in sources and text is not None), None)


def find_tokens(headers: Iterable[tuple[bytes, bytes]], params: Mapping[str, Raw | Mapping[str, Raw]]) -> FoundTokens:
    """Return the tokens in a request. Members of its params may be passed as raw text, or as mappings of their own
    members. Raises `AmbiguousToken`.

    `headers` is () for a request that did not come over HTTP.
    """
    return FoundTokens(
        _in_header(headers), _in_object(params, "arguments", ARGUMENT), _in_object(params, "_meta", META)
    )


def without_tokens(params: Mapping[str, Raw], *, argument_is_the_tools: bool = False) -> Mapping[str, Raw]:
    """Return the params without tokens. All other text stays as it was.

    If there are no tokens, return the same object.
    """
    changed: dict[str, Raw] = {}
    for holder, name in (("arguments", ARGUMENT), ("_meta", META)):
        if holder == "arguments" and argument_is_the_tools:
            continue
        members = _holder(params.get(holder), name)
        if members is not None and name in members:
            kept = {other: value for other, value in members.items() if other != name}
            changed[holder] = Raw(msgspec.json.encode(kept))
    return {**params, **changed} if changed else params


def without_authorization(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the header fields without `CREDENTIALS`."""
    return [pair for pair in headers if pair[0].lower() not in CREDENTIALS]


def declares_token(input_schema: Raw | bytes | None) -> bool:
    """Return whether a tool's `inputSchema` has a property `_token` of the tool's own."""
    schema = _members(input_schema)
    properties = _members(schema.get("properties")) if schema is not None else None
    return properties is not None and ARGUMENT in properties


def _in_header(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if len(values) > 1:
        raise AmbiguousToken(f"{len(values)} Authorization headers", "more than one Authorization header")
    bearer = _BEARER.fullmatch(values[0].strip()) if values else None
    return (bearer[1] or b"").decode("latin-1") if bearer else None


def _in_object(params: Mapping[str, Raw | Mapping[str, Raw]], holder: str, name: str) -> str | None:
    object_members = _holder(params.get(holder), name)
    if object_members is None or name not in object_members:
        return None
    try:
        return msgspec.json.decode(object_members[name], type=str)
    except NOT_JSON:
        return ""


def _holder(value: Raw | Mapping[str, Raw] | None, name: str) -> Mapping[str, Raw] | None:
    """Return the members of an object if it could have a member of this name, else None."""
    if value is None or isinstance(value, Mapping):
        return value
    text = bytes(value)
    return _members(text) if name.encode("ascii") in text or b"\\" in text else None  # a name may contain escapes


def _members(text: Raw | bytes | None) -> dict[str, Raw] | None:
    """Return the members of an object, or None for anything else."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Raw])
    except NOT_JSON:
        return None
