"""Tasks through `accredit wrap`: whoever made one is told apart there, too, though all come from one host."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import post
from tests.world.command import COMMAND, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm, python

from accredit.jsonrpc.methods import Era
from accredit.keys import write_key

pytestmark = pytest.mark.slow

CONFIGURATION = """
[gateway]
id = "{id}"
[upstream]
command = ['{python}', '-m', 'tests.world.tasks_server', '{folder}/received', '--tells']
env = {{ PYTHONPATH = '{root}' }}
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.list_inbox]
scope = "email:read"
"""


class Host:
    """One host, for which several agents sign."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.told: list[dict[str, Any]] = []

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request; gives the response, and keeps what is told before it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(post(Era.LEGACY, method, params).body + b"\n")
        stdin.flush()
        while "method" in (message := json.loads(stdout.readline())):
            self.told.append(message)
        return message

    def proved(self, trust: Trust, method: str, params: dict[str, Any], scope: str = "") -> dict[str, Any]:
        """The same with a proof that is bound to it."""
        proof = trust.proof(trust.chain("email:read"), method, params, Signed(scope=scope))
        return self.ask(method, {**params, "_meta": {"ratify_proof": proof}})


@pytest.fixture
def host(tmp_path: Path, owned: tuple[Trust, Trust]) -> Generator[Host]:
    write_key(tmp_path / "owner.key", owned[0].owner)
    text = CONFIGURATION.format(id=GATEWAY, python=python(), folder=tmp_path, root=Path(__file__).parents[2])
    (tmp_path / "accredit.toml").write_text(text, "utf-8")
    process = Warm(
        [*COMMAND, "wrap", "--config", str(tmp_path / "accredit.toml")],
        env=environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    found = Host(process)
    told = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    assert "result" in found.ask("initialize", told)
    yield found
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(PATIENCE)
    process.stdout.close()


@pytest.fixture(scope="module")
def owned() -> tuple[Trust, Trust]:
    """Two agents of one owner."""
    mine, theirs = Trust(), Trust()
    theirs.owner = mine.owner
    return mine, theirs


def test_wrap_keeps_a_task_for_the_agent_that_made_it__and_no_raw_state_of_it_reaches_the_host(
    host: Host, owned: tuple[Trust, Trust], tmp_path: Path
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
    received = [json.loads(line)["method"] for line in (tmp_path / "received").read_text("utf-8").splitlines()]
    assert received == ["initialize", "tools/call", "tasks/get", "tasks/result", "tasks/cancel"]
