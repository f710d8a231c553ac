"""The URLs of OAuth clients: their ids, where they want answers, and which of them are let in. No I/O.

Nothing is normalised: each URL is taken in one spelling, and compared as a string.

- [client-id] The id of a client with a metadata document is an https URL (draft-ietf-oauth-client-id-metadata-document
  section 3): a DNS name in lower case, a path that is more than `/`, no user, no fragment, no empty or dot segment, and
  nothing that is percent-encoded, since servers decode in different ways. In tests, `private` allows http on loopback,
  and addresses as hosts.
- [given-id] The id of a registered client is `accredit-client:` and 32 hex digits.
- [redirect] A redirect URI has no fragment, no user, no wildcard. It is https; or http on loopback; or of a scheme
  that a program on the person's machine has (RFC 8252 section 7.1), which is none of a browser's own.
- [same-redirect] The one of a request is one that the client named, as a string. On loopback any port is good
  (RFC 8252 section 7.3).
- [pattern] An entry of the allow-list is a client id, or one whose last character is `*`. Scheme and host are literal.

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
_PRIVATE_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{1,63}):(/?/?)(.+)")
_OF_BROWSERS = re.compile(
    r"https?|wss?|ftps?|file|filesystem|blob|data|javascript|vbscript|livescript|mocha|about|view-.*|resource|jar"
    r"|chrome.*|edge|brave|opera|vivaldi|.*-extension|devtools|mailto|tel|sms|intent|android-app|ms-.*|search-ms|ldaps?"
    r"|smb|nfs|ssh|telnet|gopher|urn|cid|mid"
)
"""Schemes that a browser, or a system at its word, acts on itself."""


def is_client_id(text: str, *, private: bool = False) -> bool:
    """Return whether a text is the id of a client: a URL ([client-id]), or one that was given out ([given-id])."""
    return is_given_id(text) or is_document_url(text, private=private)


def is_given_id(text: str) -> bool:
    """Return whether a text has the form of an id that registration gives out ([given-id])."""
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
    """Return whether an id is on the allow-list ([pattern]). `client_id` is one (`is_client_id`)."""
    return any(
        client_id.startswith(each[:-1]) and client_id != each[:-1] if each.endswith("*") else client_id == each
        for each in patterns
    )


def is_redirect_uri(text: str) -> bool:
    """Return whether a client may have its answers there ([redirect])."""
    if len(text) > MAX_URI_CHARS or not _REDIRECT.fullmatch(text) or "*" in text.partition("?")[0]:
        return False
    if _LOOPBACK.fullmatch(text):
        return _has_good_port(text)
    if text.startswith("https://"):
        host = host_of(text)
        return (_NAME.fullmatch(host) is not None or is_loopback_host(host)) and _has_good_port(text)
    match = _PRIVATE_SCHEME.fullmatch(text)
    return match is not None and not _OF_BROWSERS.fullmatch(match[1]) and "@" not in match[3].partition("/")[0]


def is_named_redirect(asked: str, named: Iterable[str]) -> bool:
    """Return whether the redirect URI of a request is one of those that the client named ([same-redirect])."""
    wanted = _without_port(asked)
    return is_redirect_uri(asked) and any(wanted == _without_port(each) for each in named)


def redirect_host(redirect_uri: str) -> str:
    """Return what a person is told of where the answer goes: a host, with its port if it has one; or a scheme, such as
    `cursor:`, that a program on that machine has."""
    match = _URL.fullmatch(redirect_uri)
    return redirect_uri.partition(":")[0] + ":" if match is None else _authority(match)


def is_any_programs(redirect_uri: str) -> bool:
    """Return whether any program on the person's computer could be what gets the answer: loopback, or a scheme."""
    return not redirect_uri.startswith("https://") or is_loopback_host(host_of(redirect_uri))


def form_action(redirect_uri: str) -> str:
    """Return the source expression (CSP 3 section 2.3.1) for the origin, or the scheme, of a redirect URI.

    It has no form for an IPv6 address: there, it is all that is `http:`.
    """
    match = _URL.fullmatch(redirect_uri)
    if match is None or "[" in match["host"]:
        return redirect_uri.partition(":")[0] + ":"
    return f"{match['scheme']}://{_authority(match)}"


def host_of(uri: str) -> str:
    """Return the host of a URL; "" for anything else, such as an id that was given out, which says nothing of who has
    it."""
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
