"""The real command in front of an agent: what was allowed is on record, with proofs that verify."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.world.a2a import send
from tests.world.a2a_agents import ScriptedAgent
from tests.world.a2a_gateways import write_a2a_gateway
from tests.world.command import Serving, accredit, wait_until

from accredit.client import AccreditedA2A, ProofPresenter

pytestmark = pytest.mark.slow


async def ask(client: httpx2.AsyncClient, url: str, method: str, params: object) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = await client.post(url, json=body, headers={"a2a-version": "1.0"})
    return answer.json()


def listed(folder: Path) -> list[str]:
    """The calls on record."""
    return accredit("log", "list", "--config", "accredit.toml", "--json", folder=folder).stdout.splitlines()


@pytest.mark.holds("policy/agent_call")
def test_the_command_guards_an_agent__and_its_log_proves_who_signed(tmp_path: Path) -> None:
    with ScriptedAgent() as agent:
        write_a2a_gateway(tmp_path, agent.port, "/rpc")
        with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
            assert "the agent helper is at http://127.0.0.1:" in gateway.stderr
            url = f"http://127.0.0.1:{gateway.port}/agents/helper"
            presenter = ProofPresenter(tmp_path / "agent.key", [tmp_path / "delegation.json"])

            async def main() -> None:
                transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, "mail-gateway/helper", url)
                async with httpx2.AsyncClient(transport=transport) as client:
                    asked: list[tuple[str, Any]] = [
                        ("SendMessage", send(skill="summarize")),
                        ("SendMessage", send(skill="wipe")),
                        ("GetTask", {"id": "t-1"}),
                        ("CancelTask", {"id": "t-2"}),
                        ("ListTasks", {}),
                        ("GetExtendedAgentCard", {}),
                    ]
                    for method, params in asked:
                        assert "result" in await ask(client, url, method, params), method
                    assert (await ask(client, url, "GetTask", {"id": "t-9"}))["error"]["code"] == -32001

            asyncio.run(main())
            wait_until(lambda: len(listed(tmp_path)) == 10)  # a refusal's record is written after its answer
    verified = accredit(
        *("log", "verify", "--config", "accredit.toml", "--root", "owner.key.pub", "--require-proofs"), folder=tmp_path
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    suggested = accredit("suggest", "--config", "accredit.toml", folder=tmp_path)
    assert "stays refused, as their path was of no route" not in suggested.stdout
    replayed = accredit("replay", "--config", "accredit.toml", folder=tmp_path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
