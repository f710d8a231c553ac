"""Describes an upstream's redirect, for the log and the client's answer. The gateway follows none.

The configured URL and the redirect's target may both hold keys in path and query. So only common words (`_PLAIN`) of a
path are quoted. Any other segment is shown as `*`.
"""

import re
from urllib.parse import urljoin, urlsplit

from accredit.base.text import excerpt

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_PLAIN = re.compile(
    r"|v[0-9]{1,2}|api|app|auth|authorize|en|error|events?|home|http|https|index\.html|log-?in|maintenance|mcp|messages?"
    r"|oauth2?|open|public|rpc|servers?|session|sign-?in|sse|sso|stream|streamable|streamable-http|tools?|users?|www"
)


def target_of(url: str, location: bytes | None) -> str | None:
    """Return the absolute target of a redirect of `url`, or None if its location is missing or not a usable URL."""
    try:
        target = urljoin(url, (location or b"").decode("ascii"))
        parts = urlsplit(target)
        usable = bool(location) and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return target if usable and "@" not in parts.netloc else None


def same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port."""
    return _origin(one) == _origin(other)


def words_for(status: int, url: str, location: bytes | None, key: str = "upstream.url") -> str:
    """Return the description of a redirect. `key` is the configuration key of the server's URL."""
    target = target_of(url, location)
    if target is None:
        return f"status {status}, a redirect that leads nowhere"
    here, there = urlsplit(url), urlsplit(target)
    if same_origin(url, target):
        to = _mask_path(there.path)  # what to change comes first: the text may be cut
        return f"status {status} to {to} ({key} has to name it): a redirect to {_way(here.path, there.path)}"
    way = "another server"
    if here.hostname == there.hostname and here.scheme != there.scheme:
        way = f"the same host {'by https' if there.scheme == 'https' else 'without TLS'}"
    return f"status {status}, a redirect to {way}: {key} has to name it, if it is meant"


def _way(here: str, there: str) -> str:
    if there == f"{here}/":
        return "the same path with a slash at its end"
    if here == f"{there}/":
        return "the same path without the slash at its end"
    return "the same path" if here == there else "another path of the server"


def _mask_path(path: str) -> str:
    return excerpt("/".join(each if _PLAIN.fullmatch(each) else "*" for each in path.split("/")) or "/")


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
