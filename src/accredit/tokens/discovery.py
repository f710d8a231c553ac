"""Finds an issuer's key set by its metadata (OpenID Connect Discovery 1.0, RFC 8414). No I/O.

- [issuer] An issuer can be asked only if its name is a URL of a host: https, or http on loopback, without a user, query
  or fragment.
- [places] Its metadata is at one of two places, below its own origin.
- [same-issuer] The metadata must name exactly the issuer that was asked for. Otherwise one issuer could pass its keys
  off as another's.
- [key-set] Its `jwks_uri` is https. Plain http is accepted only on loopback, for an issuer that is on loopback itself.
"""

from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from accredit.base.addresses import is_loopback_host
from accredit.errors import KeySetError
from accredit.tokens.claims import NOT_JSON

MAX_METADATA_BYTES = 65_536
"""The most bytes of an issuer's metadata. Large providers have some 8 KiB."""


class _Metadata(Struct, frozen=True):
    issuer: str
    jwks_uri: str


_read = msgspec.json.Decoder(_Metadata).decode


def can_be_asked(issuer: str) -> bool:
    """Return whether an issuer's name is a URL under which metadata can be looked for ([issuer])."""
    parts = _parts(issuer)
    return parts is not None and not parts.query and "#" not in issuer and "?" not in issuer


def metadata_urls_of(issuer: str) -> tuple[str, str]:
    """Return where an issuer's metadata may be ([places]), for an issuer that can be asked."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return (
        f"{origin}{path}/.well-known/openid-configuration",
        f"{origin}/.well-known/oauth-authorization-server{path}",
    )


def read_key_set_url(body: bytes, issuer: str) -> str:
    """Return the URL of the key set that an issuer's metadata names ([same-issuer] and [key-set]). Raises
    `KeySetError`, which does not quote the metadata."""
    if len(body) > MAX_METADATA_BYTES:
        raise KeySetError(f"metadata has at most {MAX_METADATA_BYTES} bytes")
    try:
        metadata = _read(body)
    except NOT_JSON:
        raise KeySetError("no metadata with issuer and jwks_uri") from None
    if metadata.issuer != issuer:
        raise KeySetError("its metadata is that of another issuer")
    if not is_endpoint_of(metadata.jwks_uri, issuer):
        raise KeySetError("its jwks_uri is no https URL")
    return metadata.jwks_uri


def is_endpoint_of(url: str, issuer: str) -> bool:
    """Return whether a URL in an issuer's metadata may be asked ([key-set])."""
    found, asked = _parts(url), _parts(issuer)
    return (
        found is not None and asked is not None and (found.scheme == "https" or is_loopback_host(asked.hostname or ""))
    )


def is_elsewhere(url: str, issuer: str) -> bool:
    """Return whether a URL in an issuer's metadata is at another host. All names of this machine count as the same
    host."""
    there, here = urlsplit(url).hostname or "", urlsplit(issuer).hostname or ""
    return there != here and not (is_loopback_host(there) and is_loopback_host(here))


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL that may be asked: https, or http on loopback; None for any other text."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for one that is no number
    except ValueError:
        return None
    if not url.isascii() or not url.isprintable() or " " in url or not parts.hostname or "@" in parts.netloc:
        return None
    return parts if parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(parts.hostname)) else None
