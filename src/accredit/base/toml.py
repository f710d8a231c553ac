"""Parses TOML that somebody else may have written. No I/O.

- All errors have one type: those for invalid TOML or UTF-8, for too deep nesting, and for numbers with more digits than
  Python reads.
- The parts of a dotted name are counted before parsing. Python's parser takes quadratic time for them, and hangs on a
  name of 400 KB.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

MAX_TOML_NAME_PARTS = 16
"""The most parts of a dotted name in TOML. The deepest name of a configuration has six. Parsing takes time in the
square of the number of parts."""


_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG = re.compile(rf"(?<![\\A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_TOML_NAME_PARTS}}}")
"""Matches a name with too many parts. It is refused even in a string, where it would do no harm."""


def read_toml(content: bytes | str) -> dict[str, Any]:
    """Parse a text. Raises `ValueError` with a one-line reason."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        if _LONG.search(text):
            raise ValueError(f"a dotted name of more than {MAX_TOML_NAME_PARTS} parts")
        return tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


def says(content: bytes, tables: Mapping[str, Any]) -> bool:
    """Return whether a file's content means exactly these tables."""
    try:
        return read_toml(content) == tables
    except ValueError:
        return False


def append_text(content: bytes, text: str) -> bytes:
    """Return a file's content with a text behind it, in the file's own line ends."""
    if content and not content.endswith(b"\n"):
        text = "\n" + text
    return content + (text.replace("\n", "\r\n") if b"\r\n" in content else text).encode()
