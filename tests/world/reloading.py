"""A gateway that is told to read its configuration again, as a process of its own. I/O: processes, a folder."""

import asyncio
import json
import signal
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.world.command import Serving, wait_until
from tests.world.raw_server import PATIENCE

from accredit.app.pid_file import Reloads, find

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_inbox","arguments":{}}}'
HEADERS = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2025-11-25"),
]


def told(folder: Path) -> Reloads:
    """What the gateway of a folder says of its reloads."""
    found = find(folder)
    assert found is not None
    return found.reloads


def reload(gateway: Serving, folder: Path) -> Reloads:
    """Has a gateway read its configuration again, and waits for what comes of it."""
    before = told(folder).begun
    gateway.stop(signal.SIGHUP)
    wait_until(lambda: told(folder).done > before)
    return told(folder)


async def reloaded(gateway: Serving, folder: Path) -> Reloads:
    """Does the same beside a loop."""
    return await asyncio.to_thread(reload, gateway, folder)


def ready(port: int) -> tuple[int, dict[str, Any]]:
    """What `/readyz` says to a stranger."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.request("GET", "/readyz")
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())


def post(port: int, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, str], Any]:
    """One POST on a connection of its own: its status, headers and JSON."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.request("POST", path, body, {**dict(HEADERS), **headers})
        answer = client.getresponse()
        text = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(text or b"null")
