"""Reading TOML that somebody else may have written. No I/O.

1. What is no TOML, or is no UTF-8, is one kind of error; so is what is nested too deep, or has a number of more digits
   than Python reads.
2. The parts of a dotted name are bounded before it is parsed: Python's parser takes the square of their number, and
   with a name of 400 KB it did not come back.
"""

import re
import tomllib
from typing import Any

from accredit.limits import MAX_TOML_NAME_PARTS

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG = re.compile(rf"(?<![\\A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_TOML_NAME_PARTS}}}")
"""A name of more parts. In a string such a name does not matter, and is refused all the same."""


def read_toml(content: bytes | str) -> dict[str, Any]:
    """Return what a text means. Raises `ValueError`, which says in a line what is wrong."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        if _LONG.search(text):
            raise ValueError(f"a dotted name of more than {MAX_TOML_NAME_PARTS} parts")
        return tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except RecursionError:
        raise ValueError("nested too deep") from None
