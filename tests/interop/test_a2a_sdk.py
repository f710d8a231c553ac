"""The official A2A SDK in both roles, with the real gateway between them.

It is not installed with the project: `.venv/bin/uv pip install -r requirements/interop-a2a.txt`.
"""

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.interop.environments import PROGRAMS
from tests.world.a2a_gateways import write_a2a_gateway
from tests.world.command import Serving, accredit, wait_until
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.scripted_desk import ScriptedDesk, allows, says, waits

from accredit.client.asking import denial_message
from accredit.consent.asks import Ask
from accredit.keys import PrivateKeyFile
from accredit.keys.load import read_key

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


@pytest.mark.holds("client/agents", "asks")
def test_a_person_is_asked_about_messages_of_the_official_sdk(tmp_path: Path) -> None:
    with reserved_port() as port, ScriptedDesk(tmp_path, waits) as desk:
        write_a2a_gateway(tmp_path, port)
        owner = read_key(tmp_path / "owner.key")
        assert isinstance(owner, PrivateKeyFile)

        def decides(ask: Ask) -> dict[str, Any] | None:
            script = allows(owner) if ask.method == "SendMessage" else says("deny")
            return script(ask)

        desk.script = decides
        agent = subprocess.Popen([sys.executable, str(PROGRAMS / "a2a_agent.py"), str(port)])
        try:
            wait_until(lambda: _listens(port))
            with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
                url = f"http://127.0.0.1:{gateway.port}/agents/helper"
                client = [sys.executable, str(PROGRAMS / "a2a_client.py"), url, "ask"]
                env = {**os.environ, **desk.env}
                played = subprocess.run(
                    client, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE * 4, check=False
                )
                assert played.returncode == 0, played.stderr
        finally:
            agent.kill()
            agent.wait(PATIENCE)
    assert json.loads(played.stdout) == [
        ["task", True],
        ["missing_ratify_proof", denial_message("Ada", desk.asks[1].code)],
    ]


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
