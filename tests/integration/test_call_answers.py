"""What `accredit call` makes of what servers of the legacy era answer: errors of tools, silence, locks, questions."""

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.world.command import accredit

pytestmark = pytest.mark.slow

TOKEN = {"CALL_TOKEN": "sesame"}
OVER = threading.Event()
UNPROVED = "note: the endpoint asked for no proof: whoever reaches it can make this call\n"


class Server(BaseHTTPRequestHandler):
    """`/mcp` is open, `/locked` for who brings the token."""

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._answer(405)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/locked" and self.headers["Authorization"] != "Bearer sesame":
            self._answer(401, **{"WWW-Authenticate": "Bearer"})
        elif "id" not in asked or "method" not in asked:
            self._answer(202)
        elif asked["method"] == "tools/call" and asked["params"]["name"] == "slow":
            OVER.wait()
            self.close_connection = True
        elif asked["method"] == "tools/call" and asked["params"]["name"] == "asks":
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            params = {"message": "who?", "requestedSchema": schema}
            question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
            answer = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32603, "message": "nobody has answered"}}
            events = "".join(f"event: message\ndata: {json.dumps(each)}\n\n" for each in (question, answer))
            self._answer(200, events.encode(), **{"Content-Type": "text/event-stream"})
        else:
            self._answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **_result(asked)}).encode())

    def _answer(self, status: int, body: bytes = b"", /, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _result(asked: dict[str, Any]) -> dict[str, Any]:
    match asked["method"]:
        case "initialize":
            info = {"name": "old", "version": "1"}
            return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            names = ("works", "fails", "slow", "asks")
            return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}}
        case "tools/call":
            fails = asked["params"]["name"] == "fails"
            text = "the disk is full" if fails else "done"
            return {"result": {"content": [{"type": "text", "text": text}], "isError": fails}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    found.daemon_threads = True
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{found.server_address[1]}"
    found.shutdown()
    thread.join()
    found.server_close()


def test_a_server_of_the_legacy_era_is_called(server: str, tmp_path: Path) -> None:
    done = accredit("call", "works", "--url", f"{server}/mcp", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", UNPROVED)


def test_a_tool_that_fails_is_told_in_its_own_words__and_as_json_on_demand(server: str, tmp_path: Path) -> None:
    done = accredit("call", "fails", "--url", f"{server}/mcp", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{UNPROVED}error: fails failed: the disk is full\n")
    done = accredit("call", "fails", "--url", f"{server}/mcp", "--json", folder=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["isError"] is True


def test_a_tool_that_takes_too_long_is_given_up(server: str, tmp_path: Path) -> None:
    try:
        done = accredit("call", "slow", "--url", f"{server}/mcp", "--timeout", "0.5", folder=tmp_path)
    finally:
        OVER.set()  # the server's thread ends with the test
    assert (done.returncode, done.stdout) == (1, "")
    assert "no answer within 0.5 s" in done.stderr


def test_a_token_opens_a_locked_server__and_without_one_its_option_is_named(server: str, tmp_path: Path) -> None:
    way = ("--url", f"{server}/locked")
    refused = accredit("call", "works", *way, folder=tmp_path)
    assert refused.returncode == 1
    assert "--token-env" in refused.stderr
    done = accredit("call", "works", *way, "--token-env", "CALL_TOKEN", folder=tmp_path, env=TOKEN)
    assert (done.returncode, done.stdout) == (0, "done\n")
    wrong = accredit("call", "works", *way, "--token-env", "CALL_TOKEN", folder=tmp_path, env={"CALL_TOKEN": "no"})
    assert wrong.returncode == 1
    assert "does not accept this token" in wrong.stderr


def test_a_tool_that_asks_in_between_gets_no_answer_from_a_shell(server: str, tmp_path: Path) -> None:
    done = accredit("call", "asks", "--url", f"{server}/mcp", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: nobody has answered")
