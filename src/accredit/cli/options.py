"""Options that several commands share. No I/O."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Literal

import typer

from accredit.cli.candidates import server_names
from accredit.cli.standard import only_file, reads, reads_secret

_CONFIG = "The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml"
_UNLESS_NAMED = f"{_CONFIG}, but that only where no server is named."
_SERVED = "a configuration that is served is a file, which is read again at a reload"
_BESIDE = "a file beside the configuration is read or written as well"

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", callback=reads, help=f"{_CONFIG}; - for stdin.")
]
ConfigFileOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", callback=only_file(_BESIDE), help=f"{_CONFIG}.")
]
CheckedConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", callback=reads, help=f"{_UNLESS_NAMED}")
]
ServerConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", callback=only_file(_SERVED), help=_UNLESS_NAMED)
]
_KEY, _DELEGATION = "The agent's private key.", "What the agent may do; may be repeated."
_HOSTS = "stdin is the host's, which speaks MCP there"
AgentKeyOption = Annotated[Path | None, typer.Option("--key", metavar="AGENT.key", callback=reads_secret, help=_KEY)]
DelegationsOption = Annotated[
    list[Path] | None, typer.Option("--delegation", metavar="FILE", callback=reads, help=_DELEGATION)
]
AgentKeyFileOption = Annotated[
    Path | None, typer.Option("--key", metavar="AGENT.key", callback=only_file(_HOSTS), help=_KEY)
]
DelegationFilesOption = Annotated[
    list[Path] | None, typer.Option("--delegation", metavar="FILE", callback=only_file(_HOSTS), help=_DELEGATION)
]
GatewayIdOption = Annotated[
    str, typer.Option("--gateway-id", metavar="ID", help="Sign for this gateway only; else for the first one met.")
]
NamedServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="NAME", autocompletion=server_names, help="One of the configuration's [servers]."),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME=VALUE",
        help="A header of every request; env:VAR as value takes it from the environment. May be repeated.",
    ),
]
TokenEnvOption = Annotated[
    str | None, typer.Option("--token-env", metavar="NAME", help="The environment variable that holds the token.")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", help="Give up on a server that sends nothing, not even progress, for so long."
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="NAME",
        autocompletion=server_names,
        help="One of the gateway's [servers]; of a URL, what is at URL/NAME.",
    ),
]
LogLevelOption = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="The least that is logged.")
]
LogFormatOption = Annotated[
    Literal["json", "text"], typer.Option("--log-format", help="JSON for programs, text for people.")
]
UrlArgument = Annotated[
    str | None, typer.Argument(metavar="URL", help="The MCP server, in place of the configured one.")
]
HostOption = Annotated[str | None, typer.Option("--host", metavar="H", help="In place of gateway.host.")]
PortOption = Annotated[
    int | None, typer.Option("--port", metavar="P", help="In place of gateway.port; 0 picks a free one.")
]

_for_programs: ContextVar[bool] = ContextVar("accredit_for_programs", default=False)


@contextmanager
def _printing_json() -> Generator[None]:
    token = _for_programs.set(True)
    try:
        yield
    finally:
        _for_programs.reset(token)


def _note_json(ctx: typer.Context, value: bool) -> bool:
    if value:
        ctx.with_resource(_printing_json())
    return value


def is_for_programs() -> bool:
    """Return whether the running command prints JSON."""
    return _for_programs.get()


JsonOption = Annotated[bool, typer.Option("--json", callback=_note_json, help="Print JSON.")]
ReplaceKeyOption = Annotated[
    bool, typer.Option("--force", help="Replace the files if they exist: the old key is lost.")
]
JsonAnywayOption = Annotated[bool, typer.Option("--json", help="Print JSON, as it does without this.")]
KeysOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--key",
        metavar="PUB",
        callback=reads,
        help="A public key that is trusted: the gateway's, attest.signer's; may be repeated.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Calls since then: 2026-08-01T12:00:00Z, or 7d for so long ago."),
]
