"""The real command in front of an agent: what was allowed is on record, with proofs that verify."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.world.a2a import send
from tests.world.a2a_agents import CARD, ScriptedAgent
from tests.world.a2a_gateways import write_a2a_gateway
from tests.world.command import Serving, accredit, wait_until

from accredit.client import AccreditedA2A, ProofPresenter
from accredit.keys import load_public_key

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs/how-to/a2a-agents.md"


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


def test_the_how_to_leads_from_a_card_to_a_proved_message(tmp_path: Path) -> None:
    lines = [line.split()[1:] for body in re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
             for line in body.splitlines()]  # fmt: skip
    init, *keys, grant, serve, check = lines
    assert serve == ["serve"]
    with ScriptedAgent() as agent:
        at = {"url": f"http://127.0.0.1:{agent.port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = tmp_path / "agent-card.json"
        card.write_text(json.dumps({**CARD, "supportedInterfaces": [at]}))
        for words in (init, *keys, grant):
            done = accredit(*words, folder=tmp_path)
            assert done.returncode == 0, done.stderr + done.stdout
        assert accredit(*check, folder=tmp_path).returncode == 0
        gateway_id = load_public_key(tmp_path / "gateway.key.pub").id
        presenter = ProofPresenter(tmp_path / "agent.key", [tmp_path / "delegation.json"])
        with Serving(folder=tmp_path) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/agents/helper"

            async def main() -> None:
                transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, f"{gateway_id}/helper", url)
                async with httpx2.AsyncClient(transport=transport) as client:
                    assert "result" in await ask(client, url, "SendMessage", send(skill="summarize"))
                    assert (await ask(client, url, "SendMessage", send(skill="wipe")))["error"]["code"] == -31003

            asyncio.run(main())
        card.write_text(json.dumps({**CARD, "supportedInterfaces": [{**at, "url": "http://10.0.0.9/"}], "skills": []}))
        drift = accredit(*check, "--json", folder=tmp_path)
        assert drift.returncode == 1
        problems = [each["problem"] for each in json.loads(drift.stdout)["findings"]]
        assert problems == ["other_url", "no_skill", "no_skill"]
        both = accredit("check", "helper", "--agent-card", "agent-card.json", "--openapi", "x.json", folder=tmp_path)
        assert (both.returncode, "name one" in both.stderr) == (2, True)
