"""What integration tests share: the official SDK's everything server, as one process for a whole module, and ports."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conformance.targets import direct
from tests.world.ports import reserved_port


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


@pytest.fixture
def free_port() -> Generator[Callable[[], int]]:
    """Ports for programs that a test starts with a number; nobody else gets them before the test ends."""
    with ExitStack() as reserved:
        yield lambda: reserved.enter_context(reserved_port())
