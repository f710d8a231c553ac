"""The URLs of OAuth clients: their ids, their redirect URIs, and the allow-list of clients. No I/O.

Nothing is normalised: only one spelling of each URL is accepted, and URLs are compared as strings.

- [client-id] The id of a client with a metadata document is an https URL (draft-ietf-oauth-client-id-metadata-document
  section 3): a DNS name in lower case, a path that is more than `/`, no user, no fragment, no empty or dot segment, and
  nothing that is percent-encoded, since servers decode in different ways. In tests, `private` allows http on loopback,
  and addresses as hosts.
- [given-id] The id of a registered client is `accredit-client:` and 32 hex digits.
- [redirect] A redirect URI has no fragment, no user, no wildcard. It is https; or http on loopback; or it has the
  scheme of a program on the person's machine. Such a scheme is a domain name in reverse order (RFC 8252 sections 7.1
  and 8.4), or one of a known program (`PROGRAMS`): all others may be those of the browser or of the system.
- [same-redirect] A request's redirect URI is exactly one that the client has named. On loopback any port is accepted
  (RFC 8252 section 7.3).
- [pattern] An entry of the allow-list is a client id, or the beginning of one followed by `*`. Scheme and host are
  literal.

Not checked here: whether a host has a public address (`net/fetch`).
"""

import re
from collections.abc import Iterable

from accredit.base.addresses import is_address, is_loopback_host

MAX_URI_CHARS = 2_048
"""The most characters of a client's URL. Browsers and proxies carry some 2,000 everywhere."""
GIVEN_ID = "accredit-client:"
"""How the ids of registered clients begin."""

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^\s/?#@\\:\[\]]+|\[[0-9a-f:.]+\])(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?"
)
_NAME = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""A DNS name of at least two labels, in lower case, without a final dot."""
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()+,;=:@-]+)+/?")
_QUERY = re.compile(r"\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*")
_GIVEN = re.compile(GIVEN_ID + "[0-9a-f]{32}")
_REDIRECT = re.compile(r"[!$&-;=?-Z\[\]_a-z~%]+")
"""The characters of RFC 3986, without `#`."""
_LOOPBACK = re.compile(r"(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::[1-9][0-9]{0,4})?((?:[/?].*)?)")
PROGRAMS = "claude|cursor|goose|kiro|lmstudio|trae|vscode|vscode-insiders|vscodium|warp|windsurf|zed"
"""The schemes of known programs that speak MCP: they have no dot. The desk shows the person who is asked the scheme."""
_PRIVATE = re.compile(rf"(?:[a-z]{{2,63}}(?:\.[a-z0-9-]{{1,63}})+|{PROGRAMS}):/?/?(.+)")
"""A private-use scheme. A first label with a dash is no top-level domain: macOS handles `x-apple.systempreferences`."""


def is_client_id(text: str, *, private: bool = False) -> bool:
    """Return whether a text has the form of a client's id: a URL ([client-id]), or an id from registration
    ([given-id])."""
    return is_given_id(text) or is_document_url(text, private=private)


def is_given_id(text: str) -> bool:
    """Return whether a text has the form of an id from registration ([given-id])."""
    return _GIVEN.fullmatch(text) is not None


def is_document_url(text: str, *, private: bool = False) -> bool:
    """Return whether a text is the URL of a client's metadata document ([client-id])."""
    match = _URL.fullmatch(text) if len(text) <= MAX_URI_CHARS else None
    if match is None or int(match["port"] or 1) > 65_535:
        return False
    host, path = match["host"], match["path"] or "/"
    if not (_NAME.fullmatch(host) or (private and (is_address(host) or host == "localhost"))):
        return False
    if match["scheme"] == "http" and not (private and is_loopback_host(host)):
        return False
    if not _PATH.fullmatch(path) or not {".", ".."}.isdisjoint(path.split("/")):
        return False
    return match["query"] is None or _QUERY.fullmatch(match["query"]) is not None


def is_pattern(text: str, *, private: bool = False) -> bool:
    """Return whether a text can be an entry of the allow-list ([pattern])."""
    if not text.endswith("*"):
        return is_client_id(text, private=private)
    # What is put in the star's place shows what it may stand for: a part of the path, never of the host.
    prefix = text[:-1]
    return "*" not in prefix and "?" not in prefix and is_document_url(prefix + "x", private=private)


def is_allowed(client_id: str, patterns: Iterable[str]) -> bool:
    """Return whether an id is on the allow-list ([pattern]). `is_client_id` must have accepted it."""
    return any(
        client_id.startswith(each[:-1]) and client_id != each[:-1] if each.endswith("*") else client_id == each
        for each in patterns
    )


def is_redirect_uri(text: str) -> bool:
    """Return whether a text is a valid redirect URI ([redirect])."""
    if len(text) > MAX_URI_CHARS or not _REDIRECT.fullmatch(text) or "*" in text.partition("?")[0]:
        return False
    if _LOOPBACK.fullmatch(text):
        return _has_good_port(text)
    if text.startswith("https://"):
        host = host_of(text)
        return (_NAME.fullmatch(host) is not None or is_loopback_host(host)) and _has_good_port(text)
    match = _PRIVATE.fullmatch(text)
    return match is not None and "@" not in match[1].partition("/")[0]


def is_named_redirect(asked: str, named: Iterable[str]) -> bool:
    """Return whether the redirect URI of a request is one of those that the client named ([same-redirect])."""
    wanted = _without_port(asked)
    return is_redirect_uri(asked) and any(wanted == _without_port(each) for each in named)


def redirect_host(redirect_uri: str) -> str:
    """Return the destination of the answer, as a text for a person: a host, with its port if it has one; or the scheme
    of a program on the person's machine, such as `cursor:`."""
    match = _URL.fullmatch(redirect_uri)
    return redirect_uri.partition(":")[0] + ":" if match is None else _authority(match)


def is_any_programs(redirect_uri: str) -> bool:
    """Return whether any program on the person's computer could get the answer: for loopback, or a program's scheme."""
    return not redirect_uri.startswith("https://") or is_loopback_host(host_of(redirect_uri))


def form_action(redirect_uri: str) -> str:
    """Return the source expression (CSP 3 section 2.3.1) for the origin, or the scheme, of a redirect URI.

    CSP has no form for an IPv6 address. For such a host return `http:`, which allows every http URL.
    """
    match = _URL.fullmatch(redirect_uri)
    if match is None or "[" in match["host"]:
        return redirect_uri.partition(":")[0] + ":"
    return f"{match['scheme']}://{_authority(match)}"


def host_of(uri: str) -> str:
    """Return the host of a URL; "" for any other text, such as an id from registration, which does not identify its
    owner."""
    match = _URL.fullmatch(uri)
    return match["host"] if match else ""


def _authority(match: re.Match[str]) -> str:
    return match["host"] + (f":{match['port']}" if match["port"] else "")


def _without_port(uri: str) -> str:
    match = _LOOPBACK.fullmatch(uri)
    return match[1] + match[2] if match else uri


def _has_good_port(uri: str) -> bool:
    match = _URL.fullmatch(uri)
    return match is not None and int(match["port"] or 1) <= 65_535
