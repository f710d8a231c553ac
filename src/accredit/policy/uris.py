"""Finds the ways in which a server could read a resource's URI, so that no spelling gets around a prefix of the
catalog. No I/O.

Servers normalise URIs in different ways. A reading is one such normal form, made for comparison only:

- [invalid] A URI has no reading at all if it has control characters, invisible characters, or blanks at its ends
  (parsers drop them); if it is too long to be examined; or if it has long runs of combining marks.
- [percent-decoding] It is percent-decoded until nothing is left to decode. It has no reading if that takes too many
  rounds or the result is not UTF-8.
- [normalization] Case, compatibility forms and backslashes are folded; dot segments and empty segments are resolved.
- [scheme] `file:` and the web's schemes are read with any number of slashes, and a text without a scheme is read as a
  file. From a web host, the user, the default port and a trailing dot are dropped.
- [host] A host has two readings: as a host, and as the first segment of a path. A file's host may also be ignored.

Not covered: servers that ignore the scheme, follow links, or know further names for a file.
"""

import posixpath
import re
import unicodedata
from urllib.parse import unquote

from accredit.limits import MAX_URI_LENGTH

MAX_URI_DECODINGS = 4
"""The most times over that a resource's URI may be percent-encoded. Nobody names a resource with more."""
MAX_MARKS = 30
"""The most consecutive combining marks in a resource's URI: as many as Unicode's stream-safe format allows (UAX #15,
section 13)."""


_WEB = frozenset({"http", "https", "ws", "wss", "ftp"})
_NO_HOST = re.compile(r"^.*@|\.?(?::(?:80|443|21)?)?$")


def readings(uri: str) -> tuple[str, ...]:
    """Return every reading of a URI, the plainest first; none if its meaning is uncertain."""
    decoded = _decode(uri) if len(uri) <= MAX_URI_LENGTH else None
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
    forms = [host + _resolve(path)]
    if host:
        forms.append(_resolve(f"/{host}{path}")[1:])
    if host and scheme == "file":
        forms += [_resolve(path), _resolve(f"/{host}{path}")]
    return tuple(f"{scheme}://{each}" for each in forms)


def _marks_are_few(text: str) -> bool:
    """Return whether no run of combining marks exceeds `MAX_MARKS`. To normalise a run takes quadratic time."""
    run = 0
    for char in text:
        run = run + 1 if unicodedata.combining(char) else 0
        if run > MAX_MARKS:
            return False
    return True


def _decode(uri: str) -> str | None:
    for _ in range(MAX_URI_DECODINGS):
        decoded = unquote(uri)
        if decoded == uri:
            return uri
        uri = decoded
    return None


def _split(rest: str) -> tuple[str, str]:
    """Return the host and the path in the part of a URI that follows the scheme."""
    if not rest.startswith("//"):
        return "", rest
    host, slash, path = rest[2:].partition("/")
    return host, slash + path


def _resolve(path: str) -> str:
    if not path.startswith("/"):
        return path
    resolved = posixpath.normpath("/" + path.lstrip("/"))
    return resolved + "/" if path.endswith("/") and resolved != "/" else resolved
