"""Asks an MCP server what it offers, with the official SDK's client. I/O: HTTP, a child process, or neither.

A server behind a URL or a command is asked through a gateway in this process. So its messages are bounded and validated
as they will be later, and a child is started and ended as by `serve`. It is asked twice, as different hosts (`hosts`),
and the results are merged. A URL is probed first (`probe`).

Every failure is a `ConfigurationError`, preceded by the child's output on stderr. Lines on a child's stdout that are
not messages are quoted at once. If a server is slow, the user is told. Not judged here: the tools' descriptions of
themselves.
"""

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import httpx2
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from accredit.asking.hosts import EVERYTHING, NOTHING, Capabilities, declaring, no_roots
from accredit.asking.in_process import InProcess
from accredit.asking.listing import Connected, ServerListing, offer_of, together
from accredit.asking.objects import import_object, in_memory
from accredit.asking.probe import ServerEndpoint, add_access_token, probe_url
from accredit.asking.reaching import Reach, add_headers
from accredit.base.log_events import configure_logs, fields_of
from accredit.base.text import excerpt, one_line
from accredit.config.build import build_upstream
from accredit.config.load import Loaded
from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.jsonrpc.encode import UPSTREAM_ERROR
from accredit.limits import MAX_QUOTED, MAX_TOOL_LIST_BYTES, SERVER_LISTS_SECONDS
from accredit.pins.definitions import ListReader
from accredit.terminal.output import tell
from accredit.terminal.progress import Progress

SERVERS_ASKED_AT_ONCE = 8
"""How many servers of a configuration `accredit check` asks at one time. Each may start a program of 100 MB."""
ASK_NOTICE_SECONDS = 10.0
"""After how many seconds of waiting for a server's lists the user is told. Servers that are already installed start in
a second or two, and are asked twice."""
MAX_STRAY_LINES = 3
"""How many lines of a server's stdout that are not messages are quoted. A server is asked twice, and prints the same
each time, so lines with the same first `MAX_QUOTED` characters count as one."""
MAX_OVERHEARD_LINES = 20
"""How many of the last lines of a server's stderr are shown if it could not be asked: a traceback, or npm's
complaint."""


_ENDPOINT, _STREAM = "http://127.0.0.1/mcp", "http://127.0.0.1/sse"
"""The URLs at which the in-process gateway is addressed, one for each HTTP transport. No socket is opened."""

_TRY_URL = "see whether it runs, what it logs, and whether the URL has its path, such as /mcp"
_TRY_COMMAND = "run the command by hand and see what it says: it has to speak MCP on stdin and stdout, and nothing else"
_TO_STDERR = "have it print that to stderr, in Python by print(..., file=sys.stderr); if that does not help, "
_TRY_OBJECT = "see what it logs, and whether a client of the same library can list its tools"


_Connection = contextlib.AbstractAsyncContextManager[Connected]
_Connect = Callable[[Capabilities], _Connection]


_Upstream = HttpUpstream | StdioUpstream


def ask_upstream(
    upstream: _Upstream, *, follow: bool = False, seconds: float | None = None, place: str = "upstream"
) -> tuple[ServerListing, _Upstream]:
    """Return what a server offers to a gateway in front of it, and the server as it was reached: with `follow`,
    redirects may have changed its URL.

    `seconds` is the total timeout; `place` is the server's table in the configuration. Raises `ConfigurationError`.
    """
    _quiet()
    with Progress("asking the server what it offers"):
        return asyncio.run(_ask_upstream(upstream, follow=follow, seconds=seconds, place=place))


def ask_configured(loaded: Loaded, reach: Reach) -> ServerListing:
    """Return what the server of a configuration, or of a view, offers. Raises `ConfigurationError`, which names the
    server if there are several."""
    (asked,) = ask_each([loaded], reach).values()
    if isinstance(asked, ConfigurationError):
        raise asked
    return asked


def ask_each(servers: Iterable[Loaded], reach: Reach) -> dict[str, ServerListing | ConfigurationError]:
    """Return each server's offer or error, by the server's name. Several servers are asked concurrently."""
    _quiet()
    views = list(servers)
    what = "asking the server what it offers" if len(views) == 1 else f"asking {len(views)} servers what they offer"
    with Progress(what) as progress:
        return asyncio.run(_ask_each(views, reach, progress))


async def _ask_each(
    servers: Sequence[Loaded], reach: Reach, progress: Progress
) -> dict[str, ServerListing | ConfigurationError]:
    room = asyncio.Semaphore(SERVERS_ASKED_AT_ONCE)

    async def ask(loaded: Loaded) -> ServerListing | ConfigurationError:
        try:
            async with room:
                upstream = add_headers(build_upstream(loaded, os.environ), reach)
                place = loaded.place("upstream")
                offer, _ = await _ask_upstream(upstream, seconds=reach.timeout, place=place, name=loaded.server)
        except ConfigurationError as error:
            what = f"{loaded.server}: {error.what}" if loaded.server else error.what
            return ConfigurationError(what, error.remedy)
        finally:
            progress.done += len(servers) > 1
        return offer

    found = await asyncio.gather(*map(ask, servers))
    return {loaded.server: each for loaded, each in zip(servers, found, strict=True)}


def ask_object(place: str) -> ServerListing:
    """Import `module:name` and return that server object's offer. Raises `ConfigurationError`."""
    server = import_object(place)
    with Progress("asking the server what it offers"):
        asked = _ask(lambda capabilities: in_memory(server, place, capabilities), _TRY_OBJECT, SERVER_LISTS_SECONDS)
        return asyncio.run(asked)


def _quiet() -> None:
    configure_logs("error", "text")
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what it has to say comes back as an error


async def _ask_upstream(
    upstream: _Upstream,
    *,
    follow: bool = False,
    seconds: float | None = None,
    place: str = "upstream",
    name: str = "",
) -> tuple[ServerListing, _Upstream]:
    seconds = seconds or SERVER_LISTS_SECONDS
    if isinstance(upstream, HttpUpstream):
        upstream = await add_access_token(upstream, place)
        door = await probe_url(upstream, follow=follow, seconds=seconds, place=place)
        offer = await _ask(lambda capabilities: _through_gateway(door, capabilities), _TRY_URL, seconds, name)
        return offer, door.upstream
    with _Overheard(name) as overheard:
        try:
            behind = ServerEndpoint(replace(upstream, on_stray_line=overheard.quote))
            offer = await _ask(lambda able: _through_gateway(behind, able), _TRY_COMMAND, seconds, name)
        except ConfigurationError as error:
            overheard.tell()
            if not overheard.strays:
                raise
            raise ConfigurationError(f"{error.what}; {overheard.strays[0]}", _TO_STDERR + error.remedy) from None
    return offer, upstream


async def _ask(connect: _Connect, remedy: str, seconds: float, name: str = "") -> ServerListing:
    try:
        return await _offer(connect, seconds, name or "the server")
    except Exception as error:  # the SDK raises what its parser, its transport or a task group raises
        raise _fault(error, remedy, seconds) from None


async def _offer(connect: _Connect, seconds: float, name: str) -> ServerListing:
    deadline = asyncio.timeout(seconds)

    def notice() -> None:
        overheard = _overhearing.get()
        why = "" if overheard is not None and overheard.strays else ", as it may be installing itself"
        tell(f"waiting for {name} to list its tools, for {seconds:.0f} s in all{why}")

    noticing = asyncio.get_running_loop().call_later(ASK_NOTICE_SECONDS, notice)
    try:
        async with deadline:
            return await _offer_to_all(connect)
    except Exception:
        # What the SDK raises during teardown must not hide the cause.
        if deadline.expired():
            raise TimeoutError from None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        raise
    finally:
        noticing.cancel()


async def _offer_to_all(connect: _Connect) -> ServerListing:
    """Merge what the server offers to each of the two hosts. If every host is refused, raise the first one's error."""
    offers: list[ServerListing] = []
    refused: list[Exception] = []
    for capabilities in (EVERYTHING, NOTHING):
        try:
            async with connect(capabilities) as connected:
                offers.append(await offer_of(connected))
        except Exception as error:
            first = first_of(error)
            if not isinstance(first, MCPError) or first.code == UPSTREAM_ERROR:
                raise  # another host would fare no better
            refused.append(error)
    if not offers:
        raise refused[0]
    return together([*offers, *(ServerListing("") for _ in refused)])


def _fault(error: BaseException, remedy: str, seconds: float) -> ConfigurationError:
    error = first_of(error)
    if isinstance(error, ConfigurationError):
        return error
    if isinstance(error, TimeoutError):
        what = f"the server did not list its tools in {seconds:.0f} s"
        remedy += "; or give it more time: --timeout SECONDS"
    elif isinstance(error, MCPError):
        detail = f": {error.error.data}" if isinstance(error.error.data, str) else ""
        what = f"the server did not list its tools: {excerpt(error.error.message + detail)}"
    else:
        what = f"what the server says of its tools can't be understood ({type(error).__name__})"
    return ConfigurationError(what, remedy)


def first_of(error: BaseException) -> BaseException:
    """Return the first single error in a group: the SDK's task groups wrap every error."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


@contextlib.asynccontextmanager
async def _through_gateway(door: ServerEndpoint, capabilities: Capabilities) -> AsyncGenerator[Connected]:
    settings = GatewaySettings(
        door.upstream,
        max_response_bytes=MAX_TOOL_LIST_BYTES,
        max_event_bytes=MAX_TOOL_LIST_BYTES,
        upstream_timeout_seconds=SERVER_LISTS_SECONDS,
    )
    reader = ListReader()
    app = create_app(settings, on_tools=reader.add)

    def client_of(**_sdks_own: object) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=InProcess(app), timeout=SERVER_LISTS_SECONDS)

    try:
        async with client_of() as http:
            streams = sse_client(_STREAM, httpx_client_factory=cast("Any", client_of))
            inner = streams if door.sse else streamable_http_client(_ENDPOINT, http_client=http)
            # HTTP+SSE is an old revision without `server/discover`.
            mode = "legacy" if door.sse else "auto"
            async with Client(declaring(inner, capabilities), list_roots_callback=no_roots, mode=mode) as client:
                name = client.server_info.name if client.server_info is not None else ""
                yield Connected(name, client.session, reader.tools)
    finally:
        app.end_streams()
        await app.aclose()


_overhearing: ContextVar["_Overheard | None"] = ContextVar("accredit_overhearing", default=None)


class _Overheard(logging.Handler):
    """Within its `with` block, keeps a child's lines on stderr, which the gateway logs; the log level doesn't matter.
    Only lines of a child that this task, or a task started by it, has started are kept."""

    _entered: ClassVar[int] = 0

    def __init__(self, name: str) -> None:
        super().__init__(logging.INFO)
        self._name = name or "the server"
        self._logger = logging.getLogger("accredit.gateway.stdio")
        self._lines: deque[str] = deque(maxlen=MAX_OVERHEARD_LINES)
        self._before = logging.WARNING
        self._pid: object = None
        self.strays: list[str] = []

    def quote(self, line: bytes) -> None:
        """Print, in a sentence, a line of the child's stdout that is not a message. Each is printed once, and only a
        few in all."""
        words = one_line(line[: 4 * MAX_QUOTED].decode("utf-8", "replace").strip()[:MAX_QUOTED])
        stray = f"{self._name} wrote to stdout what is not JSON-RPC: '{words}'"
        if words and stray not in self.strays and len(self.strays) < MAX_STRAY_LINES:
            self.strays.append(stray)
            tell(f"warning: {stray}; have it print to stderr")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line from the child."""
        if _overhearing.get() is not self:
            return
        if record.getMessage() == "upstream_stderr":
            fields = fields_of(record)
            if fields.get("pid") != self._pid:  # it was started again: what it says now is what counts
                self._lines.clear()
            self._pid = fields.get("pid")
            self._lines.append(str(fields.get("line", "")))
        elif record.levelno >= self._before:
            logging.getLogger().handle(record)

    def tell(self) -> None:
        """Print the kept lines, which are the child's last ones, to stderr."""
        for line in self._lines:
            tell(f"{self._name}: {line}")

    def __enter__(self) -> Self:
        self._token = _overhearing.set(self)
        self._before = logging.getLogger().getEffectiveLevel()
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._logger.addHandler(self)
        _Overheard._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        _overhearing.reset(self._token)
        self._logger.removeHandler(self)
        _Overheard._entered -= 1
        if not _Overheard._entered:
            self._logger.propagate = True
            self._logger.setLevel(logging.NOTSET)
