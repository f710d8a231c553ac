"""Asks an MCP server what it offers, as the official SDK's client. I/O: HTTP, a child process, or neither.

A server behind a URL or a command is asked through a gateway of our own in this process, so that what it sends is
bounded and validated as it will be later, and a child is started and ended as `serve` would. It is asked twice, as
hosts that differ (`hosts`): what any of them is offered counts.

Every failure is a `ConfigurationError`, and what a child wrote to stderr is shown before it; a server that is slow to
answer is waited for, and stderr says so. What tools say of themselves is not looked at here.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import cast

import httpx2
from mcp import Client, MCPError
from mcp.client import ClientSession
from mcp.client.streamable_http import streamable_http_client

from accredit.cli.delegations.paper import tell
from accredit.cli.setup.hosts import EVERYTHING, NOTHING, Capabilities, declaring, no_roots
from accredit.cli.setup.in_process import InProcess
from accredit.cli.setup.listing import Offer, offer_of, together
from accredit.cli.setup.objects import imported, in_memory
from accredit.cli.setup.overheard import Overheard
from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.logs import configure_logs
from accredit.jsonrpc.encode import UPSTREAM_ERROR
from accredit.jsonrpc.text import excerpt
from accredit.limits import ASK_NOTICE_SECONDS, ASK_SECONDS, MAX_TOOL_LIST_BYTES

_ENDPOINT = "http://127.0.0.1/mcp"
"""What the gateway in this process is called. No socket is opened for it."""

_TRY_URL = "see whether it runs, what it logs, and whether the URL has its path, such as /mcp"
_TRY_COMMAND = "run the command by hand and see what it says: it has to speak MCP on stdin and stdout, and nothing else"
_TRY_OBJECT = "see what it logs, and whether a client of the same library can list its tools"


_Connection = contextlib.AbstractAsyncContextManager[tuple[str, ClientSession]]
_Connect = Callable[[Capabilities], _Connection]


def ask_upstream(upstream: HttpUpstream | StdioUpstream) -> Offer:
    """What a server offers, as a gateway in front of it gets to see it. Raises `ConfigurationError`."""
    configure_logs("error", "text")
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what it has to say comes back as an error
    return _ask_upstream(upstream)


def ask_object(place: str) -> Offer:
    """What the server object at `module:name` offers. Imports the module. Raises `ConfigurationError`."""
    server = imported(place)
    return _ask(lambda capabilities: in_memory(server, place, capabilities), _TRY_OBJECT)


def _ask_upstream(upstream: HttpUpstream | StdioUpstream) -> Offer:
    with Overheard() as overheard:
        try:
            remedy = _TRY_COMMAND if isinstance(upstream, StdioUpstream) else _TRY_URL
            return _ask(lambda capabilities: _through_gateway(upstream, capabilities), remedy)
        except ConfigurationError:
            overheard.tell()
            raise


def _ask(connect: _Connect, remedy: str) -> Offer:
    try:
        return asyncio.run(_offer(connect))
    except Exception as error:  # the SDK raises what its parser, its transport or a task group raises
        raise _fault(error, remedy) from None


async def _offer(connect: _Connect) -> Offer:
    deadline = asyncio.timeout(ASK_SECONDS)
    notice = f"waiting for the server to list its tools, for {ASK_SECONDS:.0f} s in all, as it may be installing itself"
    noticing = asyncio.get_running_loop().call_later(ASK_NOTICE_SECONDS, tell, notice)
    try:
        async with deadline:
            return await _offer_to_all(connect)
    except Exception:
        # What the SDK raises while it is torn down must not hide why.
        if deadline.expired():
            raise TimeoutError from None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        raise
    finally:
        noticing.cancel()


async def _offer_to_all(connect: _Connect) -> Offer:
    """What any host is offered. Raises what the first one met, where none is offered anything."""
    offers: list[Offer] = []
    refused: list[Exception] = []
    for capabilities in (EVERYTHING, NOTHING):
        try:
            async with connect(capabilities) as (server, session):
                offers.append(await offer_of(server, session))
        except Exception as error:
            first = _first(error)
            if not isinstance(first, MCPError) or first.code == UPSTREAM_ERROR:
                raise  # another host would fare no better
            refused.append(error)
    if not offers:
        raise refused[0]
    return together([*offers, *(Offer("") for _ in refused)])


def _fault(error: BaseException, remedy: str) -> ConfigurationError:
    error = _first(error)
    if isinstance(error, ConfigurationError):
        return error
    if isinstance(error, TimeoutError):
        what = f"the server did not list its tools in {ASK_SECONDS:.0f} s"
    elif isinstance(error, MCPError):
        detail = f": {error.error.data}" if isinstance(error.error.data, str) else ""
        what = f"the server did not list its tools: {excerpt(error.error.message + detail)}"
    else:
        what = f"what the server says of its tools can't be understood ({type(error).__name__})"
    return ConfigurationError(what, remedy)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


@contextlib.asynccontextmanager
async def _through_gateway(
    upstream: HttpUpstream | StdioUpstream, capabilities: Capabilities
) -> AsyncGenerator[tuple[str, ClientSession]]:
    settings = GatewaySettings(
        upstream,
        max_response_bytes=MAX_TOOL_LIST_BYTES,
        max_event_bytes=MAX_TOOL_LIST_BYTES,
        upstream_timeout_seconds=ASK_SECONDS,
    )
    app = create_app(settings)
    try:
        async with httpx2.AsyncClient(transport=InProcess(app), timeout=ASK_SECONDS) as http:
            transport = declaring(streamable_http_client(_ENDPOINT, http_client=http), capabilities)
            async with Client(transport, list_roots_callback=no_roots) as client:
                yield client.server_info.name if client.server_info is not None else "", client.session
    finally:
        app.drain()
        await app.aclose()
