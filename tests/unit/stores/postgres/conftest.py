"""What the tests of the store in PostgreSQL share. The server is a real one."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.world.postgres import Cluster, cluster, database_for

from accredit.stores.lasting import PostgresDatabase


@pytest.fixture
def server() -> Cluster:
    return cluster()


@pytest.fixture
def database(tmp_path: Path) -> Generator[PostgresDatabase]:
    """A database with our tables, and nothing in them."""
    with database_for(tmp_path) as lent:
        yield lent


@pytest.fixture
def no_standby(server: Cluster) -> Generator[None]:
    """Every commit waits for a standby that is not there."""
    server.set("synchronous_standby_names", "'nobody'")
    try:
        yield
    finally:
        server.set("synchronous_standby_names", "''")
