"""Builds the address of a server that is reached by a URL, the headers sent to it, and how the gateway gets tokens for
it (`[upstream.auth]`), from its keys. Reads secrets' files; fetches nothing.

For tokens, these are checked in this order; each failure is a `ConfigurationError`, which never quotes a secret:

- no `Authorization` header is configured beside it: the server would get only one of the two;
- if tokens are exchanged, each call must come with a token: it is the caller's token that is exchanged. The audience or
  resource of the new token is set: otherwise the new token might be accepted by this gateway, too;
- the secret is where the configuration says it is (`sources`).
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from accredit.config.load import Loaded
from accredit.config.sources import header_text, secret_text
from accredit.errors import ConfigurationError
from accredit.gateway.settings import HttpUpstream
from accredit.tokens.access import AccessGrant


def build_http_upstream(loaded: Loaded, environ: Mapping[str, str], urls: Sequence[str]) -> HttpUpstream:
    """Return the server at `urls`. Raises `ConfigurationError`."""
    upstream, place = loaded.config.upstream, loaded.place("upstream")
    _check_replicas(urls, place)
    for key in ("env", "cwd"):
        if getattr(upstream, key):
            raise ConfigurationError(f"{place}.{key} is for a command, not for a url", f"remove {place}.{key}")
    headers = {name: header_text(value, f"{place}.headers.{name}", environ) for name, value in upstream.headers.items()}
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


def build_auth(loaded: Loaded, environ: Mapping[str, str]) -> AccessGrant | None:
    """Return how the gateway gets tokens for the server, or None if it needs none. Raises `ConfigurationError`."""
    auth, place = loaded.config.upstream.auth, loaded.place("upstream")
    if auth is None:
        return None
    named = f"{place}.auth"
    if any(name.lower() == "authorization" for name in loaded.config.upstream.headers):
        raise ConfigurationError(
            f"{place}.headers holds Authorization, which {named} sets", "keep the one that the server expects"
        )
    if auth.type == "token_exchange":
        _check_exchange(loaded, named, for_somebody=auth.audience is not None or auth.resource is not None)
    return AccessGrant(
        type=auth.type,
        token_url=auth.token_url,
        client_id=auth.client_id,
        client_secret=secret_text(auth.client_secret, f"{named}.client_secret", environ),
        audience=auth.audience or "",
        resource=auth.resource or "",
        scope=auth.scope or "",
    )


def _check_exchange(loaded: Loaded, named: str, *, for_somebody: bool) -> None:
    """Check that every call has a token to exchange, and that the configuration says for whom the new token is."""
    if loaded.config.tokens.mode != "required":
        raise ConfigurationError(
            f'{named}.type is "token_exchange" and tokens.mode is "{loaded.config.tokens.mode}": a caller may come'
            " without a token that could be exchanged",
            f'set tokens.mode = "required", or {named}.type = "client_credentials"',
        )
    if not for_somebody:
        raise ConfigurationError(
            f'{named}.type is "token_exchange", and nothing says for whom the new token is',
            f"set {named}.audience or {named}.resource",
        )
