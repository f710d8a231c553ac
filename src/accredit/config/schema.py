"""The keys of `accredit.toml`: names, types, defaults and what each means (contract, section 2). No I/O.

Rules that need two keys, a file or the environment are in `build`; here is what one value can say by itself.
Each description finishes the sentence "KEY is ...": errors and `accredit config schema` show it.
"""

import re
from typing import Annotated, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name (RFC 9110, section 5.6.2)."""

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
"""Headers that say how a message is framed or routed: the gateway's own, or two parties could disagree."""


def _url(value: str) -> str:
    """An http(s) URL that names a server and nothing that would be sent where it does not belong."""
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
    if value in ("/healthz", "/readyz"):
        raise ValueError("should not be a path that the gateway itself answers")
    return _path(value)


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


class FromEnvironment(BaseModel):
    """A value that is taken from an environment variable when the gateway starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    env: str = Field(min_length=1)


def _header_value(value: object) -> str | FromEnvironment:
    """One error for both forms; it never quotes the value."""
    if isinstance(value, str):
        return value
    match value:
        case FromEnvironment():
            return value
        case {"env": str(name)} if name and len(cast("dict[object, object]", value)) == 1:
            return FromEnvironment(env=name)
        case _:
            raise ValueError('should be a string, or { env = "NAME" }')


HeaderValue = Annotated[
    str | FromEnvironment,
    PlainValidator(_header_value, json_schema_input_type=str | FromEnvironment),
]


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
    """Refuses what can't be one header value. Raises `ValueError`, without the value: it may be a secret."""
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError("should be printable ASCII, without line breaks and without spaces around it")


Url = Annotated[str, AfterValidator(_url)]
Path = Annotated[str, AfterValidator(_path)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
Name = Annotated[str, Field(min_length=1)]
Bytes = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A table of the file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Gateway(Section):
    """`[gateway]`: where it listens, and its bounds."""

    host: Name = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8484, ge=0, le=65535, description="the TCP port to listen on; 0 picks a free one")
    path: Endpoint = Field(default="/mcp", description="the path of the MCP endpoint")
    id: Name | None = Field(default=None, description="this gateway's name in proofs and records")
    allowed_origins: list[Name] = Field(
        default=[], description="a list of Origin header values that pass beside same-origin loopback"
    )
    allowed_hosts: list[Name] = Field(
        default=["127.0.0.1", "localhost", "[::1]"], description="a list of Host header values that pass"
    )
    passthrough: list[Path] = Field(default=[], description="a list of other paths that are forwarded untouched")
    max_request_bytes: Bytes = Field(default=4_194_304, description="the largest request body, in bytes")
    max_response_bytes: Bytes = Field(default=104_857_600, description="the largest answer of the upstream, in bytes")
    max_event_bytes: Bytes = Field(default=16_777_216, description="the largest SSE event or stdio line, in bytes")
    upstream_timeout_seconds: float = Field(
        default=60.0,
        gt=0,
        allow_inf_nan=False,
        description="the number of seconds to wait for the upstream's first byte, and between its events",
    )
    tls_cert_file: Name | None = Field(default=None, description="a PEM file with the endpoint's certificate chain")
    tls_key_file: Name | None = Field(default=None, description="a PEM file with its private key, mode 0600")


class Upstream(Section):
    """`[upstream]`: the server behind the gateway, as a URL or as a command."""

    url: Url | None = Field(default=None, description="the http(s) URL of the MCP server")
    command: Annotated[list[str], AfterValidator(_command)] | None = Field(
        default=None, description="a stdio server's program and its arguments, as a list"
    )
    env: Annotated[dict[str, str], AfterValidator(_environment)] = Field(
        default={}, description="a table of environment variables for the command"
    )
    headers: Annotated[dict[str, HeaderValue], AfterValidator(_headers)] = Field(
        default={}, description='a table of headers for the url, each a string or { env = "NAME" }'
    )


class Validation(Section):
    """`[validation]`: what happens to frames that are not valid."""

    responses: Literal["enforce", "observe"] = Field(
        default="enforce", description='"enforce", or "observe" to log and count but forward as it is'
    )


class Off(Section):
    """A part that this version does not have: it can only be named to say that it is off."""

    mode: Literal["off"] = Field(default="off", description='"off"')


class Config(BaseModel):
    """The file `accredit.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="accredit.toml")

    gateway: Gateway = Gateway()
    upstream: Upstream = Upstream()
    validation: Validation = Validation()
    tokens: Off = Off()
    proofs: Off = Off()
    attest: Off = Off()


WORKING_SECTIONS = ("gateway", "upstream", "validation")
LATER_SECTIONS = ("tokens", "proofs", "tools", "resources", "prompts", "attest", "rounds", "store")
"""Sections of the contract whose parts come with later versions: refused, so that nobody trusts in them."""

SECTIONS: dict[str, type[Section]] = {name: type(section) for name, section in Config()}
SECRETS = (("upstream", "env"), ("upstream", "headers"))
"""Tables whose values are never shown."""
FILES = (("gateway", "tls_cert_file"), ("gateway", "tls_key_file"))
"""Keys whose values are paths of files."""
