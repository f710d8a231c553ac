"""What a resource's URI could mean to a server, so that no spelling of it gets by a prefix of the catalog. No I/O.

A server may read a URI more freely than it was written. A reading is made for comparison only:

1. one with control characters, invisible ones or blanks at its ends, which parsers drop, has none at all, nor has one
   that is too long to be looked at closely, or piles up marks;
2. it is percent-decoded until nothing is left to decode, and has no reading where that is no UTF-8;
3. case, compatibility forms and backslashes are folded away, dot segments and empty ones resolved;
4. `file:` and the schemes of the web are read with any number of slashes, and a text without a scheme as a file; of a
   host on the web, user, default port and a dot at the end do not count;
5. a host has two readings: as a host, and as the first part of a path; a file's host can also be passed over.

Not covered: servers that ignore the scheme, follow links, or know further names for a file.
"""

import posixpath
import re
import unicodedata
from urllib.parse import unquote

from accredit.limits import MAX_MARKS, MAX_URI_DECODINGS, MAX_URI_LENGTH

_WEB = frozenset({"http", "https", "ws", "wss", "ftp"})
_NO_HOST = re.compile(r"^.*@|\.?(?::(?:80|443|21)?)?$")


def readings(uri: str) -> tuple[str, ...]:
    """Every reading of a URI, the plainest first; none where nobody can say what it means."""
    decoded = _decoded(uri) if len(uri) <= MAX_URI_LENGTH else None
    if decoded is None or decoded != decoded.strip() or "\ufffd" in decoded:
        return ()
    if not _marks_are_few(decoded) or any(unicodedata.category(char).startswith("C") for char in decoded):
        return ()
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", decoded).casefold()).replace("\\", "/")
    scheme, colon, rest = text.partition(":")
    if not colon:
        scheme, rest = "file", text
    if scheme in _WEB:
        rest = "//" + rest.lstrip("/")
    elif scheme == "file" and not rest.startswith("//"):
        rest = "///" + rest
    host, path = _split(rest)
    if scheme in _WEB:
        host = _NO_HOST.sub("", host)
    found = [host + _resolved(path)]
    if host:
        found.append(_resolved(f"/{host}{path}")[1:])
    if host and scheme == "file":
        found += [_resolved(path), _resolved(f"/{host}{path}")]
    return tuple(f"{scheme}://{each}" for each in found)


def _marks_are_few(text: str) -> bool:
    """Whether no more than `MAX_MARKS` marks stand together: to put them in order takes the square of the time."""
    run = 0
    for char in text:
        run = run + 1 if unicodedata.combining(char) else 0
        if run > MAX_MARKS:
            return False
    return True


def _decoded(uri: str) -> str | None:
    for _ in range(MAX_URI_DECODINGS):
        decoded = unquote(uri)
        if decoded == uri:
            return uri
        uri = decoded
    return None


def _split(rest: str) -> tuple[str, str]:
    """Host and path of what follows a scheme."""
    if not rest.startswith("//"):
        return "", rest
    host, slash, path = rest[2:].partition("/")
    return host, slash + path


def _resolved(path: str) -> str:
    if not path.startswith("/"):
        return path
    resolved = posixpath.normpath("/" + path.lstrip("/"))
    return resolved + "/" if path.endswith("/") and resolved != "/" else resolved
