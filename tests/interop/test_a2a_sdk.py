"""The official A2A SDK in both roles, with the real gateway between them.

It is not installed with the project: `.venv/bin/uv pip install -r requirements/interop-a2a.txt`.
"""

import json
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.interop.environments import PROGRAMS
from tests.world.a2a_gateways import write_a2a_gateway
from tests.world.command import Serving, accredit, wait_until
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("a2a") is None, reason="a2a-sdk is not installed (requirements/interop-a2a.txt)"),
]
PLAYED = {
    "x": ["task"],
    "y": ["task"],
    "z": ["task"],
    "chat": ["message"],
    "wait": ["task"],
    "get": 6,
    "more": ["task"],
    "cancel": 5,
    "unknown": "TaskNotFoundError",
    "skills": ["summarize", "wipe"],
}
DONE = ["status_update", "artifact_update", "status_update"]
STREAMED = {
    **{text: ["task", *DONE] for text in ("x", "y", "z")},
    "wait": ["task", "status_update", "status_update"],
    "more": DONE,
    "subscribed": ["task"],
}


def test_a_client_and_an_agent_of_the_official_sdk_meet_through_the_gateway(tmp_path: Path) -> None:
    with reserved_port() as port:
        _meet(tmp_path, port)


def _meet(tmp_path: Path, port: int) -> None:
    write_a2a_gateway(tmp_path, port)
    agent = subprocess.Popen([sys.executable, str(PROGRAMS / "a2a_agent.py"), str(port)])
    try:
        wait_until(lambda: _listens(port))
        with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/agents/helper"
            client = [sys.executable, str(PROGRAMS / "a2a_client.py"), url]
            played = subprocess.run(
                client, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE * 4, check=False
            )
            assert played.returncode == 0, played.stderr + gateway.stderr
    finally:
        agent.terminate()
        agent.wait(PATIENCE)
    told = json.loads(played.stdout)
    assert told["url"] == url
    assert told["whole"] == {**PLAYED, "list": 4}
    assert told["streams"] == {**PLAYED, **STREAMED, "list": 9}
    verified = accredit(
        *("log", "verify", "--config", "accredit.toml", "--root", "owner.key.pub", "--require-proofs"), folder=tmp_path
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
