"""Options that several commands share, and the shell completion of some options' values. Reads the configuration, which
may be somebody else's file: so only valid names are offered."""

# ruff: noqa: PLC0415 - what the completion needs is loaded when somebody presses the tab key

import os
import re
from pathlib import Path
from typing import Any, cast

import click
from click import Choice

from accredit.base.standard import printing_json
from accredit.cli.declare import OptionGroup, argument, flag, option
from accredit.cli.standard import READ, READ_OR_URL, READ_SECRET, OnlyFile

MAX_COMPLETED_FILE_BYTES = 131_072
"""The most bytes of a configuration that is read when a person presses the tab key. Of a longer one no names are
offered."""


PLAIN_WORD = re.compile(r"[A-Za-z0-9@%_+=:,./-]+")
"""Matches a word that every shell takes literally."""
_SERVER = re.compile(r"[a-z0-9][a-z0-9-]*")
"""Matches a server's name that has no special meaning to a shell or to `accredit`."""


def server_names(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the names in `[servers]` of the configuration that `--config` names, or else of the one that is found.
    Return none if it can't be read."""
    named = ctx.params.get("config") or os.environ.get("ACCREDIT_CONFIG") or "accredit.toml"
    return [name for name in _servers(Path(named)) if name.startswith(begun) and _SERVER.fullmatch(name)]


def host_names(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Return the names of the hosts that `accredit install` knows."""
    from accredit.hosts.table import HOSTS

    return [name for name in HOSTS if name.startswith(begun)]


def _servers(file: Path) -> list[str]:
    from accredit.base.files import open_file
    from accredit.base.toml import read_toml

    try:
        with open_file(file) as opened:
            if os.fstat(opened.fileno()).st_size > MAX_COMPLETED_FILE_BYTES:
                return []
            found: Any = read_toml(opened.read(MAX_COMPLETED_FILE_BYTES))
    except (OSError, ValueError):
        return []
    servers = found.get("servers")
    return list(cast("dict[str, Any]", servers)) if isinstance(servers, dict) else []


_CONFIG = "The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml"
_UNLESS_NAMED = f"{_CONFIG} if no server is named."
_SERVED = "a configuration that is served is a file, which is read again at a reload"
_BESIDE = "a file beside the configuration is read or written as well"
CONFIG = option("--config", type=READ, help=f"{_CONFIG}; - for stdin.")
CONFIG_FILE = option("--config", type=OnlyFile(_BESIDE), help=f"{_CONFIG}.")
CHECKED_CONFIG = option("--config", type=READ, help=f"{_UNLESS_NAMED}")
SERVER_CONFIG = option("--config", type=OnlyFile(_SERVED), help=_UNLESS_NAMED)
_KEY, _DELEGATION = "The agent's private key.", "What the agent may do; may be repeated."
_HOSTS = "stdin is the host's, which speaks MCP there"
AGENT_KEY = option("--key", metavar="AGENT.key", type=READ_SECRET, help=_KEY)
DELEGATIONS = option("--delegation", multiple=True, type=READ, help=_DELEGATION)
AGENT_KEY_FILE = option("--key", metavar="AGENT.key", type=OnlyFile(_HOSTS), help=_KEY)
DELEGATION_FILES = option("--delegation", multiple=True, type=OnlyFile(_HOSTS), help=_DELEGATION)
AT = option(
    "--at",
    metavar="URL",
    multiple=True,
    help="The public URL of a gateway on another machine: what agents ask you there, this desk shows. Can be repeated.",
)
GATEWAY_ID = option(
    "--gateway-id", metavar="ID", default="", help="Sign for this gateway only; else for the first one met."
)
NAMED_SERVER = option(
    "--server", metavar="NAME", shell_complete=server_names, help="One of the configuration's [servers]."
)
TIMEOUT = option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    help="How long to wait for a server that sends nothing, not even progress.",
)
REACH = OptionGroup(
    "reach",
    "accredit.asking.reaching:read_reach",
    (
        option(
            "--header",
            metavar="NAME=VALUE",
            multiple=True,
            help="A header of every request; env:VAR as value takes it from the environment. May be repeated.",
        ),
        option("--token-env", metavar="NAME", help="The environment variable that holds the token."),
        TIMEOUT,
    ),
)
SERVER = option(
    "--server",
    metavar="NAME",
    shell_complete=server_names,
    help="One of the gateway's [servers]. With a URL: the server at URL/NAME.",
)
LOG_LEVEL = option(
    "--log-level",
    type=Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="The lowest level in the log.",
)
LOG_FORMAT = option(
    "--log-format", type=Choice(["json", "text"]), default="json", help="JSON for programs, text for people."
)


OPENAPI = option(
    "--openapi",
    metavar="FILE|URL",
    type=READ_OR_URL,
    help="An HTTP API's OpenAPI document (3.0 or 3.1; JSON, or YAML with accredit[hosts]).",
)
AGENT_CARD = option("--agent-card", metavar="FILE|URL", type=READ_OR_URL, help="An A2A 1.0 agent's card.")
PROXY = option(
    "--proxy",
    type=Choice(["nginx", "envoy", "traefik", "caddy"]),
    help="With --openapi: the proxy before the API, which asks the gateway.",
)
URL = argument("url", metavar="URL", help="The MCP server, in place of the configured one.")
HOST = option("--host", metavar="H", help="In place of gateway.host.")
PORT = option("--port", metavar="P", type=int, help="In place of gateway.port; 0 picks a free one.")


def _note_json(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        ctx.with_resource(printing_json())


JSON = flag("--json", callback=_note_json, expose_value=False, help="Print JSON.")
REPLACE_KEY = flag("--force", "replace", help="Replace the files if they exist: the old key is lost.")
JSON_ANYWAY = flag("--json", expose_value=False, help="Print JSON, as it does without this.")
PASSPHRASE_FILE = option(
    "--passphrase-file",
    metavar="F",
    type=READ_SECRET,
    help="Read the key's passphrase from F (- for stdin), not from the terminal.",
)
ASK_PASSPHRASE = OptionGroup("passphrase", "accredit.terminal.passphrases:passphrase_source", (PASSPHRASE_FILE,))
KEYS = option(
    "--key",
    metavar="PUB",
    multiple=True,
    type=READ,
    help="A trusted public key: the gateway's or attest.signer's; may be repeated.",
)
SINCE = option("--since", metavar="TIME", help="Calls since then: 2026-08-01T12:00:00Z, or 7d (seven days ago).")
