"""Reads values of decoded JSON whose types somebody else has chosen. No I/O."""

from typing import Any, cast


def members_of(value: object) -> dict[str, Any]:
    """Return an object's members; none for a value of another type."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items_of(value: object) -> list[Any]:
    """Return a list's items; none for a value of another type."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a value if it is a string, else ""."""
    return value if isinstance(value, str) else ""
