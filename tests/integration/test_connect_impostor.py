"""A server that says it is somebody else's gateway gets no proof that is good there, from `accredit connect`."""

import base64
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import meta
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.impostor import Impostor

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import ProofRefused

CALL = {"name": "list_inbox", "arguments": {}, "_meta": meta()}
KNOWN = "http://gateway.example/mcp"


@pytest.fixture
def files(tmp_path: Path) -> AgentFiles:
    return agent_files(tmp_path, Trust())


def refusal(code: int, error: str, meta: Mapping[str, object]) -> dict[str, Any]:
    data = {"error": error, "required_scope": "email:read", "tool": "list_inbox", "_meta": meta}
    return {"error": {"code": code, "message": error, "data": data}}


def asks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if message["method"] == "tools/list":
        meta = {"ratify_scope": "email:read", "ratify_verifier": GATEWAY}
        tools = [{"name": "list_inbox", "inputSchema": {"type": "object"}, "_meta": meta}]
        return {"result": {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}}
    return refusal(-31001, "missing_ratify_proof", {"ratify_verifier": GATEWAY})


def challenges(_: Mapping[str, Any]) -> Mapping[str, Any]:
    nonce = base64.b64encode(b"n" * 32).decode()
    asked = {"challenge": nonce, "expires_at": int(time.time()) + 60, "verifier_id": GATEWAY, "binding": "required"}
    return refusal(-31002, "ratify_challenge_required", {"ratify_challenge": asked})


def is_nobody(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return refusal(-31001, "missing_ratify_proof", {})


def no_proof_in(bodies: list[bytes]) -> bool:
    return bool(bodies) and not any(b"ratify" in body for body in bodies)


@pytest.mark.parametrize("answer", [asks, challenges])
def test_who_announces_a_gateway_that_is_known_elsewhere_gets_no_proof_that_is_good_there(
    answer: Callable[[Mapping[str, Any]], Mapping[str, Any]], files: AgentFiles
) -> None:
    files.known_gateways.write_text(json.dumps({KNOWN: GATEWAY}), "utf-8")
    with Impostor(answer) as impostor, Connected(files.folder, impostor.url, *files.options) as host:
        listed = host.ask("tools/list", {"_meta": meta()})
        if answer is asks:
            assert listed["error"]["data"] == {
                "error": "gateway_mismatch",
                "found": GATEWAY,
                "url": impostor.url,
                "known_url": KNOWN,
            }
        for _ in range(2):
            (block,) = host.ask("tools/call", CALL)["result"]["content"]
            for word in ("gateway_mismatch", KNOWN, impostor.url, "--gateway-id"):
                assert word in block["text"]
        assert no_proof_in(impostor.bodies)
        calls = [body for body in impostor.bodies if b"tools/call" in body]
        assert len(calls) == (0 if answer is asks else 1)  # the claim came in answer to one: nothing went behind it
        sent = len(impostor.bodies)
        assert "gateway_mismatch" in json.dumps(host.ask("resources/read", {"uri": "x://y", "_meta": meta()}))
        assert "gateway_mismatch" in json.dumps(host.ask("completion/complete", {"_meta": meta()}))
        assert len(impostor.bodies) == sent
    assert json.loads(files.known_gateways.read_text("utf-8")) == {KNOWN: GATEWAY}


@pytest.mark.holds("client/streams", "foreign-gateway")
async def test_to_who_announces_a_gateway_that_is_known_elsewhere_nothing_more_is_sent(files: AgentFiles) -> None:
    files.known_gateways.write_text(json.dumps({KNOWN: GATEWAY}), "utf-8")

    with Impostor(asks) as impostor:
        presenter = ProofPresenter(files.key, [files.delegation])
        async with AccreditedClient(impostor.url, presenter=presenter, mode="2026-07-28") as client:
            with pytest.raises(ProofRefused, match="gateway_mismatch"):
                await client.list_tools()
            sent = len(impostor.bodies)
            for _ in range(2):
                with pytest.raises(ProofRefused, match="gateway_mismatch"):
                    await client.call_tool("list_inbox", {"secret": "of the caller"})
                with pytest.raises(ProofRefused, match="gateway_mismatch"):
                    await client.list_prompts()
            assert len(impostor.bodies) == sent
        assert b"of the caller" not in b"".join(impostor.bodies)


def test_who_does_not_say_who_it_is_gets_no_proof_that_is_good_everywhere(files: AgentFiles) -> None:
    with Impostor(is_nobody) as impostor, Connected(files.folder, impostor.url, *files.options) as host:
        (block,) = host.ask("tools/call", CALL)["result"]["content"]
        assert "gateway_unknown" in block["text"]
        assert no_proof_in(impostor.bodies)


@pytest.mark.slow
def test_a_second_address_of_ones_own_gateway_is_a_persons_to_name(files: AgentFiles) -> None:
    with (
        Serving("--config", "accredit.toml", folder=files.folder) as gateway,
        Serving(gateway.url, folder=files.folder) as proxy,
    ):
        with Connected(files.folder, gateway.url, *files.options) as host:
            assert "ada@example.org" in host.ask("tools/call", CALL)["result"]["content"][0]["text"]
        with Connected(files.folder, proxy.url, *files.options) as host:
            assert "gateway_mismatch" in host.ask("tools/call", CALL)["result"]["content"][0]["text"]
        with Connected(files.folder, proxy.url, *files.options, "--gateway-id", GATEWAY) as host:
            assert "ada@example.org" in host.ask("tools/call", CALL)["result"]["content"][0]["text"]
        with Connected(files.folder, gateway.url.replace("127.0.0.1", "LOCALHOST") + "/", *files.options) as host:
            told = host.ask("tools/call", CALL)
            assert "gateway_mismatch" not in json.dumps(told)
