"""A person allows a call that came with a token: what was asked, what is signed and what is forwarded are one call.
Real processes, and a desk that does as it is told."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import Trust
from tests.world.calls import meta
from tests.world.command import Serving, accredit
from tests.world.connected import Connected
from tests.world.desk import CALL
from tests.world.scripted_desk import ScriptedDesk, allows, says

from accredit.jsonrpc.methods import META_CAPABILITIES

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/asking", "when")]

TOKENS = """
[tokens]
mode = "optional"
[[tokens.issuers]]
issuer = "accredit"
audience = "mail-gateway"
public_key_file = "tokens.key.pub"
"""


@pytest.fixture(scope="module")
def served(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Serving, str]]:
    """A gateway that takes tokens, and a good one."""
    folder = tmp_path_factory.mktemp("gateway")
    agent_files(folder, trust)
    assert accredit("token", "keygen", "tokens.key", folder=folder).returncode == 0
    made = accredit(
        "token", "issue", "--key", "tokens.key", "--agent", trust.agent.id, "--audience", "mail-gateway", folder=folder
    )
    with (folder / "accredit.toml").open("a", encoding="utf-8") as file:
        file.write(TOKENS)
    with Serving("--config", "accredit.toml", folder=folder) as serving:
        yield serving, made.stdout.strip()


@pytest.mark.parametrize("place", ["argument", "meta", "header"])
def test_a_call_with_a_token_is_asked_for_without_it__and_passes_once_it_is_allowed(
    place: str, trust: Trust, served: tuple[Serving, str], files: AgentFiles, tmp_path: Path
) -> None:
    gateway, token = served
    params = {
        "argument": {**CALL, "arguments": CALL["arguments"] | {"_token": token}, "_meta": meta()},
        "meta": {**CALL, "_meta": {**meta(), "token": token}},
        "header": {**CALL, "_meta": meta()},
    }[place]
    options = ("--token-env", "TOKEN") if place == "header" else ()
    with ScriptedDesk(tmp_path, allows(trust.owner)) as desk:
        with Connected(files.folder, gateway.url, *files.options, *options, **desk.env, TOKEN=token) as host:
            assert "sent to ada@example.org" in str(host.ask("tools/call", params))
            other = {**params, "arguments": params["arguments"] | {"to": "eve@example.org"}}
            desk.script = says("deny")  # one yes was for one call
            assert "Ada said no" in str(host.ask("tools/call", other, id=8))
        assert [each.params["arguments"]["to"] for each in desk.asks] == ["ada@example.org", "eve@example.org"]
        assert desk.asks[0].params == CALL
        assert token not in json.dumps([each.to_dict() for each in desk.asks]) + host.stderr


def test_a_page_that_was_shown_for_such_a_call_lets_the_person_decline(
    trust: Trust, served: tuple[Serving, str], files: AgentFiles, tmp_path: Path
) -> None:
    gateway, token = served
    shows_pages = {**meta(), META_CAPABILITIES: {"elicitation": {"url": {}}}}
    params = {**CALL, "arguments": CALL["arguments"] | {"_token": token}, "_meta": shows_pages}
    with ScriptedDesk(tmp_path, lambda _: None) as desk:
        with Connected(files.folder, gateway.url, *files.options, **desk.env) as host:
            asked = host.ask("tools/call", params)["result"]
            assert asked["resultType"] == "input_required"
            (key,) = asked["inputRequests"]
            answered = {"inputResponses": {key: {"action": "decline"}}, "requestState": asked["requestState"]}
            assert "said no to this call" in str(host.ask("tools/call", params | answered, id=8))
        desk.wait_for(lambda: {"deny": desk.asks[0].code} in desk.said)
