"""The base of every object on the wire: strict reading, and writing in canonical form. No I/O.

A structure's annotations are its schema: its members, their types, the lengths of byte strings. Reading takes these
steps in order (Ratify section 12), and any input gives either an object or one `WireError`:

- [json] the text is strict JSON (`strict_json`);
- [members] its members are those of the structure, with their types and lengths: none is unknown, missing or null;
- [check] the conditions hold that annotations can't express (`WireObject.check`): byte lengths of text, members that
  must come together, nesting;
- [base64] every byte string was written in canonical base64.

Writing refuses what reading refuses: a text is read back before it is returned.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from accredit.canonical import base64_is_canonical
from accredit.errors import WireError
from accredit.limits import MAX_SAFE_INTEGER, MAX_STATEMENT_BYTES
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import Constraint, read_constraint
from accredit.ratify.strict_json import parse, quote

Integer = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]
Name = Annotated[str, Meta(min_length=1)]

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_PLACE = re.compile(r"\$?((?:\.[a-z0-9_]+|\[[0-9]+\])*)")


class WireObject(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of the protocol that travels as JSON. Byte strings are base64; absent optional members are left out."""

    max_bytes: ClassVar[int] = MAX_STATEMENT_BYTES
    """The maximum length of a text that is read."""

    @classmethod
    def decode(cls, data: bytes | str) -> Self:
        """Read the object's JSON text. Raises `WireError`."""
        data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        received = parse(data, cls.max_bytes)
        read = _convert(received, cls)
        read.check(cls.__name__, 1)
        if not base64_is_canonical(data):
            _compare(received, json.loads(read.text()), cls.__name__)
        return read

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> Self:
        """Read the object from what a JSON parser returned, as strictly as from its text. Raises `WireError`."""
        try:
            return cls.decode(json.dumps(value, ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise WireError(cls.__name__, "not a JSON object") from None

    def encode(self) -> bytes:
        """Return the object's canonical text. Raises `WireError` if `decode` would refuse it."""
        text = self.text()
        type(self).decode(text)
        return text

    def to_dict(self) -> dict[str, object]:
        """Return the object as a JSON parser would return it, with members in canonical order. Raises `WireError`."""
        return json.loads(self.encode())

    def text(self) -> bytes:
        """Return the canonical text of the object, valid or not."""
        return canonical(tree(self))

    def check(self, path: str, level: int) -> None:
        """Check what annotations can't express. `level` is this object's depth of nesting, from 1. Raises
        `WireError`."""


_AnyObject = TypeVar("_AnyObject", bound=WireObject)


def tree(value: object) -> object:
    """Return a structure as members ready for `canonical`. Constraints are in canonical form, and members that have
    their default value are left out."""
    if isinstance(value, Constraint):
        return value.members()
    if isinstance(value, tuple):
        return [tree(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Struct):
        fields = msgspec.structs.fields(value)
        members = {field.name: (getattr(value, field.name), field.default) for field in fields}
        return {name: tree(value) for name, (value, default) in members.items() if value != default}
    return value


def signed_text(signed: WireObject, *signatures: str) -> bytes:
    """Return the canonical text of an object without these members, which is what they sign."""
    return canonical({name: getattr(signed, name) for name in signed.__struct_fields__ if name not in signatures})


def _convert(value: object, kind: type[_AnyObject]) -> _AnyObject:
    try:
        return msgspec.convert(value, kind, dec_hook=_read_member)
    except RecursionError:
        raise WireError(kind.__name__, "nested too deep") from None
    except msgspec.ValidationError as error:
        reason, _, place = str(error).rpartition(" - at `")
        match = _PLACE.match(place) if reason else None
        raise WireError(kind.__name__ + (match[1] if match else ""), _public(reason or str(error))) from None


def _read_member(_kind: type, value: object) -> Constraint:
    return read_constraint(value)  # constraints are the only members that msgspec can't read by itself


def _public(reason: str) -> str:
    # The only input that msgspec quotes is an unknown member's name.
    unknown = _UNKNOWN.search(reason)
    return f"unknown field {quote(unknown[1])}" if unknown else reason


def _compare(received: object, understood: object, path: str) -> None:
    # A number may be written in several ways, a base64 text in only one.
    if isinstance(received, str):
        if received != understood:
            raise WireError(path, "non-canonical base64")
    elif isinstance(received, dict):
        members = cast("dict[str, object]", received)
        for name, value in members.items():
            _compare(value, cast("dict[str, object]", understood).get(name), f"{path}.{name}")
    elif isinstance(received, list):
        items = zip(cast("list[object]", received), cast("list[object]", understood), strict=True)
        for index, (value, other) in enumerate(items):
            _compare(value, other, f"{path}[{index}]")
