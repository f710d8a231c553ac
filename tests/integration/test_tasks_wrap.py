"""Tasks through `accredit wrap`: whoever made one is told apart there, too, though all come from one host."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.wrap_host import WrapHost

from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow


class Host(WrapHost):
    """One host, for which several agents sign."""

    def proved(self, trust: Trust, method: str, params: dict[str, Any], scope: str = "") -> dict[str, Any]:
        """Asks with a proof that is bound to what is asked."""
        proof = trust.proof(trust.chain("email:read"), method, params, Signed(scope=scope))
        return self.ask(method, {**params, "_meta": {"ratify_proof": proof}})


@pytest.fixture(scope="module")
def owned() -> tuple[Trust, Trust]:
    """Two agents of one owner."""
    mine, theirs = Trust(), Trust()
    theirs.owner = mine.owner
    return mine, theirs


@pytest.fixture
def host(tmp_path: Path, owned: tuple[Trust, Trust]) -> Generator[Host]:
    with Host(tmp_path, owned[0], Era.LEGACY, "--tells", server="tasks_server") as found:
        yield found


def test_wrap_keeps_a_task_for_the_agent_that_made_it__and_no_raw_state_of_it_reaches_the_host(
    host: Host, owned: tuple[Trust, Trust]
) -> None:
    mine, theirs = owned
    call: dict[str, Any] = {"name": "list_inbox", "arguments": {}, "task": {"ttl": 60_000}}
    made = host.proved(mine, "tools/call", call, "email:read")
    task: dict[str, Any] = {"taskId": made["result"]["task"]["taskId"]}
    for method, scope in (("tasks/get", ""), ("tasks/result", ""), ("tasks/cancel", "email:read")):
        assert host.ask(method, task)["error"]["code"] == -31001, method
        refused = host.proved(theirs, method, task, scope)["error"]
        assert (refused["code"], refused["data"]["error"]) == (-32602, "unknown_task"), method
        assert host.proved(mine, method, {"taskId": "none"}, scope)["error"] == refused
    assert host.told == []
    for method, scope in (("tasks/get", ""), ("tasks/result", ""), ("tasks/cancel", "email:read")):
        assert "result" in host.proved(mine, method, task, scope), method
    assert [told["params"]["taskId"] for told in host.told] == [task["taskId"]] * 3
    assert "raw" not in json.dumps(host.told)
    assert [message["method"] for message in host.received()] == [
        "initialize",
        "tools/call",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
    ]
