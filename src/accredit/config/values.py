"""The types of single values in `accredit.toml`, and what makes a value wrong. No I/O.

Errors finish the sentence "KEY ..." and never quote a value, which may be a secret in the wrong place.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_network
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin
from urllib.parse import urlsplit

from msgspec import Meta, Struct, to_builtins

from accredit.base.addresses import is_loopback_host, without_slash
from accredit.gateway.forwarding import can_be_added, can_be_added_for_api, can_name_caller
from accredit.http_api.routes import read_route
from accredit.limits import MAX_AGENT_ID_CHARS
from accredit.oauth.uris import is_pattern
from accredit.policy.catalog import scope_fault
from accredit.policy.drill import DRILLS
from accredit.policy.facts import facts_fault
from accredit.policy.guarded_call import may_guard
from accredit.policy.merging import SERVER_NAME
from accredit.policy.quotas import ANY_TOOL, window_seconds
from accredit.stores import store_url_fault

MAX_QUOTAS = 32
"""How many quotas a configuration may have. Each call's transaction writes a row for each of them."""


NO_SUCH_KEY = "no such key"
"""What an error says about an unknown key."""

Place = tuple[int | str, ...]
"""A place in the configuration: a section, a key in it, and the path inside its value."""


class WrongValue(ValueError):
    """A wrong value at a place in the file. `text` completes the sentence "KEY ..."."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(text)
        self.place = place
        self.text = text


class _Check(NamedTuple):
    """A rule for the values of a type. If a value breaks it, `rule` raises `ValueError` with a text that completes "KEY
    ..."."""

    rule: Callable[[Any], object]


def _should(is_good: Callable[[Any], object], text: str) -> _Check:
    """Return the rule that values are good; `text` says how they should be."""
    return _faultless(lambda value: None if is_good(value) else text)


def _faultless(fault_of: Callable[[Any], str | None]) -> _Check:
    """Return the rule that values have no fault."""

    def rule(value: object) -> None:
        fault = fault_of(value)
        if fault:
            raise ValueError(fault)

    return _Check(rule)


def check(kind: Any, value: Any, place: Place) -> None:
    """Check a value, and the values in it, by the rules of its type. Raises `WrongValue`."""
    if kind is str and isinstance(value, str):
        _check(_text, value, place)
    for each in _parts(kind, value, place):
        check(*each)
    if get_origin(kind) is Annotated:
        for note in get_args(kind)[1:]:
            if isinstance(note, _Check):
                _check(note.rule, value, place)


def _parts(kind: Any, value: Any, place: Place) -> Iterator[tuple[Any, Any, Place]]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield inner[0], value, place
    elif origin is list:
        yield from ((inner[0], each, (*place, number)) for number, each in enumerate(value))
    elif origin is dict:
        for name, each in value.items():
            yield inner[0], name, place
            yield inner[1], each, (*place, name)
    elif origin in (Union, UnionType) and value is not None:
        yield from ((each, value, place) for each in inner)


def _check(rule: Callable[[Any], object], value: object, place: Place) -> None:
    try:
        rule(value)
    except ValueError as error:
        raise WrongValue(place, str(error)) from None


def _text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("should be UTF-8") from None  # its text quotes the value


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Matches a header's name (RFC 9110 section 5.6.2)."""

_OWN_HEADERS = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that frame or route a message, or say how it is read. The gateway sets them itself: otherwise the server
could read another message than the gateway did."""


def _url(value: str) -> None:
    """Check an http(s) URL: it has a host, and holds nothing that must not be sent to that host."""
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


def _path(value: str) -> None:
    if not value.startswith("/") or not value.isascii() or not value.isprintable():
        raise ValueError('should begin with "/" and be printable ASCII')
    if any(char in value for char in " ?#"):
        raise ValueError("should hold no space, query or fragment")


def check_endpoint(value: str) -> None:
    """Refuse a path that can't be an endpoint's. Raises `ValueError`."""
    if without_slash(value) in ("/healthz", "/readyz", "/.well-known/accredit/jwks.json"):
        raise ValueError("should not be a path that the gateway itself answers")
    if value.endswith("//"):
        raise ValueError("should not end with two slashes")
    _path(value)


def _proxy_network(value: str) -> None:
    try:
        network = ip_network(value)
    except ValueError:
        raise ValueError("should hold addresses, or networks such as 10.1.0.0/16 (without bits of a host)") from None
    if not network.prefixlen:
        raise ValueError("should not hold every address: whoever connects would say where they are")


def _method(value: str) -> None:
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("should hold names in printable ASCII without spaces")
    if may_guard(value):
        raise ValueError("should hold no guarded method nor a list, however it is spelled: those are decided")


def _command(value: list[str]) -> None:
    if not value or not value[0]:
        raise ValueError("should name a program")
    if any("\0" in part for part in value):
        raise ValueError("should not hold NUL characters")


class FileUse(NamedTuple):
    """What a file is for: a note in the type of each key that names one. If it `is_secret`, only its owner may read it.
    If it `is_policy`, it decides who may do what, and its content counts in the policy's digest. If it `is_of_others`,
    it is a public key whose private half belongs on another machine. If it `is_written` by the gateway, it need not
    exist. If it `is_folder`, it is one that a command runs in: who writes there may change what it runs. With a
    `scheme`, only values that begin with that name files."""

    is_secret: bool = False
    is_policy: bool = False
    is_of_others: bool = False
    is_written: bool = False
    is_folder: bool = False
    scheme: str = ""


class SecretFrom(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A value that is read from an environment variable or a file at startup."""

    env: str = ""
    file: Annotated[str, FileUse(is_secret=True)] = ""

    def members(self) -> dict[str, object]:
        """Return the table as written in a file."""
        return to_builtins(self)


class HeaderFrom(SecretFrom, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A header's value from an environment variable or a file."""

    scheme: str = ""
    """An authentication scheme that precedes the value, such as `Bearer`."""

    def text(self, value: str) -> str:
        """Return the header's value."""
        return f"{self.scheme} {value}" if self.scheme else value


def _environment(value: dict[str, str | SecretFrom]) -> None:
    for name, text in value.items():
        if not name or "=" in name or "\0" in name or (isinstance(text, str) and "\0" in text):
            raise ValueError('should hold no empty names, no "=" in names and no NUL characters')


def _secret_fault(value: str | SecretFrom) -> str | None:
    is_one = isinstance(value, str) or bool(value.env) != bool(value.file)
    return None if is_one else 'should be { env = "NAME" } or { file = "NAME" }'


def _public_url(value: str) -> None:
    _token_url(value)
    if value != value.lower() or urlsplit(value).path or "?" in value:
        raise ValueError("should be an origin in lower case, such as https://mcp.example.com: without path or query")


def _token_url(value: str) -> None:
    _url(value)
    parts = urlsplit(value)
    if parts.scheme != "https" and not is_loopback_host(parts.hostname or ""):
        raise ValueError("should begin with https://: a secret goes there (http:// is for loopback)")


def _is_absolute(value: str) -> bool:
    return value.isascii() and value.isprintable() and not {" ", "#"} & {*value} and bool(urlsplit(value).scheme)


def _token_scopes(value: str) -> None:
    for each in value.split(" "):
        if not each:
            raise ValueError("should be scopes with one space between them")
        _token_scope(each)


def _headers(value: dict[str, str | HeaderFrom]) -> None:
    names: set[str] = set()
    for name, text in value.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError("should hold header names")
        read = name.lower().replace("_", "-")  # as CGI and PHP do
        names.add(read)
        if read in _OWN_HEADERS or read.startswith("mcp-param-"):
            raise ValueError(f"should not hold {name}, which the gateway sets itself")
        if isinstance(text, str):
            check_header_text(text)
        elif text.scheme and not _TOKEN.fullmatch(text.scheme):
            raise ValueError("should hold schemes such as Bearer")
    if len(names) != len(value):
        raise ValueError("should name each header once")


def check_header_text(text: str) -> None:
    """Refuse an invalid header value. Raises `ValueError` without quoting it: it may be a secret."""
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError("should be printable ASCII, without line breaks and without spaces around it")


def _token_scope(value: str) -> None:
    if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]*", value):
        raise ValueError("should be one scope of a token: printable ASCII without spaces, quotes and backslashes")


def _tool_name(value: str) -> None:
    if not value:
        raise ValueError("should have a name")
    if value in DRILLS:
        raise ValueError("is the gateway's own, for `accredit drill`, and no server's")


Url = Annotated[str, _Check(_url)]
Path = Annotated[str, _Check(_path)]
ProxyNetwork = Annotated[str, _Check(_proxy_network)]
Method = Annotated[str, _Check(_method)]
ForwardedToApi = Annotated[
    str, _should(can_be_added_for_api, "should be Cookie, Range or an If-... header: others go on anyway, or never")
]
Forwarded = Annotated[
    str, _should(can_be_added, "should be a header that says neither how a message is read nor where it goes")
]
IdentityHeader = Annotated[
    str,
    _should(can_name_caller, "should be a header's name of letters, digits and -, and none that means something else"),
]
Endpoint = Annotated[str, _Check(check_endpoint)]
Name = Annotated[str, Meta(min_length=1)]
"""Text that is not empty, and not a file's name."""
FileName = Annotated[str, Meta(min_length=1), FileUse()]
FolderName = Annotated[str, Meta(min_length=1), FileUse(is_folder=True)]
SecretFile = Annotated[str, Meta(min_length=1), FileUse(is_secret=True)]
PolicyFile = Annotated[str, Meta(min_length=1), FileUse(is_policy=True)]
TrustedKeyFile = Annotated[str, Meta(min_length=1), FileUse(is_policy=True, is_of_others=True)]
WrittenSecretFile = Annotated[str, Meta(min_length=1), FileUse(is_secret=True, is_written=True)]
SignerUri = Annotated[str, Meta(min_length=1), FileUse(is_secret=True, scheme="file2:")]
Bytes = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0), _should(math.isfinite, "should be a finite number")]
Window = Annotated[str, _Check(window_seconds)]
QuotaNumber = Annotated[
    str, _should(lambda value: int(value) < MAX_QUOTAS, f"is one too many: there may be {MAX_QUOTAS}")
]
Scope = Annotated[str, _faultless(scope_fault)]
OptionalScope = Annotated[str, _faultless(lambda value: value and scope_fault(value))]
ToolNames = Annotated[
    list[Annotated[str, _Check(_tool_name)]],
    Meta(min_length=1),
    _should(lambda value: ANY_TOOL not in value or len(value) == 1, f'should be ["{ANY_TOOL}"], or names of tools'),
]
SkillId = Annotated[str, Meta(min_length=1, max_length=MAX_AGENT_ID_CHARS), _Check(_tool_name)]
RouteText = Annotated[str, _Check(read_route)]
RouteFacts = dict[str, str | int | float]
Facts = Annotated[dict[str, str | int | float], _faultless(facts_fault)]
ToolName = Annotated[str, _Check(_tool_name)]
ServerName = Annotated[
    str,
    _should(
        SERVER_NAME.fullmatch, "should have a name of a-z, 0-9 and -, which begins with no -, of at most 32 characters"
    ),
]
UriPrefix = Annotated[str, _should(lambda value: ":" in value, NO_SUCH_KEY)]
TokenScope = Annotated[str, _Check(_token_scope)]
"""One scope of a token (RFC 6749 section 3.3), or "" for none."""
TokenUrl = Annotated[str, _Check(_token_url)]
PublicUrl = Annotated[str, _Check(_public_url)]
ClientPattern = Annotated[
    str,
    _should(
        partial(is_pattern, private=True),
        "should hold ids of clients, such as https://host/client.json, or https://host/*",
    ),
]
AbsoluteUri = Annotated[str, _should(_is_absolute, "should be an absolute URI without a fragment")]
TokenScopes = Annotated[str, _Check(_token_scopes)]
"""Scopes of a token, separated by spaces (RFC 6749 section 3.3)."""
Secret = Annotated[SecretFrom, _faultless(_secret_fault)]
StoreText = Annotated[str, _faultless(store_url_fault), FileUse(is_secret=True, is_written=True, scheme="sqlite:///")]
Command = Annotated[list[str], _Check(_command)]
Environment = Annotated[dict[str, Annotated[str | SecretFrom, _faultless(_secret_fault)]], _Check(_environment)]
Headers = Annotated[dict[str, Annotated[str | HeaderFrom, _faultless(_secret_fault)]], _Check(_headers)]
