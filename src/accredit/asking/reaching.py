"""What a command line says of a server: its URL or command, and options for reaching it (headers, token and timeout).

`--header`, `--token-env` and `--timeout` mean the same for every command. Credentials come only from the environment:
command lines are visible to every user of the machine, and kept in histories. No error here quotes a value.
"""

# ruff: noqa: PLC0415 - headers' table and configuration are loaded only if needed: a host waits for `connect`

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from accredit.config.load import Values
    from accredit.gateway import HttpUpstream, StdioUpstream

MAX_TIMEOUT_SECONDS = 86_400.0
"""The longest `--timeout` in seconds: a day. Nobody waits longer for a silent server."""


_FROM_ENVIRONMENT = "env:"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CREDENTIAL = re.compile(r"auth|key|token|secret|pass|cookie|credential|session|signature|jwt|bearer", re.IGNORECASE)
_OWN = re.compile(r"mcp-.*|accept(-encoding)?|content-.*|last-event-id|host", re.IGNORECASE)
"""Matches the headers that the gateway's requests set themselves."""


class Reach(NamedTuple):
    """How to reach a server: `headers` without the token's, the bearer `token` ("" for none), and the `timeout` (how
    many seconds the server may be silent), or None. `configured` are all headers as `upstream.headers` writes them: a
    value from the environment is its variable's name."""

    headers: Mapping[str, str] = {}
    token: str = ""
    timeout: float | None = None
    configured: Mapping[str, str | Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"<Reach {sorted(self.headers)}>"

    @property
    def all_headers(self) -> dict[str, str]:
        """The headers, including the token's."""
        return {**self.headers, **({"Authorization": f"Bearer {self.token}"} if self.token else {})}


def read_reach(*, header: Sequence[str] = (), token_env: str | None = None, timeout: float | None = None) -> Reach:
    """Return the values of the three options. Raises `ConfigurationError`."""
    given: dict[str, str] = {}
    configured: dict[str, str | Mapping[str, str]] = {}
    for option in header:
        name, value = _header(option)
        written = option.partition("=")[2]
        variable = written.removeprefix(_FROM_ENVIRONMENT)
        configured[name] = written if variable == written else {"env": variable}
        if name.lower() in {known.lower() for known in given}:
            raise ConfigurationError(f"--header: {name} is named twice", "name each header once")
        given[name] = value
    token = "" if token_env is None else _token(token_env)
    if token and any(name.lower() == "authorization" for name in given):
        raise ConfigurationError("--header Authorization and --token-env are given", "keep one of them")
    if timeout is not None and not (math.isfinite(timeout) and 0 < timeout <= MAX_TIMEOUT_SECONDS):
        raise ConfigurationError(
            f"--timeout {timeout:g} is no time to wait for", f"name seconds, up to {MAX_TIMEOUT_SECONDS:.0f}"
        )
    if token_env is not None:
        configured["Authorization"] = {"env": token_env, "scheme": "Bearer"}
    return Reach(given, token, timeout, configured)


def add_headers(upstream: "HttpUpstream | StdioUpstream", reach: Reach) -> "HttpUpstream | StdioUpstream":
    """Return an upstream with the options' headers added. Raises `ConfigurationError` for a command."""
    from accredit.gateway import HttpUpstream

    if not reach.all_headers:
        return upstream
    if not isinstance(upstream, HttpUpstream):
        raise ConfigurationError(
            "--header and --token-env are for a URL, and a command reads no headers",
            "set what the command reads in its environment",
        )
    added = {name.lower() for name in reach.all_headers}
    kept = {name: value for name, value in upstream.headers.items() if name.lower() not in added}
    auth = None if "authorization" in added else upstream.auth
    return replace(upstream, headers={**kept, **reach.all_headers}, auth=auth)


def values_of(
    url: str | None,
    command: list[str] | None,
    host: str | None = None,
    port: int | None = None,
    timeout: float | None = None,
) -> "Values":
    """Return the values that the command line sets, by key. Raises `ConfigurationError`."""
    from accredit.config.load import Origin

    if url is not None and command is not None:
        raise ConfigurationError(
            "a URL and a command are given", "keep the one that names your server; options go before --"
        )
    given = {
        ("upstream", "url"): ("URL", url),
        ("upstream", "command"): ("-- COMMAND", command),
        ("gateway", "host"): ("--host", host),
        ("gateway", "port"): ("--port", port),
        ("gateway", "upstream_timeout_seconds"): ("--timeout", timeout),
    }
    return {key: (Origin("command line", option), value) for key, (option, value) in given.items() if value is not None}


def upstream_of(url: str | None, command: list[str] | None, reach: Reach) -> "HttpUpstream | StdioUpstream":
    """Return the server that a URL or a command names, with the options' headers. Raises `ConfigurationError`."""
    from accredit.config.build import build_upstream
    from accredit.config.load import load_command_line

    if url is None and not command:
        raise ConfigurationError("there is no server to ask", "give its URL, or its command after --")
    return add_headers(build_upstream(load_command_line(values_of(url, command)), os.environ), reach)


def endpoint_of(url: str, server: str | None) -> str:
    """Return URL/SERVER, or the URL if `server` is None. Raises `ConfigurationError`."""
    if server is None:
        return url
    from accredit.config.servers import check_server_name

    check_server_name(server, "--server")
    base, question, query = url.partition("?")
    return f"{base.rstrip('/')}/{server}{question}{query}"


def id_at(gateway_id: str, server: str | None) -> str:
    """Return the gateway's id at the endpoint of one of its servers; "" if no id is given."""
    return f"{gateway_id}/{server}" if gateway_id and server is not None else gateway_id


def _header(option: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise ConfigurationError(
            "--header takes NAME=VALUE", "for example --header X-Team=mail, or X-Api-Key=env:MAIL_KEY"
        )
    if not _may_be_sent(name):
        raise ConfigurationError(
            f"--header: {name} says how a request is read", "leave it out: each request says so itself"
        )
    if value.startswith(_FROM_ENVIRONMENT):
        variable = value.removeprefix(_FROM_ENVIRONMENT)
        value = os.environ.get(variable, "") if variable else ""
        if not _is_value(value):
            raise ConfigurationError(
                f"--header {name}: the environment variable {variable or '(no name)'} holds no value for a header",
                f"set {variable or 'one and name it'}",
            )
        return name, value
    if _CREDENTIAL.search(name):
        raise ConfigurationError(
            f"--header {name} may be a credential, and everybody can read a command line",
            f"put it into the environment: --header {name}=env:VARIABLE",
        )
    if not _is_value(value):
        raise ConfigurationError(
            f"--header {name}: not a value for a header", "use printable ASCII, without spaces around it"
        )
    return name, value


def _may_be_sent(name: str) -> bool:
    from accredit.gateway.forwarding import can_be_added

    return name.lower() == "authorization" or (can_be_added(name) and not _OWN.fullmatch(name))


def _is_value(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable() and value == value.strip()


def _token(name: str) -> str:
    token = os.environ.get(name, "")
    if not _is_value(token) or " " in token:
        raise ConfigurationError(
            f"--token-env: the environment variable {name} holds no token", f"set {name}, in the host's configuration"
        )
    return token
