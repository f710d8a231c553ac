"""Describing an upstream's redirect for the log, without its URL or path, which may hold a key."""

from urllib.parse import urljoin, urlsplit

REDIRECTS = frozenset({301, 302, 303, 307, 308})


def target_of(url: str, location: bytes | None) -> str | None:
    """Return where a redirect of `url` leads, or None if its location is missing or not a usable URL."""
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


def words_for(status: int, url: str, location: bytes | None) -> str:
    """Return the words for an answer that redirects."""
    target = target_of(url, location)
    if target is None:
        return f"status {status}, a redirect that leads nowhere"
    if not same_origin(url, target):
        return f"status {status}, a redirect to another server, which is not followed"
    here, there = urlsplit(url).path, urlsplit(target).path
    if there == f"{here}/":
        where = "the same path with a slash at its end"
    elif here == f"{there}/":
        where = "the same path without the slash at its end"
    else:
        where = "another path of the server"
    return f"status {status}, a redirect to {where}: the gateway's upstream.url has to name it"


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
