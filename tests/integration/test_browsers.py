"""Pages of other origins: what browsers ask for them, and what a real one lets them do."""

import contextlib
import http.client
import http.server
import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.world.command import Serving, accredit
from tests.world.raw_server import PATIENCE
from tests.world.stdio_processes import raw_command

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/front/cors")]

PAGE = """<!doctype html><script>
const url = "URL", told = {};
const headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"};
const legacy = () => ({...headers, "mcp-protocol-version": "2025-11-25", "mcp-session-id": told.session});
async function run() {
  const described = await fetch(url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"));
  told.described = [described.status, (await described.json()).bearer_methods_supported];
  const client = {protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {name: "page", version: "1"}};
  const begin = {jsonrpc: "2.0", id: 1, method: "initialize", params: client};
  const begun = await fetch(url, {method: "POST", headers, body: JSON.stringify(begin)});
  told.initialize = (await begun.json()).result.protocolVersion;
  told.session = begun.headers.get("mcp-session-id");
  const call = {jsonrpc: "2.0", id: 2, method: "tools/call", params: {name: "notes", arguments: {count: 1}}};
  const post = await fetch(url, {method: "POST", headers: legacy(), body: JSON.stringify(call)});
  told.stream = (await post.text()).includes('"id": 2') && post.headers.get("content-type");
  const stop = new AbortController();
  const stand = await fetch(url, {headers: legacy(), signal: stop.signal});
  told.get = [stand.status, new TextDecoder().decode((await stand.body.getReader().read()).value).slice(0, 3)];
  stop.abort();
  told.bad = (await fetch(url, {method: "POST", headers: legacy(), body: "{"})).status;
  told.ended = (await fetch(url, {method: "DELETE", headers: legacy()})).status;
}
run().catch(error => told.error = String(error)).finally(
  () => fetch("/told", {method: "POST", body: JSON.stringify(told)}));
</script>"""

TOKENS = """[tokens]
mode = "optional"
[[tokens.issuers]]
issuer = "accredit"
audience = "gateway"
public_key_file = "tokens.key.pub"
"""
DESCRIPTION = "/.well-known/oauth-protected-resource"


class Pages(http.server.ThreadingHTTPServer):
    """Serves the page, and hears what became of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.page = b""
        self.told: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    def server_close(self) -> None:
        self.shutdown()
        self._thread.join()
        super().server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Page(http.server.BaseHTTPRequestHandler):
    server: Pages  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.page)

    def do_POST(self) -> None:
        self.server.told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def gateway(folder: Path, origin: str) -> Serving:
    command = json.dumps(list(raw_command()))
    text = f"[gateway]\nallowed_origins = [{json.dumps(origin)}]\n[upstream]\ncommand = {command}\n{TOKENS}"
    assert accredit("token", "keygen", "tokens.key", folder=folder).returncode == 0
    (folder / "accredit.toml").write_text(text)
    return Serving("--config", str(folder / "accredit.toml"), folder=folder)


def asked(port: int, method: str, path: str = "/mcp", **headers: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def test_a_preflight_is_answered_for_listed_origins_only_and_so_is_every_answer_readable(tmp_path: Path) -> None:
    listed = "https://app.example.org"
    wants = {
        "Access_Control_Request_Method": "POST",
        "Access_Control_Request_Headers": "mcp-param-region,x-evil",
        "Access_Control_Request_Private_Network": "true",
    }
    with gateway(tmp_path, listed) as served:
        status, found = asked(served.port, "OPTIONS", Origin=listed, **wants)
        assert status == 204
        assert found["access-control-allow-origin"] == listed
        assert found["access-control-allow-methods"] == "GET, POST, DELETE"
        allowed = found["access-control-allow-headers"].split(", ")
        assert {"authorization", "mcp-session-id", "last-event-id", "mcp-param-region"} <= set(allowed)
        assert "x-evil" not in allowed
        assert "access-control-allow-credentials" not in found
        assert found["access-control-allow-private-network"] == "true"
        assert found["vary"] == "Origin"
        for path in ("/mcp", "/healthz", "/nowhere", DESCRIPTION, f"{DESCRIPTION}/mcp"):
            status, other = asked(served.port, "OPTIONS", path, Origin="https://evil.example", **wants)
            assert status == 403
            assert not [name for name in other if name.startswith("access-control")]
            _, readable = asked(served.port, "GET", path, Origin=listed)
            assert readable["access-control-allow-origin"] == listed
            assert "Mcp-Session-Id" in readable["access-control-expose-headers"]
        assert asked(served.port, "OPTIONS", Origin=listed)[0] == 405  # nobody asks by it what a page may send


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="chromium is not installed")
def test_a_page_in_a_real_browser_calls_from_a_listed_origin_and_from_no_other(tmp_path: Path) -> None:
    assert CHROMIUM is not None, "chromium is not installed"
    with Pages() as page, Pages() as stranger, gateway(tmp_path, page.origin) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        page.page = stranger.page = PAGE.replace("URL", url).encode()
        for number, pages in enumerate((page, stranger)):
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
            profile = f"--user-data-dir={tmp_path / f'profile-{number}'}"
            command = [CHROMIUM, *options, profile, "--remote-debugging-port=0", pages.origin]
            quiet = subprocess.DEVNULL
            browser = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
            try:
                told = pages.told.get(timeout=4 * PATIENCE)
            finally:
                os.killpg(browser.pid, 9)
                browser.wait()
            if pages is page:
                assert told.pop("session")
                assert told == {
                    "described": [200, ["header"]], "initialize": "2025-11-25", "stream": "text/event-stream",
                    "get": [200, "id:"], "bad": 400, "ended": 204,
                }  # fmt: skip
            else:
                assert told == {"error": "TypeError: Failed to fetch"}
