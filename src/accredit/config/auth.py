"""From `[upstream.auth]` to how the gateway gets tokens for the server. Reads the secret's file; fetches nothing.

In this order; each failure is a `ConfigurationError`, which quotes nothing of a secret:

1. no `Authorization` is configured beside it: the server would get one of the two;
2. tokens that are exchanged are the callers': each has to come with one. It is said for whom the new one is, or it
   might be as good here as the old one;
3. the secret is where it is said to be: in a variable, or in a file that is its owner's alone.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from accredit.base.text import one_line
from accredit.config.load import Loaded, folder_of
from accredit.config.values import SecretFrom, check_header_text
from accredit.errors import ConfigurationError
from accredit.keys import read_file
from accredit.limits import MAX_CLIENT_SECRET_BYTES
from accredit.tokens import AccessGrant


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
        client_secret=_secret(
            auth.client_secret, f"{named}.client_secret", folder_of(loaded, ("upstream", "auth")), environ
        ),
        audience=auth.audience or "",
        resource=auth.resource or "",
        scope=auth.scope or "",
    )


def _check_exchange(loaded: Loaded, named: str, *, for_somebody: bool) -> None:
    """Check rule 2."""
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


def _secret(source: SecretFrom, key: str, folder: Path, environ: Mapping[str, str]) -> str:
    """Apply rule 3."""
    if source.env:
        text, where = environ.get(source.env, ""), source.env
        if not text:
            raise ConfigurationError(
                one_line(f"{key} is to come from the environment, which has no {source.env}"),
                one_line(f"set {source.env} before the start"),
            )
    else:
        path = folder / source.file
        text, where = _of_file(path, key), str(path)
    try:
        check_header_text(text)
        if not text:
            raise ValueError("should not be empty")
    except ValueError as error:
        raise ConfigurationError(
            one_line(f"{key}: the value of {where} {error}"), one_line(f"correct {where}")
        ) from None
    return text


def _of_file(path: Path, key: str) -> str:
    try:
        content = read_file(path, MAX_CLIENT_SECRET_BYTES)
    except ConfigurationError as error:
        raise ConfigurationError(one_line(f"{key}: {error.what}"), one_line(error.remedy)) from None
    if content.open_to_others:
        raise ConfigurationError(
            one_line(f"{key}: others can read {path} (mode {content.mode:04o})"),
            one_line(f"chmod 600 {shlex.quote(str(path))}, and change the secret: it is known to whoever could"),
        )
    return content.data.decode("utf-8", "replace").rstrip("\r\n")
