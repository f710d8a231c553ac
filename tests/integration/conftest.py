"""What integration tests share: the official SDK's everything server and a gateway before the mail server, each as one
process for a whole module, whom that gateway trusts, an agent's files, a browser, a person's household, a newcomer,
ports, and what `make dist` makes."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import uvloop
from tests.conformance.targets import direct
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import Trust
from tests.world.browser import chromium
from tests.world.built import build
from tests.world.command import Serving
from tests.world.desk import Desk
from tests.world.household import Household
from tests.world.mail import mail_server
from tests.world.ports import reserved_port
from tests.world.running import ASGI, FAST, by_road
from tests.world.up import Newcomer

BOTH_ROADS = {
    "test_besieged_http",
    "test_sessions_shared",
    "test_stateless_era",
    "test_transparent_requests",
}
"""Modules of which each test runs over the fast and the ASGI road, as what they ask is how a client is read. Of others
that use `RunningGateway` the second is in `make test-long`: that both roads answer with the same bytes, also where a
server's answer is wrong, broken off or a stream, is held by `tests/property/test_two_roads.py`."""
BOTH_ROADS_AT_LENGTH = {
    "test_dropped_answers",
    "test_hostile_batches",
    "test_hostile_frames",
    "test_hostile_heads",
    "test_hostile_http",
    "test_hostile_sizes",
    "test_hostile_standing",
    "test_hostile_streams",
    "test_hostile_times",
    "test_one_reading",
    "test_records_gateway",
    "test_records_resumed",
    "test_replicas",
    "test_sealed_state",
    "test_tasks",
    "test_tokens_gateway",
    "test_transparent_headers",
    "test_transparent_observe",
    "test_transparent_params",
    "test_transparent_streams",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Has tests run over both roads."""
    module = cast(ModuleType, metafunc.module).__name__.rpartition(".")[2]
    if module in BOTH_ROADS | BOTH_ROADS_AT_LENGTH:
        metafunc.fixturenames.append("road")
        second = pytest.param(ASGI, marks=[pytest.mark.long] if module in BOTH_ROADS_AT_LENGTH else [])
        metafunc.parametrize("road", [FAST, second], indirect=True)


@pytest.fixture
def road(request: pytest.FixtureRequest) -> Generator[str]:
    """The road that the test's gateways take."""
    with by_road(request.param):
        yield request.param


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop in which a test runs that is a coroutine; uvloop's without this."""
    return cast(Callable[[], asyncio.AbstractEventLoop], request.param)


class SdkServer:
    """A running server: `url` is its endpoint."""

    def __init__(self, url: str, requests: Path) -> None:
        self.url = url
        self._requests = requests

    def methods(self) -> list[str]:
        """The methods of all requests that have reached a handler so far."""
        text = self._requests.read_text() if self._requests.exists() else ""
        return [line.split()[1] for line in text.splitlines()]


@pytest.fixture(scope="module")
def sdk_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[SdkServer]:
    """The everything server behind streamable HTTP."""
    folder = tmp_path_factory.mktemp("sdk")
    requests = folder / "requests.txt"
    with direct(folder, requests) as url:
        yield SdkServer(url, requests)


@pytest.fixture(scope="module")
def trust() -> Trust:
    """An owner, and the agent that has the owner's delegations."""
    return Trust()


@pytest.fixture(scope="module")
def gateway(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    """The real one, which wants proofs, before the mail server."""
    files = agent_files(tmp_path_factory.mktemp("gateway"), trust)
    with Serving("--config", "accredit.toml", folder=files.folder) as serving:
        yield serving


@pytest.fixture
def files(trust: Trust, tmp_path: Path) -> AgentFiles:
    """Those of an agent that may read, and has to ask for what else it does."""
    return agent_files(tmp_path, trust, "email:read")


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    """Chromium, as Playwright drives it."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of the mail server, which asks for nothing."""
    with mail_server(tmp_path_factory.mktemp("mail")) as url:
        yield url


@pytest.fixture
def person(tmp_path: Path, free_port: Callable[[], int]) -> Newcomer:
    """Somebody with an empty home."""
    return Newcomer(tmp_path, free_port())


@pytest.fixture
def desk(tmp_path: Path) -> Generator[Desk]:
    """A person's desk, whose key has no passphrase."""
    with Desk(tmp_path) as running:
        yield running


@pytest.fixture
def signed_in(browser: Any, desk: Desk) -> Generator[Callable[..., Any]]:
    """Opens pages of the desk at a path, signed in; no script of theirs may fail."""
    faulty: list[object] = []
    with ExitStack() as contexts:

        def note(error: object) -> None:
            faulty.append(error)

        def open_page(path: str = "/", **options: Any) -> Any:
            context = contexts.enter_context(browser.new_context(**options))
            context.on("weberror", note)
            return desk.page(context, path)

        yield open_page
    assert faulty == []


@pytest.fixture
def home(tmp_path: Path) -> Household:
    """A person's, with a gateway and an agent to which they have delegated."""
    return Household(tmp_path)


@pytest.fixture
def free_port() -> Generator[Callable[[], int]]:
    """Ports for programs that a test starts with a number; nobody else gets them before the test ends."""
    with ExitStack() as reserved:
        yield lambda: reserved.enter_context(reserved_port())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes, and an environment with its wheel (`build`)."""
    return build(tmp_path_factory.getbasetemp())
