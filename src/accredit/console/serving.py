"""The desk's process: the page on 127.0.0.1, the socket, and their shutdown. Runs an event loop.

- [loopback] It listens on 127.0.0.1 only, and advertises that address instead of `localhost`: another process may
  listen on `[::1]`, and so get requests to `localhost`.
- [memory] If the system offers it, other programs of the same user can't read the process's memory, and a crash does
  not write it to disk.
- [shutdown] On SIGTERM or SIGINT nothing more is accepted, and open pages and connections are closed. Pending asks stay
  unanswered: their programs may ask again.

Any user of the machine can open connections to the page:

- [bound] There are at most `MAX_PAGE_CONNECTIONS`. If one more comes, the oldest idle one is cut off.
- [idle] A connection is idle unless a request of a signed-in session is being answered on it, and the peer reads the
  answer. Strangers who keep sending requests, or don't read, must not keep the person out.
- [not-http] Bytes that are not HTTP get an answer with the headers of every answer, and the connection ends. The
  person's terminal says nothing of them.
"""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from accredit.base.clock import unix_ms, unix_seconds
from accredit.consent.held import ClientAsk
from accredit.console import browser
from accredit.console.admission import EVERY_ANSWER, SIGNED_IN
from accredit.console.api import Changes, Page, Work
from accredit.console.apps import AppsPart
from accredit.console.book import PendingAsk
from accredit.console.desk import Desk
from accredit.console.elsewhere import GatewayElsewhere, Watch
from accredit.console.gateways import Gateways
from accredit.console.health import HealthPart
from accredit.console.journal import Journal
from accredit.console.lists import ListPlace
from accredit.console.log_pages import CallsPart, LogPages
from accredit.console.page_views import AskedPart
from accredit.console.people import People
from accredit.console.people_part import PeoplePart, RevocationContext
from accredit.console.sessions import Sessions
from accredit.console.socket import DeskSocket, listen
from accredit.console.unlock import KeyHolder
from accredit.errors import ConfigurationError
from accredit.keys import KeyFile
from accredit.limits import LISTEN_BACKLOG

BROWSER_SECONDS = 60
"""An ask opens a browser window only if the last one was opened at least this many seconds ago."""
MAX_DESK_THREADS = 64
"""How many threads the desk may have. That is twice as many as can look up gateways' names at one time, so that some
are left for the key, the log and the lists."""


_LOOPBACK = "127.0.0.1"
_PORTS_TRIED = 20
_GRACE_SECONDS = 2


class DeskPlaces(Struct, frozen=True):
    """The paths of the desk's files: its socket, its journal's folder, and the folder of keys and names."""

    socket: Path
    state: Path
    keys: Path


class DeskSources(Struct, frozen=True):
    """The desk's sources about the gateways on this machine. `names` returns names by the ids of keys and gateways, and
    `gateways` the ids of gateways by URL. `check_app` is that of `AppsPart`. `lists` are the places of the person's
    revocation list. `log` is the log that the pages show. `logs` are all logs, by the ids of their gateways; the log
    under "" may be that of any other gateway. `at` are the public URLs of gateways elsewhere."""

    names: Callable[[], Mapping[str, str]]
    gateways: Callable[[], Mapping[str, str]]
    check_app: Callable[[ClientAsk], None]
    lists: Sequence[ListPlace] = ()
    log: LogPages | None = None
    logs: Mapping[str, LogPages] = {}
    at: Sequence[str] = ()

    def log_of(self, gateway_id: str) -> LogPages | None:
        """Return the log of a gateway, or of one of its servers (`GATEWAY/SERVER`)."""
        own = gateway_id.rpartition("/")[0]
        return self.logs.get(gateway_id) or self.logs.get(own) or self.logs.get("")


def open_page_listener(port: int) -> socket.socket:
    """Listen on 127.0.0.1, at this port or else at the next free one. Raises `ConfigurationError`."""
    for candidate in range(port, min(port + _PORTS_TRIED, 65_536)) if port else [0]:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_LOOPBACK, candidate))
            listener.listen(LISTEN_BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ConfigurationError(f"can't listen on {_LOOPBACK}: {error.strerror}", "say --port 0") from None
            continue
        return listener
    raise ConfigurationError(f"no port from {port} on is free", "choose another: --port 0 finds one")


class PageServer:
    """The page on 127.0.0.1, and the links to it. `folder` is private to the user. `tell` prints a line for the person
    who started the process. `told` says where that line appears: in the `terminal`, or in the `log`."""

    def __init__(
        self,
        port: int,
        environ: Mapping[str, str],
        folder: Path,
        tell: Callable[[str], None],
        *,
        wants_browser: bool,
        told: str = "terminal",
    ) -> None:
        """Open the listener. Raises `ConfigurationError`."""
        self.changes = Changes(unix_ms())
        self._sessions = Sessions()
        self._tell = tell
        self._told = told
        self._folder = folder
        self._listener = open_page_listener(port)
        self._address = f"{_LOOPBACK}:{self._listener.getsockname()[1]}"
        self._has_browser = wants_browser and browser.has_browser(environ)
        self._opened_at = 0
        self._opening: set[asyncio.Task[object]] = set()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{self._address}"

    async def run(self, works: Mapping[str, Work], state: Callable[[], dict[str, Any]] = dict[str, Any]) -> None:
        """Serve until stopped."""
        page = Page(works, state, self._sessions, self.changes, self._address, unix_seconds)
        config = uvicorn.Config(
            page,
            http=PageConnection,
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        browser.clear(self._folder)
        try:
            await _Server(config, self._announce, self.changes.end).serve([self._listener])
        finally:
            self._listener.close()
            browser.clear(self._folder)

    def show(self, code: str) -> None:
        """Open a browser or print a link for a new ask. If a page is open, do nothing: it shows the ask by itself."""
        path = f"/a/{code}"
        if self.changes.watched:
            return
        if self._has_browser and unix_seconds() - self._opened_at >= BROWSER_SECONDS:
            self._open(path)
        else:
            self._tell(
                f"asked: code {code}; `accredit desk open {code}` shows it, `accredit approve {code}` answers here"
            )

    async def open_page(self, code: str = "") -> str:
        """Open the page, or that of the ask with this code, on request. Return where it appeared, but not the link:
        that stays with this process."""
        path = f"/a/{code}" if code else "/"
        if self._has_browser and await browser.open_browser(self._folder, self._link(path)):
            return "browser"
        self._tell_link(path)
        return self._told

    def _announce(self) -> None:
        self._tell_link("/")
        if self._has_browser:
            self._open("/")

    def _tell_link(self, path: str) -> None:
        self._tell(f"desk: {self._link(path)}")
        self._tell("  the link is good once, for a minute; `accredit desk open` gives another")

    def _link(self, path: str) -> str:
        return f"{self.url}{path}#k={self._sessions.new_link(unix_seconds())}"

    def _open(self, path: str) -> None:
        self._opened_at = unix_seconds()
        task = asyncio.ensure_future(browser.open_browser(self._folder, self._link(path)))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)


class DeskProcess:
    """A desk ready to run: its key, its socket and its page, which also shows what the `sources` hold."""

    def __init__(
        self,
        person: KeyFile,
        keys: Callable[[Callable[[], None]], KeyHolder],
        places: DeskPlaces,
        server: PageServer,
        sources: DeskSources,
    ) -> None:
        """Do everything that can fail. Raises `ConfigurationError`."""
        self._socket = places.socket
        self._server = server
        self._journal = Journal(places.state)
        changed = server.changes.note
        self._desk = Desk(person, keys(changed), self._journal, unix_seconds, changed)
        self._asked = AskedPart(self._desk, sources.names, sources.log_of)
        self._control = listen(places.socket)
        elsewhere = [GatewayElsewhere(url, person.id, unix_seconds) for url in sources.at]
        self._apps = AppsPart(self._desk, elsewhere, places.keys, sources.check_app)
        calls: Mapping[str, Work] = {}
        if sources.log is not None:
            calls = CallsPart(sources.log, sources.logs).routes()
        people = self._about_people(places.keys, sources, elsewhere)
        self._works = {**self._asked.routes(), **self._apps.routes(), **calls, **people}
        self._watches = [Watch(each, self._desk, self._show) for each in elsewhere]

    def _about_people(
        self, folder: Path, sources: DeskSources, elsewhere: Sequence[GatewayElsewhere]
    ) -> Mapping[str, Work]:
        desk, gateways, log = self._desk, Gateways(sources.gateways), sources.log
        people = People(log, folder, lists=sources.lists, person=desk.person, signed=lambda: desk.past.signed)

        def names() -> Mapping[str, str]:
            return {desk.person.id: desk.person.name, **sources.names()}

        taking = RevocationContext(desk, sources.lists, gateways, people, elsewhere)
        return {**PeoplePart(people, names, taking).routes(), **HealthPart(gateways, people, names, log).routes()}

    async def run(self) -> int:
        """Serve until stopped; return the exit code."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MAX_DESK_THREADS))
        control = DeskSocket(
            self._desk,
            self._server.url,
            circumstances=self._asked.circumstances,
            apps=self._apps.waiting,
            show=self._show,
            open_page=self._server.open_page,
        )
        accepting = await control.serve(self._control)
        watching = [asyncio.ensure_future(each.run()) for each in self._watches]
        try:
            await self._server.run(self._works, self._asked.state)
        finally:
            for each in watching:
                each.cancel()
            accepting.close()
            control.close()
            self._desk.keys.lock()
            self._journal.close()
            with contextlib.suppress(OSError):
                self._socket.unlink(missing_ok=True)
        return 0

    def _show(self, asked: PendingAsk) -> None:
        self._server.show(asked.ask.code)


async def run_read_only(server: PageServer, log: LogPages, known: Callable[[], Mapping[str, str]]) -> int:
    """Serve the pages of a log until stopped, without a key and without a socket. Return the exit code. `known` returns
    the ids of gateways by URL."""
    people = People(log, lists=[ListPlace(log.store, log.store.name)])
    health = HealthPart(Gateways(known), people, log.names, log)
    await server.run({**CallsPart(log).routes(), **PeoplePart(people, log.names).routes(), **health.routes()})
    return 0


class _Server(uvicorn.Server):
    """A server that ends on a signal without raising it again. It first calls `on_end`, which releases streams that
    would wait for ever. It calls `on_start` once connections are accepted and signals are handled."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        # A shell has the jobs of its background ignore SIGINT: a Ctrl-C there is meant for others.
        heard = [each for each in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(each) is not signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.should_exit = True
        self._on_end()


MAX_PAGE_CONNECTIONS = 64
"""How many connections to the desk's page there may be. Any user of the machine can open them: one more closes the
oldest idle one. Commands don't need them: they use the socket."""


class PageConnection(H11Protocol):
    """One connection to the desk's page."""

    opened_at = 0.0
    """When the connection was opened, by the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection. If there are now too many, cut off the oldest idle one ([bound])."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        if len(self.connections) > MAX_PAGE_CONNECTIONS:
            resting = [each for each in self.connections if isinstance(each, PageConnection) and each.rests]
            min(resting, key=_age, default=self).transport.abort()  # `close` waits until the peer has read all

    @property
    def rests(self) -> bool:
        """Whether the connection is idle, and so may be cut off ([idle])."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete or self.flow.write_paused:
            return True
        return not cycle.scope["state"].get(SIGNED_IN)

    def send_400_response(self, msg: str) -> None:
        """Answer 400 to bytes that are not HTTP, and close the connection ([not-http]). The answer has the headers that
        every answer has."""
        headers = [*EVERY_ANSWER, (b"content-type", b"text/plain"), (b"connection", b"close")]
        lines = [b"HTTP/1.1 400 Bad Request", *(name + b": " + value for name, value in headers), b"", msg.encode()]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()


def _age(connection: PageConnection) -> float:
    return connection.opened_at
