"""Hosts that speak only OAuth: the official SDK's client logs in, a person at their desk says yes, and calls go through
with proofs that the gateway makes. What strangers and thieves try beside it comes to nothing."""

import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from tests.world.front_door import Browser, FrontDoor, Person, form, json_of
from tests.world.oauth_client import CALLBACK
from tests.world.ports import reserved_port
from tests.world.running import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Generator[FrontDoor]:
    with reserved_port() as port:
        found = FrontDoor(tmp_path_factory.mktemp("door"), port, "registration = true")
        with found.serving():
            yield found


@asynccontextmanager
async def session(door: FrontDoor, auth: httpx2.Auth | None) -> AsyncGenerator[ClientSession]:
    async with (
        httpx2.AsyncClient(auth=auth, trust_env=False, timeout=60) as http,
        streamable_http_client(door.endpoint, http_client=http) as (read, write),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        yield client


def test_the_sdk_s_client_logs_in__and_calls_what_the_person_allowed(door: FrontDoor) -> None:
    async def main() -> None:
        person = Person(door, "email:read")
        async with session(door, person.auth) as client:
            tools = await client.list_tools()
            assert [each.name for each in tools.tools]
            answer = await client.call_tool("list_inbox", {})
            assert not answer.is_error
        assert len(person.visited) == 1

    run(main())
