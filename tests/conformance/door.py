"""Runs the official suite against the gateway's front door as an authorization server. I/O: processes, files.

The suite logs in as a client that has registered; a person lets it in.
"""

import subprocess
from pathlib import Path

import httpx2
from tests.conformance.node import Node
from tests.conformance.suite import read_checks
from tests.world.front_door import FrontDoor, json_of
from tests.world.ports import reserved_port

SCENARIOS = ("authorization-server-metadata-endpoint", "authorization-code-grant")
"""All that the suite has for authorization servers. Its `auth/*` ones are for clients: it plays the server there."""


def run_door(node: Node, entry: Path, results: Path, revision: str) -> list[str]:
    """Runs the scenarios of a revision; gives what did not go well, a line each."""
    folder = results / "door" / revision
    folder.mkdir(parents=True)
    with reserved_port() as port, reserved_port() as back:
        door = FrontDoor(folder, port, "registration = true")
        with door.serving():
            printed = _judge(node, entry, door, back, revision)
    (folder / "suite.log").write_text(printed, "utf-8")
    problems: list[str] = []
    for scenario in SCENARIOS:
        checks = read_checks(next((folder / "suite").glob(f"*{scenario}*"), folder))
        faults = [f"{check} is a {status}" for check, status in checks if status != "SUCCESS"]
        faults += [] if checks else ["nothing was checked"]
        problems += [f"{revision} {scenario} (door): {fault}" for fault in faults]
    print(f"{revision} door: {len(SCENARIOS)} scenarios, {len(problems)} problems", flush=True)
    return problems


def _judge(node: Node, entry: Path, door: FrontDoor, port: int, revision: str) -> str:
    about = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"], "client_name": "The official suite"}
    registered = httpx2.post(f"{door.url}/oauth/register", json=about, trust_env=False)
    client = json_of(registered)["client_id"]
    options = ["--url", door.url, "--resource", door.endpoint, "--client-id", client, "--port", str(port)]
    where = ["--spec-version", revision, "--output-dir", str(door.folder / "suite")]
    with subprocess.Popen(
        [node.node, str(entry), "authorization", *options, *where], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as suite:  # fmt: skip
        return door.watch(suite)
