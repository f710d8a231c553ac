"""Reads values of decoded JSON whose types somebody else has chosen. No I/O."""

from typing import Any, TypeVar, cast

import msgspec

_T = TypeVar("_T")


def decodable(kind: type[_T]) -> type[_T]:
    """Decorate a type that msgspec decodes or converts to. What it needs for that is made here, while one thread
    imports the type. At its first use instead, a second thread that uses it crashes the process (msgspec 0.22)."""
    msgspec.json.Decoder(kind)
    return kind


def members_of(value: object) -> dict[str, Any]:
    """Return an object's members; none for a value of another type."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items_of(value: object) -> list[Any]:
    """Return a list's items; none for a value of another type."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a value if it is a string, else ""."""
    return value if isinstance(value, str) else ""
