"""A database whose clock goes wrong, with a real server and a real gateway: seen before it does harm, and refused when
it could."""

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.integration.test_admin import admin_port, get, number
from tests.integration.test_postgres_gateways import Fleet, said, url_of
from tests.world.besieged import Reading
from tests.world.command import wait_until
from tests.world.logs import disconnecting
from tests.world.postgres import Cluster, faketime, need_postgres
from tests.world.raw_server import RawServer

pytestmark = pytest.mark.slow


@pytest.fixture
def clock() -> Generator[Path]:
    """By how much the server's clock is wrong, as the library reads it: where the server's user can."""
    with tempfile.TemporaryDirectory(prefix="accredit-") as folder:
        Path(folder).chmod(0o755)
        (file := Path(folder) / "clock").write_text("+0\n")
        yield file


@pytest.fixture
def server(clock: Path) -> Generator[Cluster]:
    library = faketime()
    if library is None:
        assert not os.environ.get("CI"), "continuous integration has faketime"
        pytest.skip("libfaketime is not installed (apt-get install faketime)")
    faked = {"LD_PRELOAD": str(library), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    cluster = Cluster(need_postgres(), {**faked, "FAKETIME_TIMESTAMP_FILE": str(clock)})
    yield cluster
    cluster.close()


@pytest.mark.holds("stores/postgres/session", "clocks")
async def test_a_database_with_another_time_is_told_of_before_calls_are_refused_for_it__and_while_they_are(
    server: Cluster, clock: Path, tmp_path: Path
) -> None:
    database = server.fresh()

    def shown(gateway: int) -> float:
        return number(get(gateway, "/metrics")[1], "accredit_store_skew_seconds")

    def ready(gateway: int) -> bool:
        return get(gateway, "/readyz?scope=gateway")[0] == 200

    def set_to(off: str) -> None:
        clock.write_text(f"{off}\n")
        server.run(*disconnecting(database))  # the clock is looked at when a connection is made, not only in a while

    async with RawServer(Reading()) as upstream:
        fleet = Fleet(tmp_path, url_of(database), upstream.url)
        with (tmp_path / "accredit.toml").open("a") as file:
            file.write("[admin]\nport = 0\n")
        with fleet.serving() as gateway:
            admin = admin_port(gateway)
            assert "result" in await said(gateway.port, fleet.call("mail://1"))
            assert ready(admin)

            set_to("-3.5")  # tolerated, and told
            wait_until(lambda: ready(admin) and shown(admin) > 2)
            assert 3 < shown(admin) <= 3.6
            assert "the database's clock and this machine's differ" in gateway.stderr
            assert "result" in await said(gateway.port, fleet.call("mail://2"))

            set_to("+60")
            wait_until(lambda: not ready(admin))
            refused = (await said(gateway.port, fleet.call("mail://3")))["error"]
            assert refused["code"] == -31003
            assert refused["data"]["reason"].startswith("store_unavailable")
            wait_until(lambda: shown(admin) > 5)  # or the alert would be silent while all calls are refused
            assert 59 < shown(admin) < 61

            set_to("+0")
            wait_until(lambda: ready(admin))
            assert "result" in await said(gateway.port, fleet.call("mail://4"))
            gateway.stop()
