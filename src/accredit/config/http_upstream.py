"""Builds the address of a server that is reached by a URL, and the headers sent to it, from its keys. Reads secrets'
files."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from accredit.config.auth import build_auth
from accredit.config.load import Loaded, folder_of
from accredit.config.sources import Source
from accredit.errors import ConfigurationError
from accredit.gateway.settings import HttpUpstream


def build_http_upstream(loaded: Loaded, environ: Mapping[str, str], urls: Sequence[str]) -> HttpUpstream:
    """Return the server at `urls`. Raises `ConfigurationError`."""
    upstream, place = loaded.config.upstream, loaded.place("upstream")
    _check_replicas(urls, place)
    for key in ("env", "cwd"):
        if getattr(upstream, key):
            raise ConfigurationError(f"{place}.{key} is for a command, not for a url", f"remove {place}.{key}")
    source = Source(environ, folder_of(loaded, ("upstream", "headers")))
    headers = {name: source.header(value, f"{place}.headers.{name}") for name, value in upstream.headers.items()}
    auth = build_auth(loaded, environ)
    return HttpUpstream(urls[0], headers, tuple(urls[1:]), upstream.max_in_flight, auth)


def _check_replicas(urls: Sequence[str], place: str) -> None:
    """Check that the replicas' URLs have the same path and query. Raises `ConfigurationError`."""
    parts = [urlsplit(url) for url in urls]
    if len({(each.path or "/", each.query) for each in parts}) > 1:
        what = f"{place}.urls: the replicas of a server have the same path"
        raise ConfigurationError(what, "make their URLs differ only in scheme, host and port")
    places = {(each.hostname, each.port or (443 if each.scheme == "https" else 80)) for each in parts}
    if len(places) < len(parts):
        raise ConfigurationError(f"{place}.urls names a replica twice", "name each once")
