"""What integration tests share: stores that wait for a busy disk, and the official SDK's everything server, as one
process for a whole module."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.conformance.targets import direct
from tests.world.raw_server import PATIENCE

from accredit.stores import database, log, revocation, worker


@pytest.fixture(autouse=True)
def patient_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process a machine that stalls for seconds is no reason to refuse a call."""
    for module in (database, log, revocation, worker):
        for name in ("STORE_WAIT_SECONDS", "STORE_LOCK_SECONDS"):
            monkeypatch.setattr(module, name, PATIENCE, raising=False)


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
