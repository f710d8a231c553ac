"""`accredit call`: calls a tool from a shell."""

# ruff: noqa: PLC0415 - what calls is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import (
    AgentKeyOption,
    DelegationsOption,
    GatewayIdOption,
    HeaderOption,
    JsonOption,
    ServerOption,
    TimeoutOption,
    TokenEnvOption,
)
from accredit.cli.reaching import read_reach
from accredit.cli.standard import reads


def call(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="An argument, typed as the tool says; may be repeated."),
    ] = None,
    json_args: Annotated[
        Path | None,
        typer.Option("--json-args", metavar="FILE", callback=reads, help="Arguments as a JSON object; - for stdin."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="The gateway's or server's endpoint.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            callback=reads,
            help="In place of a URL: a configuration, whose gateway this process is itself.",
        ),
    ] = None,
    server: ServerOption = None,
    key: AgentKeyOption = None,
    delegation: DelegationsOption = None,
    gateway_id: GatewayIdOption = "",
    token_env: TokenEnvOption = None,
    header: HeaderOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Calls a tool and prints its result. Exit code 1: the call was refused, or the tool reports an error.

    An argument is a text, a number, true or false, or JSON, as the tool's input schema says. Repeating a name makes a
    list. With --json the whole result is printed, including structured content.

    With --config, this process is the configuration's own gateway for the call: the same proofs, limits and records as
    with `accredit serve` and `accredit wrap`. If the server is a command, it is started for this one call.

    Examples:

    accredit call send_email --arg to=ada@example.org --arg subject=Hello --url http://127.0.0.1:8484/mcp --key
    agent.key --delegation delegation.json

    accredit call search --arg word=number --config accredit.toml --server mail --key agent.key --delegation
    delegation.json
    """
    from accredit.cli.actions.call import CallOptions, call_tool

    request = CallOptions(
        tool=tool,
        args=tuple(arg or ()),
        json_args=json_args,
        url=url,
        config=config,
        server=server,
        key=key,
        delegations=tuple(delegation or ()),
        gateway_id=gateway_id,
        reach=read_reach(header, token_env, timeout),
    )
    return call_tool(request, as_json=as_json)
