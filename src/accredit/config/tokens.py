"""Builds the list of issuers whose tokens are accepted, from `[tokens]`. Reads key files and secrets; fetches nothing.

Checked in this order; each failure is a `ConfigurationError` that names the setting at fault:

- if `tokens.mode` is not set, then issuers, `bind_agent` and tools' `token_scope` are not set either: otherwise people
  would believe that the gateway requires tokens;
- there is at least one issuer, and none twice. Each has its keys from one source. If none is configured, the issuer
  must be a URL, for its metadata, or be asked about each token (introspection). Only one issuer may use introspection;
- `bind_agent` needs a token and a proof with each call;
- the bootstrap token needs a single process on a single machine, a configured issuer, and a private key whose public
  half is among that issuer's keys.

Not checked: whether an issuer can be reached, and whether a tool of that name exists.
"""

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from accredit.base.clock import unix_seconds
from accredit.config.load import Loaded
from accredit.config.schema import Bootstrap, TokenIssuer
from accredit.config.sources import secret_text
from accredit.config.store import store_of
from accredit.errors import ConfigurationError, TokenError, named_key
from accredit.gateway.settings import BootstrapSettings, TokenSettings
from accredit.keys import load_key_set, load_token_key
from accredit.tokens.discovery import can_be_asked
from accredit.tokens.introspection import Introspection
from accredit.tokens.issued import SessionGrant, issue_session_token
from accredit.tokens.key_sets import KeySet
from accredit.tokens.verify import Issuer, TokenVerifier, policy_digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_SECRET_BYTES = 32


def build_tokens(loaded: Loaded, environ: Mapping[str, str], *, workers: int = 1) -> TokenSettings | None:
    """Return the issuers whose tokens are accepted, or None if tokens are off. Raises `ConfigurationError`."""
    tokens, tools = loaded.config.tokens, loaded.config.tools.by_name
    scopes = {name: tool.token_scope for name, tool in tools.items() if tool.token_scope}
    if tokens.mode == "off":
        _check_meant(loaded, scopes)
        return None
    if not tokens.issuers:
        raise ConfigurationError(
            f'tokens.mode is "{tokens.mode}" and there is no issuer: nobody\'s tokens would count',
            "name whose tokens count: [[tokens.issuers]] issuer = ..., audience = ..., and its keys",
        )
    if tokens.bind_agent and (tokens.mode != "required" or loaded.config.proofs.mode == "off"):
        raise ConfigurationError(
            "tokens.bind_agent ties each call's token to its proof, and a call may come without one of them",
            'set tokens.mode and proofs.mode to "required", or remove tokens.bind_agent',
        )
    issuers = tuple(_issuer(index, issuer, loaded, environ) for index, issuer in enumerate(tokens.issuers))
    if loaded.api is not None:
        issuers = tuple(_of_api(each, loaded) for each in issuers)
    TokenVerifier(issuers)  # raises if one is named twice, or two are asked about tokens
    digest = policy_digest(loaded.content)
    return TokenSettings(
        issuers=issuers,
        resource=resource_of(loaded, issuers),
        required=tokens.mode == "required",
        sources=tuple(tokens.sources),
        tool_scopes=scopes,
        policy_digest=digest,
        bootstrap=_bootstrap(loaded, tokens.bootstrap, issuers, digest, workers) if tokens.bootstrap else None,
    )


def build_key_sources(loaded: Loaded) -> dict[str, KeySet | str | None]:
    """Return each issuer's keys, or the URL of its key set, or None if the URL is to come from its metadata. Raises
    `ConfigurationError`."""
    return {each.issuer: _keys(index, each) for index, each in enumerate(loaded.config.tokens.issuers)}


def _check_meant(loaded: Loaded, scopes: dict[str, str]) -> None:
    """Refuse token settings where `tokens.mode` is not set."""
    tokens = loaded.config.tokens
    if ("tokens", "mode") in loaded.origins:
        return
    depends = "tokens.issuers" if tokens.issuers else "tokens.bind_agent" if tokens.bind_agent else ""
    depends = depends or (f"{loaded.place('tools')}.{next(iter(scopes))}.token_scope" if scopes else "")
    if depends:
        raise ConfigurationError(
            f"{depends} is set and tokens.mode is not: no token would be asked for",
            'set tokens.mode to "required" or "optional", or to "off" if that is meant',
        )


def _issuer(index: int, table: TokenIssuer, loaded: Loaded, environ: Mapping[str, str]) -> Issuer:
    named = [name for name in ("jwks_url", "jwks_file", "public_key_file") if getattr(table, name) is not None]
    if len(named) > 1 or not (named or table.introspection_url or can_be_asked(table.issuer)):
        what = f"{named[0]} and {named[1]} exclude each other" if named else "no keys are named"
        remedy = "name its keys with one of jwks_url, jwks_file and public_key_file"
        if not named:
            remedy += "; only those of an issuer that is an https URL are found by it"
        raise ConfigurationError(f"tokens.issuers[{index}]: {what}", remedy)
    own = f"{table.audience.rstrip('/')}/{loaded.server}" if loaded.server else ""
    asked = _introspection(index, table, loaded, environ)
    return Issuer(table.issuer, table.audience, tuple(table.algorithms), tuple(table.required_scopes), own, asked)


def _introspection(index: int, table: TokenIssuer, loaded: Loaded, environ: Mapping[str, str]) -> Introspection | None:
    """Return how to ask the issuer about tokens (introspection), or None. Reads the secret."""
    place = f"tokens.issuers[{index}].introspection"
    named = {"url": table.introspection_url, "client_id": table.introspection_client_id}
    url, client_id, secret = *named.values(), table.introspection_client_secret
    missing = [f"{place}_{name}" for name, value in {**named, "client_secret": secret}.items() if value is None]
    if len(missing) == len(named) + 1:
        return None
    if url is None or client_id is None or secret is None:
        raise ConfigurationError(
            f"who asks about tokens says who asks, and there is no {' and no '.join(missing)}",
            "set introspection_url, introspection_client_id and introspection_client_secret together, or none of them",
        )
    return Introspection(url, client_id, secret_text(secret, f"{place}_client_secret", environ))


def _of_api(issuer: Issuer, loaded: Loaded) -> Issuer:
    """Return the issuer with the audience of an HTTP API, which is its endpoint's URL. A token for MCP is not valid
    there."""
    parts = urlsplit(issuer.audience)
    url = f"{parts.scheme}://{parts.netloc}{loaded.config.gateway.path}" if parts.netloc else issuer.server_audience
    return structs.replace(issuer, audience=url, server_audience="")


def _keys(index: int, table: TokenIssuer) -> KeySet | str | None:
    if table.jwks_file is None and table.public_key_file is None:
        return table.jwks_url if table.jwks_url or can_be_asked(table.issuer) else KeySet((), b"")
    name = "jwks_file" if table.jwks_file is not None else "public_key_file"
    with named_key(f"tokens.issuers[{index}].{name}"):
        return load_key_set(Path(table.jwks_file or table.public_key_file or ""))


def resource_of(loaded: Loaded, issuers: tuple[Issuer, ...]) -> str:
    """Return the endpoint's URL: the first audience of its issuers that is a URL, else the URL that the gateway listens
    on."""
    audiences = [issuer.server_audience or issuer.audience for issuer in issuers]
    urls = [audience for audience in audiences if audience.startswith(("https://", "http://"))]
    gateway = loaded.config.gateway
    scheme = "https" if gateway.tls_cert_file is not None else "http"
    return urls[0] if urls else f"{scheme}://{gateway.host}:{gateway.port}{gateway.path}"


def _bootstrap(
    loaded: Loaded, table: Bootstrap, issuers: tuple[Issuer, ...], digest: str, workers: int
) -> BootstrapSettings:
    """Check and return the settings of the bootstrap token."""
    if workers > 1:
        raise ConfigurationError(
            f"tokens.bootstrap gives one token, and {workers} workers would give {workers}",
            "leave out --workers, or remove tokens.bootstrap",
        )
    if store_of(loaded).is_shared:
        raise ConfigurationError(
            "tokens.bootstrap gives one token, and store.url is for many gateways", "remove tokens.bootstrap"
        )
    key = load_token_key(Path(table.key_file))
    issuer = next((each for each in issuers if each.issuer == table.issuer), None)
    keys = build_key_sources(loaded).get(table.issuer)
    if issuer is None or not isinstance(keys, KeySet) or not signs_for(issuer, key, keys):
        raise ConfigurationError(
            f"tokens.bootstrap: its tokens would not be good here: {table.issuer} is no issuer with its key",
            f'add [[tokens.issuers]] issuer = "{table.issuer}", public_key_file = "{table.key_file}.pub"',
        )
    path = Path(table.secret_file)
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"tokens.bootstrap.secret_file: there is no folder {path.parent}", "make it, or name another file"
        )
    if os.path.realpath(path) in {os.path.realpath(each) for each in (table.key_file, loaded.file) if each is not None}:
        raise ConfigurationError(
            f"tokens.bootstrap.secret_file: the secret would be written over {path}, which is needed",
            "name a file of its own",
        )

    def used() -> None:
        with contextlib.suppress(OSError):
            path.unlink()

    return BootstrapSettings(
        secret=secrets.token_urlsafe(_SECRET_BYTES),
        file=path,
        key=key,
        issuer=issuer.issuer,
        audience=issuer.audience,
        ttl_seconds=table.ttl_seconds,
        policy_digest=digest,
        used=used,
    )


def signs_for(issuer: Issuer, key: "EllipticCurvePrivateKey", keys: KeySet) -> bool:
    """Return whether `keys` would verify a token that this key has signed in the issuer's name."""
    now, verifier = unix_seconds(), TokenVerifier([issuer])
    grant = SessionGrant(
        issuer=issuer.issuer,
        subject="-",
        audience=issuer.audience,
        issued_at=now,
        expires_at=now + 1,
        token_id="-",  # noqa: S106 - nobody gets it
    )
    try:
        verifier.verify(verifier.read(issue_session_token(key, grant)), keys, now)
    except TokenError:
        return False
    return True
