"""Ways to write a path that a careless reader takes for `/admin/keys`. No I/O."""

import itertools
import re
from urllib.parse import unquote

_PIECES = [
    "/",
    "//",
    "/./",
    "/../",
    "/.",
    "/..",
    "/%2e/",
    "/%2E%2e/",
    "/%2f",
    "/%2F",
    "/%5c",
    "\\",
    ";/",
    ";x=1/",
    "/;",
    "%00/",
]
PIECES = [
    *_PIECES,
    "%2500/",
    "/%252e%252e/",
    "/%c0%ae%c0%ae/",
    "/..;/",
    "/%3b/",
    "/%20/",
    "?/",
    "#/",
    "%3f/",
    "%23/",
    "/%EF%BC%8F",
    ":/",
    "/%09/",
]
_ENDS = [
    "admin/keys",
    "Admin/Keys",
    "ADMIN/keys",
    "admin//keys",
    "admin/keys/",
    "admin/./keys",
    "admin%2fkeys",
    "%61dmin/keys",
]
ENDS = [
    *_ENDS,
    "admin/keys;x",
    "admin/keys%20",
    "admin/keys.",
    "admin/%6beys",
    "admin/keys?x",
    "admin/keys#x",
    "admin\\keys",
]
_PRODUCT = [begin + piece + end for begin in ("", "/messages") for piece, end in itertools.product(PIECES, ENDS)]
SPELLINGS = [each for each in _PRODUCT if each.startswith("/")] + [
    "http://127.0.0.1/admin/keys",
    "http://x/messages/../admin/keys",
]


def lenient(target: str) -> list[str]:
    """The segments that a careless API could make of a target: decoded as often as it takes, dots resolved, and case,
    parameters and slashes of both kinds ignored."""
    path = re.sub(r"^https?://[^/]*", "", target, flags=re.IGNORECASE).partition("?")[0].partition("#")[0]
    for _ in range(4):
        path = unquote(path, "latin-1")
    path = path.lower().replace("\\", "/").replace("\0", "")
    found: list[str] = []
    for segment in (each.partition(";")[0].strip(" .") if each.strip(" .;") else each for each in path.split("/")):
        if segment.strip(" ") == "..":
            found = found[:-1]
        elif segment.strip(" ") not in ("", "."):
            found.append(segment)
    return found
