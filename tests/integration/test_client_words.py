"""A program's own client says what the command line says: what is wrong, and the command that mends it."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from mcp import MCPError
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit
from tests.world.ports import reserved_port

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/session")]


@pytest.fixture(scope="module")
def files(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> AgentFiles:
    return agent_files(tmp_path_factory.mktemp("words"), trust, "email:read")


@pytest.fixture(scope="module")
def gateway(files: AgentFiles) -> Generator[Serving]:
    with Serving("--config", "accredit.toml", folder=files.folder) as serving:
        yield serving


def test_where_no_gateway_runs_the_error_says_where_and_how_to_start_one(tmp_path: Path) -> None:
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}/mcp"

        async def connect() -> None:
            async with AccreditedClient(url):
                pass

        with pytest.raises(MCPError) as caught:
            asyncio.run(connect())
        done = accredit("call", "any", "--url", url, folder=tmp_path)
    reason = f"the gateway at 127.0.0.1:{port} can't be reached: is it running, and is the URL right?"
    assert (caught.value.error.code, caught.value.error.data) == (-32000, reason)
    what, remedy = done.stderr.splitlines()
    assert what == f"error: {reason}"
    assert str(caught.value) == f"Upstream unavailable: {reason} If it is not, {remedy.removeprefix('help: ')}"


def test_a_refusal_carries_a_note_with_the_command_that_would_allow_the_call(
    gateway: Serving, files: AgentFiles
) -> None:
    async def call() -> None:
        presenter = ProofPresenter(files.key, [files.delegation])
        async with AccreditedClient(gateway.url, presenter=presenter) as client:
            await client.call_tool("search", {"word": "bug"})

    with pytest.raises(ProofRefused) as caught:
        asyncio.run(call())
    (note,) = caught.value.__notes__
    first, *_, last = note.splitlines()
    assert first == "Not allowed: nobody has allowed this agent search (ratify_scope_denied)."
    assert f"accredit grant --issuer PATH --agent {files.key}.pub --scope email:search" in note
    assert last.startswith("Then add ")
    assert last.endswith(" to ProofPresenter's list.")
    for secret in (files.key.read_text("utf-8"), files.delegation.read_text("utf-8")):
        assert secret[40:80] not in note
