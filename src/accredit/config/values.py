"""The types of single values in `accredit.toml`, and what makes a value wrong. No I/O.

Errors finish the sentence "KEY ..." and never quote a value, which may be a secret in the wrong place.
"""

import re
from typing import Annotated, cast
from urllib.parse import urlsplit

from accredit.config.fields import Check, Field, NoSuchKey, ReadBy
from accredit.config.tables import Section
from accredit.gateway.forwarding import can_be_added, can_name_caller
from accredit.policy import facts_fault, may_guard, scope_fault

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name (RFC 9110 section 5.6.2)."""

_OWN_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that frame or route a message. The gateway sets them itself, or two parties could disagree."""


def _url(value: str) -> str:
    """Check an http(s) URL: it names a server, and holds nothing that must not be sent there."""
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("should be printable ASCII without spaces")
    if "@" in value.partition("//")[2].partition("/")[0]:
        raise ValueError("should not hold a user name or password")
    if "#" in value:
        raise ValueError("should not hold a fragment")
    try:
        parts = urlsplit(value)
        port_is_usable = parts.port != 0
    except ValueError:
        raise ValueError("should name a host and a port that are valid") from None  # its text quotes the URL
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_usable:
        raise ValueError('should begin with "http://" or "https://" and name a host')
    return value


def _path(value: str) -> str:
    if not value.startswith("/") or not value.isascii() or not value.isprintable():
        raise ValueError('should begin with "/" and be printable ASCII')
    if any(char in value for char in " ?#"):
        raise ValueError("should hold no space, query or fragment")
    return value


def _endpoint(value: str) -> str:
    if value in ("/healthz", "/readyz", "/.well-known/accredit/jwks.json"):
        raise ValueError("should not be a path that the gateway itself answers")
    return _path(value)


def _method(value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("should hold names in printable ASCII without spaces")
    if may_guard(value):
        raise ValueError("should hold no guarded method nor a list, however it is spelled: those are decided")
    return value


def _command(value: list[str]) -> list[str]:
    if not value or not value[0]:
        raise ValueError("should name a program")
    if any("\0" in part for part in value):
        raise ValueError("should not hold NUL characters")
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    if any(not name or "=" in name or "\0" in name + text for name, text in value.items()):
        raise ValueError('should hold no empty names, no "=" in names and no NUL characters')
    return value


class FromEnvironment(Section):
    """A value that is taken from an environment variable when the gateway starts."""

    env: str = Field(min_length=1)
    scheme: str = ""
    """The authentication scheme that is put before it, such as `Bearer`."""

    def text(self, value: str) -> str:
        """Return the header's value for a variable's value."""
        return f"{self.scheme} {value}" if self.scheme else value


def _header_value(value: object) -> str | FromEnvironment:
    """Check a header's value, with one error for both forms, which never quotes the value."""
    if isinstance(value, str):
        return value
    match value:
        case FromEnvironment():
            return value
        case {"env": str(name)} if name and len(cast("dict[object, object]", value)) == 1:
            return FromEnvironment(env=name)
        case {"env": str(name), "scheme": str(scheme)} if (
            name and _TOKEN.fullmatch(scheme) and len(cast("dict[object, object]", value)) == 2
        ):
            return FromEnvironment(env=name, scheme=scheme)
        case _:
            raise ValueError('should be a string, or { env = "NAME" }, or that with scheme = "Bearer"')


HeaderValue = Annotated[str | FromEnvironment, ReadBy(_header_value)]


def _headers(value: dict[str, str | FromEnvironment]) -> dict[str, str | FromEnvironment]:
    for name, text in value.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError("should hold header names")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"should not hold {name}, which the gateway sets itself")
        if isinstance(text, str):
            check_header_text(text)
    if len({name.lower() for name in value}) != len(value):
        raise ValueError("should name each header once")
    return value


def check_header_text(text: str) -> None:
    """Refuse a text that is not a header value. Raises `ValueError`, without the value: it may be a secret."""
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError("should be printable ASCII, without line breaks and without spaces around it")


def _scope(value: str) -> str:
    fault = scope_fault(value)
    if fault is not None:
        raise ValueError(fault)
    return value


def _optional_scope(value: str) -> str:
    return value and _scope(value)


def _facts(value: dict[str, str | int | float]) -> dict[str, str | int | float]:
    fault = facts_fault(value)
    if fault is not None:
        raise ValueError(fault)
    return value


def _uri_prefix(value: str) -> str:
    if ":" not in value:
        raise NoSuchKey
    return value


def _forwarded(value: str) -> str:
    if not can_be_added(value):
        raise ValueError("should be a header that says neither how a message is read nor where it goes")
    return value


def _identity_header(value: str) -> str:
    if not can_name_caller(value):
        raise ValueError("should be a header's name of letters, digits and -, and none that means something else")
    return value


def _store(value: str) -> str:
    if value != "memory:" and not value.startswith("sqlite:///"):
        raise ValueError('should be "memory:" or begin with "sqlite:///"')  # others may hold a password: not quoted
    return value


Url = Annotated[str, Check(_url)]
Path = Annotated[str, Check(_path)]
Method = Annotated[str, Field(min_length=1), Check(_method)]
Forwarded = Annotated[str, Check(_forwarded)]
IdentityHeader = Annotated[str, Check(_identity_header)]
Endpoint = Annotated[str, Check(_endpoint)]
Name = Annotated[str, Field(min_length=1)]
Bytes = Annotated[int, Field(ge=1)]
Scope = Annotated[str, Check(_scope)]
OptionalScope = Annotated[str, Check(_optional_scope)]
Facts = Annotated[dict[str, str | int | float], Check(_facts)]
UriPrefix = Annotated[str, Check(_uri_prefix)]
TokenScope = Annotated[str, Field(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]*$")]
"""RFC 6749 section 3.3; empty for none."""
StoreText = Annotated[str, Check(_store)]
Command = Annotated[list[str], Check(_command)]
Environment = Annotated[dict[str, str], Check(_environment)]
Headers = Annotated[dict[str, HeaderValue], Check(_headers)]
