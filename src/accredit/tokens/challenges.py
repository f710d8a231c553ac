"""Tells clients about the required tokens: the `WWW-Authenticate` header and the resource's metadata. No I/O.

Sources: RFC 6750 section 3; RFC 9728 sections 2, 3 and 5.1; 2025-11-25 and 2026-07-28, basic/authorization.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from accredit.errors import InsufficientScope, MissingToken, TokenError
from accredit.tokens.verify import Issuer

_WELL_KNOWN = "/.well-known/oauth-protected-resource"


def challenge(error: TokenError, metadata_url: str) -> str:
    """Return the value of `WWW-Authenticate`. For a request without a token it names no error (RFC 6750 section
    3.1). `metadata_url` is "" if no metadata is served, as for HTTP APIs and agents: then it is left out."""
    parameters = {"resource_metadata": metadata_url} if metadata_url else {}
    if not isinstance(error, MissingToken):
        parameters |= {"error": error.error, "error_description": error.detail}
    if isinstance(error, InsufficientScope) and error.scopes:
        parameters["scope"] = " ".join(error.scopes)
    return f"Bearer {', '.join(f'{name}={_quote(value)}' for name, value in parameters.items())}".rstrip()


def metadata_url(resource: str) -> str:
    """Return the URL of a resource's metadata: the well-known path, followed by the path of the resource (RFC 9728
    section 3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{metadata_paths(parts.path)[-1]}"


def metadata_paths(path: str) -> tuple[str, ...]:
    """Return the paths at which an endpoint's metadata is served: the well-known path alone, and the same followed by
    the endpoint's path."""
    suffix = path.rstrip("/")
    return (_WELL_KNOWN, _WELL_KNOWN + suffix) if suffix else (_WELL_KNOWN,)


def metadata(resource: str, issuers: Iterable[Issuer], own: str = "") -> dict[str, object]:
    """Return the metadata document of a resource. `resource` is its URL as clients know it, `own` the URL of the
    gateway's authorization server, "" if none.

    Authorization servers: `own`, and the issuers whose names are URLs. If an issuer's tokens are made by hand, its name
    need not be a URL. Empty members are left out (RFC 9728 section 3.2).
    """
    known = [issuer for issuer in issuers if issuer.issuer.startswith(("https://", "http://"))]
    scopes = dict.fromkeys(scope for issuer in known for scope in issuer.required_scopes)
    document: dict[str, object] = {
        "resource": resource,
        "authorization_servers": [*([own] if own else []), *(issuer.issuer for issuer in known)],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(scopes),
    }
    return {name: value for name, value in document.items() if value}


def _quote(value: str) -> str:
    """Return a quoted-string (RFC 9110 section 5.6.4); characters that a header can't hold become question marks."""
    plain = "".join(char if " " <= char <= "~" else "?" for char in value)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
