"""What `accredit call` runs: finds the tool, types the arguments, calls, and prints. I/O: stdin, stdout, stderr.

What a tool says goes to stdout. It is escaped, so that it can't steer a terminal that it reaches, directly or through a
pipe; `--json` keeps every character. Errors go to stderr in two lines.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
from mcp import MCPError
from mcp_types import CallToolResult, TextContent, Tool
from msgspec import Struct

from accredit.asking.reaching import Reach, endpoint_of
from accredit.asking.server import first_of
from accredit.base.log_events import configure_logs
from accredit.base.standard import is_for_programs
from accredit.base.terminal import two_lines
from accredit.base.text import excerpt, one_line, several
from accredit.cli.actions.call_way import Agent, at_gate, at_url, check_way, endpoints_here, how_to_start
from accredit.cli.actions.tool_arguments import json_object, parse_arguments
from accredit.client import AccreditedClient, ProofPresenter
from accredit.client.http import NOT_REACHED
from accredit.client.refusals import Caller, explain_refusal
from accredit.client.rounds import within
from accredit.errors import AccreditError, ConfigurationError, InputRequestError, ProofRefused, RequestTimeout
from accredit.keys import read_file
from accredit.limits import LEG_SECONDS, MAX_KNOWN_TOOLS, MAX_LIST_PAGES, MAX_TOLD_REASON_CHARS
from accredit.policy.lists import OBSERVED
from accredit.terminal.output import MAX_TOLD_CANDIDATES, print_json, tell

MAX_JSON_ARGS_BYTES = 4_194_304
"""The most bytes of `accredit call --json-args`: as many as a gateway takes in one request."""


_TOOL_FAILED = "that is the tool's own word: see what it asks for, and what its server logs"
_REFUSED = "docs/reference/refusals.md names the errors of gateways; the server's log says more of others"
_NOT_THERE = "name the endpoint that `accredit serve` prints; of several servers name one: --server NAME"
_OURS = "the gateway at "
_WAY = "name the URL that the gateway printed, with http or https as there"
_BEHIND = (
    "the gateway runs, but the server behind it does not answer: start that server; `accredit doctor`, where the"
    " gateway runs, names it"
)
_ENDED = "the gateway starts that server by a command, which has ended: the gateway's log shows what it printed"
_ASKS = "call it from a host that can answer: a shell can't"
_NOT_LISTED = "a gateway lists no tool that its catalog lacks: `accredit check --config FILE` names those"


class CallOptions(Struct, frozen=True, kw_only=True):
    """The options of one `accredit call`."""

    tool: str
    arg: Sequence[str]
    json_args: Path | None
    url: str | None
    config: Path | None
    server: str | None
    key: Path | None
    delegation: tuple[Path, ...]
    gateway_id: str
    reach: Reach


class _Trouble(NamedTuple):
    """Why there is no result, and what the user can do, each as lines."""

    what: str
    remedy: tuple[str, ...]


def call_tool(request: CallOptions) -> int:
    """Call the tool and print its result; return the exit code. Raises `ConfigurationError`."""
    check_way(request.url, request.config, request.key, request.delegation)
    path = request.json_args
    given = {} if path is None else json_object(read_file(path, MAX_JSON_ARGS_BYTES).data, str(path))
    configure_logs("error", "text")
    for name in ("mcp", "httpx2", "httpcore2"):  # they would log proofs and results
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        outcome = asyncio.run(_call_tool(request, given))
    except Exception as error:  # the SDK raises what its parser, its transport or a task group raises
        outcome = _trouble(first_of(error), request, None)
    if isinstance(outcome, _Trouble):
        _tell(outcome)
        return 1
    if is_for_programs():
        print_json(outcome.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif not outcome.is_error:
        _print(outcome)
    if outcome.is_error:
        text = " ".join(each.text for each in outcome.content if isinstance(each, TextContent))
        _tell(_Trouble(f"{request.tool} failed: {text or 'it does not say why'}", (_TOOL_FAILED,)))
    return 1 if outcome.is_error else 0


async def _call_tool(request: CallOptions, given: dict[str, object]) -> CallToolResult | _Trouble:
    agent = None if request.key is None else Agent(request.key, request.delegation, request.gateway_id)
    way = (
        at_gate(request.config, request.server, agent, request.reach)
        if request.config is not None
        else at_url(request.url or "", request.server, agent, request.reach)
    )
    async with way as (client, presenter):
        try:
            seconds = LEG_SECONDS if request.reach.timeout is None else request.reach.timeout
            tools = await within(seconds, _tools(client), partial(RequestTimeout, seconds))
            tool = tools.get(request.tool)
            if tool is None:
                return _unknown(request.tool, tools)
            arguments = parse_arguments(tool.name, request.arg, given, tool.input_schema)
            result = await client.call_tool(tool.name, arguments, timeout=seconds)
            _tell_unasked(tool, presenter)
            return result
        except Exception as error:  # here the presenter is known, which the advice is about
            return _trouble(first_of(error), request, presenter)


def _tell_unasked(tool: Tool, presenter: ProofPresenter | None) -> None:
    """Tell the user if the endpoint executed the call without asking for a proof."""
    if (tool.meta or {}).get(OBSERVED) is True:
        tell('note: the gateway only observes (proofs.mode = "observe"): it asked for no proof, and records the call')
    elif presenter is None or not presenter.calls_proved:
        tell("note: the endpoint asked for no proof: whoever reaches it can make this call")


async def _tools(client: AccreditedClient) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_LIST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.update((tool.name, tool) for tool in page.tools)
        cursor = page.next_cursor
        if cursor is None or len(tools) > MAX_KNOWN_TOOLS:
            break
    return tools


def _unknown(name: str, tools: Iterable[str]) -> _Trouble:
    near = get_close_matches(name, tools, n=1)
    hint = f"is {near[0]} meant? " if near else ""
    listed = ", ".join(islice(tools, MAX_TOLD_CANDIDATES)) or "none"
    return _Trouble(f"no tool {name} is listed", (f"{hint}listed are: {listed}; {_NOT_LISTED}",))


def _trouble(error: BaseException, request: CallOptions, presenter: ProofPresenter | None) -> _Trouble:
    """Return what went wrong, in words. A `ConfigurationError` is raised again: then the command line is wrong."""
    match error:
        case ConfigurationError():
            raise error
        case ProofRefused():
            endpoint = "" if request.url is None else endpoint_of(request.url, request.server)
            caller = Caller(presenter, endpoint, "accredit call")
            what, *remedy = explain_refusal(error, caller, "tools/call", request.tool).splitlines()
            return _Trouble(what, tuple(remedy) or (_REFUSED,))
        case MCPError():
            data = error.error.data
            detail = excerpt(data, MAX_TOLD_REASON_CHARS) if isinstance(data, str) else ""
            what = excerpt(error.error.message.partition(f": {detail}" if detail else "\0")[0], MAX_TOLD_REASON_CHARS)
            told = f"{what}: {detail}" if detail else what
            if request.url is not None and detail.startswith(_OURS):
                away = detail.endswith(NOT_REACHED)
                return _Trouble(detail, (how_to_start(request.url, os.environ) if away else _here(_WAY),))
            if what.startswith("Upstream unavailable"):
                return _Trouble(told, (_ENDED if detail.startswith("the upstream ended") else _BEHIND,))
            if what.startswith("Not found: "):
                return _Trouble(what, (_here(_NOT_THERE),))
            return _Trouble(told, (_REFUSED,))
        case RequestTimeout():
            return _Trouble(str(error), ("give it more time with --timeout",))
        case InputRequestError():
            return _Trouble(f"the tool asks for something in between: {error}", (_ASKS,))
        case AccreditError():
            return _Trouble(str(error), (_REFUSED,))
        case _:
            return _Trouble(f"the answer can't be understood ({type(error).__name__})", (_REFUSED,))


def _here(remedy: str) -> str:
    """Add the endpoint of a gateway of the person's own that runs on this machine, if there is one."""
    here = endpoints_here(os.environ)
    return f"{remedy}. Here that is {here[0]}" if here else remedy


def _tell(trouble: _Trouble) -> None:
    first, *more = trouble.remedy
    click.echo(two_lines(trouble.what, first), err=True)
    for line in more:
        tell(line)


def _print(result: CallToolResult) -> None:
    texts = [each.text for each in result.content if isinstance(each, TextContent)]
    for text in texts:
        click.echo("\n".join(map(one_line, text.splitlines())))
    others = len(result.content) - len(texts)
    if others:
        tell(f"note: {several(others, 'part')} of the answer can't be shown as text; --json prints all of it")
    elif not texts and result.structured_content is not None:
        print_json(result.structured_content)
