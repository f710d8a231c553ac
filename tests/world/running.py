"""Runs a test's coroutine, and the real gateway in it, under the event loop and the HTTP server of production.

I/O: sockets on 127.0.0.1. What is left over when a test ends (a task, an exception that nobody saw, an error of the
HTTP server) fails it.
"""

import asyncio
import logging
import warnings
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest
import uvicorn
import uvloop
from tests.world.asgi_connection import AsgiConnection
from tests.world.raw_server import until
from uvicorn.server import ServerState

from accredit.app.http11 import HttpConnection
from accredit.app.server import CLIENT_IDLE_SECONDS
from accredit.gateway import GatewaySettings, create_app
from accredit.gateway.app import Gateway

T = TypeVar("T")
ASGIApplication = Any


def run(
    main: Coroutine[Any, Any, T],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> T:
    """Runs `main` in a new event loop: uvloop's, where nothing else is asked for."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    try:
        result = runner.run(_supervised(main))
    finally:
        left_open = _closed(runner)
    assert not left_open, f"left open: {left_open}"
    return result


def _closed(runner: asyncio.Runner) -> list[str]:
    """Closes the event loop; gives what was still open in it."""
    # A warning that is an error would keep uvloop from closing what it warns of, and uvloop waits for that for ever.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        runner.close()
    return [str(each.message) for each in caught]


async def _supervised(main: Coroutine[Any, Any, T]) -> T:
    unseen: list[dict[str, Any]] = []
    timeouts: list[BaseException] = []
    me = asyncio.current_task()
    assert me is not None

    def notice(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, pytest.fail.Exception):  # the test's time is up, and uvloop says so nowhere else
            timeouts.append(error)
            me.cancel()
        else:
            unseen.append(context)

    asyncio.get_running_loop().set_exception_handler(notice)
    try:
        result = await main
    except asyncio.CancelledError:
        for error in timeouts:
            raise error from None
        raise

    def left_over() -> set[asyncio.Task[Any]]:
        others = asyncio.all_tasks() - {me}
        # That of sse-starlette, beneath the SDK's own servers, lives as long as its loop.
        return {each for each in others if "_shutdown_watcher" not in repr(each)}

    try:
        await until(lambda: not left_over())
    except TimeoutError:
        raise AssertionError(f"tasks left over: {left_over()}") from None
    assert not unseen, f"exceptions that nobody saw: {unseen}"
    return result


class ServerErrors(logging.Handler):
    """Collects what the HTTP server reports as an error: an application that raised, or stopped in the middle."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        formatter = logging.Formatter()
        self.texts.append(formatter.format(record))


FAST, ASGI = "fast", "asgi"
_roads = [FAST]


@contextmanager
def by_road(road: str) -> Generator[None]:
    """Which road the gateways that are started within take: `FAST`, as `accredit serve`, or `ASGI`, as where one is
    mounted."""
    _roads.append(road)
    try:
        yield
    finally:
        _roads.pop()


class RunningGateway:
    """`async with RunningGateway(settings) as gateway`: serves on a free port until the block is left.

    The protocol of `accredit serve`, without uvicorn's `Server`, whose loop takes 0.2 s to stop. What uvicorn reports
    as an error fails the test, unless it breaks an answer off on purpose and says so with `reports_errors`.
    """

    def __init__(self, served: GatewaySettings | ASGIApplication, *, reports_errors: bool = False) -> None:
        self.app = create_app(served) if isinstance(served, GatewaySettings) else served
        self._reports_errors = reports_errors
        self._errors = ServerErrors()
        fast = _roads[-1] == FAST and isinstance(self.app, Gateway)
        self._protocol_of = HttpConnection if fast else AsgiConnection
        self._config = uvicorn.Config(
            self.app,
            http=self._protocol_of,
            ws="none",
            interface="asgi3",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=CLIENT_IDLE_SECONDS,  # more than `PATIENCE`: what is left open is seen
        )
        self.state = ServerState()

    async def __aenter__(self) -> Self:
        logging.getLogger("accredit.app").addHandler(self._errors)
        self._config.load()
        self._lifespan = self._config.lifespan_class(self._config)
        await self._lifespan.startup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        if hasattr(self.app, "drain"):
            self.app.end_streams()
        for connection in list(self.state.connections):
            connection.shutdown()
        try:
            if error is None:
                await until(lambda: not self.state.connections and not self.state.tasks)
        finally:
            for task in self.state.tasks:
                task.cancel()
            await self._server.wait_closed()
            await self._lifespan.shutdown()
            logging.getLogger("accredit.app").removeHandler(self._errors)
        if error is None and not self._reports_errors:
            assert not self._errors.texts, "\n".join(self._errors.texts)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def _protocol(self) -> asyncio.Protocol:
        return self._protocol_of(config=self._config, server_state=self.state, app_state=self._lifespan.state)
