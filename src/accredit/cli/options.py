"""Options that several commands take. No I/O."""

from pathlib import Path
from typing import Annotated, Literal

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml."),
]
ServerConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml, but that only where no server is named.",
    ),
]
AgentKeyOption = Annotated[Path | None, typer.Option("--key", metavar="AGENT.key", help="The agent's private key.")]
DelegationsOption = Annotated[
    list[Path] | None, typer.Option("--delegation", metavar="FILE", help="What the agent may do; may be repeated.")
]
GatewayIdOption = Annotated[
    str, typer.Option("--gateway-id", metavar="ID", help="Sign for this gateway only; else for the first one met.")
]
NamedServerOption = Annotated[
    str | None, typer.Option("--server", metavar="NAME", help="One of the configuration's [servers].")
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ReplaceKeyOption = Annotated[
    bool, typer.Option("--force", help="Replace the files if they exist: the old key is lost.")
]
JsonAnywayOption = Annotated[bool, typer.Option("--json", help="Print JSON, as it does without this.")]
