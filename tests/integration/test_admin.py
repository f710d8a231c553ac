"""The admin listener of the real command: who may ask, what is told, and whether it counts all workers."""

import http.client
import json
import os
import re
import resource
import signal
import socket
import ssl
from pathlib import Path

import pytest
from tests.world.calls import ERAS, post
from tests.world.certificates import write_certificate
from tests.world.command import Serving, accredit, wait_until
from tests.world.ends import Ends
from tests.world.ports import reserved_port
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, RawServer
from tests.world.running import run

from accredit.app.admin import MAX_ADMIN_CONNECTIONS
from accredit.app.http11 import MAX_REQUEST_HEAD_BYTES
from accredit.app.listener import MAX_CLIENT_CONNECTIONS
from accredit.gateway.upstream.http.replicas import BREAKER_FAILURES
from accredit.jsonrpc.methods import Era

pytestmark = [pytest.mark.slow, pytest.mark.holds("app/monitoring"), pytest.mark.holds("telemetry/exposition")]

ADMIN = "[admin]\nport = 0\n"
TOOLS = '[tools.good]\nscope = "mcp:tool"\n'


def configure(folder: Path, text: str, url: str = "http://127.0.0.1:1/mcp") -> tuple[str, str]:
    file = folder / "accredit.toml"
    file.write_text(f'[upstream]\nurl = "{url}"\n{text}')
    return "--config", str(file)


def admin_port(gateway: Serving) -> int:
    found = re.search(r"metrics and health at https?://[^ :]*:(\d+)/metrics", gateway.stderr)
    assert found, gateway.stderr
    return int(found[1])


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read().decode()
    finally:
        client.close()


def number(text: str, series: str) -> float:
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def series(tool: str) -> str:
    return (
        f'mcp_server_operation_duration_seconds_count{{error_type="",gen_ai_tool_name="{tool}",'
        'mcp_method_name="tools/call",server=""}'
    )


def test_there_is_none_unless_the_configuration_says_so(tmp_path: Path) -> None:
    with Serving(*configure(tmp_path, ""), folder=tmp_path) as gateway:
        assert "metrics" not in gateway.stderr
        assert get(gateway.port, "/metrics")[0] == 404


@pytest.mark.holds("app/admin", "host", "route")
def test_who_asks_for_something_else_or_under_a_name_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    with Serving(*configure(tmp_path, ADMIN), folder=tmp_path) as gateway:
        port = admin_port(gateway)
        assert get(port, "/metrics")[0] == 200
        assert get(port, "/healthz") == (200, '{"status":"ok"}')
        assert get(port, "/readyz")[0] == 503
        assert get(port, "/readyz?scope=gateway")[0] == 200
        assert get(port, "/metrics", "HEAD") == (200, "")
        assert get(port, "/metrics", Host=f"localhost:{port}")[0] == 200
        assert get(port, "/metrics", Host="evil.example")[0] == 403  # a rebound name
        assert get(port, "/readyz", Host=f"127.0.0.1.evil.example:{port}")[0] == 403
        assert get(port, "/metrics", Origin="https://evil.example")[0] == 403
        assert get(port, "/metrics", "POST")[0] == 405
        assert get(port, "/healthz", "DELETE")[0] == 405
        for path in ("/", "/mcp", "/metrics/", "/sse"):
            assert get(port, path)[0] == 404


@pytest.mark.holds("gateway/front/health", "names", "details")
def test_why_a_part_does_not_work_is_told_to_the_operator_and_to_no_stranger(tmp_path: Path) -> None:
    with Serving(*configure(tmp_path, ADMIN), folder=tmp_path) as gateway:
        configure(tmp_path, ADMIN + "[gateway]\nprt = 1\n")
        assert accredit("reload", folder=tmp_path).returncode == 1
        told = json.loads(get(admin_port(gateway), "/readyz?scope=gateway")[1])
        assert told["reload"] is False
        assert f"gateway.prt ({tmp_path / 'accredit.toml'})" in told["reload_problem"]
        strangers = get(gateway.port, "/readyz?scope=gateway")[1]
        assert json.loads(strangers)["reload"] is False
        assert "prt" not in strangers
        assert "_problem" not in strangers


@pytest.mark.holds("app/admin", "bounds")
def test_who_holds_connections_open_or_sends_heads_without_end_keeps_nobody_out(tmp_path: Path) -> None:
    with Serving(*configure(tmp_path, ADMIN), folder=tmp_path) as gateway:
        port = admin_port(gateway)
        held = [
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(3 * MAX_ADMIN_CONNECTIONS)
        ]
        try:
            assert get(port, "/metrics")[0] == 200
            held[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 2 * MAX_REQUEST_HEAD_BYTES)
            assert held[-1].recv(100)[:12] in (b"HTTP/1.1 400", b"")
            assert get(port, "/healthz")[0] == 200
        finally:
            for each in held:
                each.close()


async def test_any_worker_tells_what_all_have_counted__also_those_that_were_killed(tmp_path: Path) -> None:
    async with RawServer(Ends()) as upstream:
        with Serving(*configure(tmp_path, ADMIN + TOOLS, upstream.url), "--workers", "2", folder=tmp_path) as gateway:
            port = admin_port(gateway)
            wait_until(lambda: len(gateway.workers) == 2)
            called, before = 0, gateway.workers

            async def call(times: int) -> None:
                nonlocal called
                for _ in range(times):
                    async with RawClient(gateway.port) as client:
                        posted = post(Era.MODERN, params={"name": "good", "arguments": {}})
                        await client.ask("POST", "/mcp", posted.headers, posted.body)
                        assert (await client.answer()).status == 200
                    called += 1

            await call(40)
            for _ in range(10):
                wait_until(lambda: number(get(port, "/metrics")[1], series("good")) == called)
            for killed in before:
                os.kill(killed, signal.SIGKILL)
                wait_until(lambda killed=killed: len(gateway.workers - {killed}) == 2)
                await call(10)
            wait_until(lambda: number(get(port, "/metrics")[1], series("good")) == called)
            # The last one may not have begun to count: none needed it.
            wait_until(lambda: number(get(port, "/metrics")[1], "accredit_worker_starts_total") == 4)


async def test_a_configuration_that_is_read_again_changes_the_digest_and_the_catalog__and_no_count(
    tmp_path: Path,
) -> None:
    async with RawServer(Ends()) as upstream:
        config = configure(tmp_path, ADMIN + TOOLS, upstream.url)
        with Serving(*config, folder=tmp_path) as gateway:
            port = admin_port(gateway)

            async def call(tool: str) -> None:
                async with RawClient(gateway.port) as client:
                    posted = post(ERAS[1], params={"name": tool, "arguments": {}})
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
                    assert (await client.answer()).status == 200

            await call("good")
            await call("new")
            text = get(port, "/metrics")[1]
            assert (number(text, series("good")), number(text, series("_other"))) == (1, 1)
            digest = number(text, "accredit_config_digest")
            configure(tmp_path, ADMIN + TOOLS + TOOLS.replace("good", "new"), upstream.url)
            done = accredit("reload", folder=tmp_path)
            assert done.returncode == 0, done.stderr
            await call("good")
            await call("new")
            wait_until(lambda: number(get(port, "/metrics")[1], series("new")) == 1)
            text = get(port, "/metrics")[1]
            assert (number(text, series("good")), number(text, series("_other"))) == (2, 1)
            assert number(text, "accredit_config_digest") not in (0, digest)
            configure(tmp_path, "[admin]\nport = 1234\n" + TOOLS, upstream.url)
            done = accredit("reload", folder=tmp_path)
            assert (done.returncode, "admin.port" in done.stderr) == (1, True), done.stderr


def test_it_says_who_is_not_ready_while_the_gateway_drains(tmp_path: Path) -> None:
    text = ADMIN + "[gateway]\ndrain_seconds = 60\n"
    with Serving(*configure(tmp_path, text), folder=tmp_path) as gateway:
        port = admin_port(gateway)
        assert get(port, "/readyz?scope=gateway")[0] == 200
        gateway.stop()
        wait_until(lambda: get(port, "/readyz?scope=gateway")[0] == 503)
        assert get(port, "/metrics")[0] == 200


def test_outside_of_this_machine_it_has_tls__or_somebody_has_said_that_it_need_not(tmp_path: Path) -> None:
    text = '[admin]\nhost = "0.0.0.0"\nport = 0\n'
    refused = accredit("serve", *configure(tmp_path, text), "--port", "0", folder=tmp_path)
    assert refused.returncode == 2
    assert "admin.host is 0.0.0.0" in refused.stderr
    with Serving(*configure(tmp_path, text), "--insecure", folder=tmp_path) as gateway:
        port = admin_port(gateway)
        assert get(port, "/metrics", Host=f"192.0.2.7:{port}")[0] == 200  # scrapers name an address, no page can
        assert get(port, "/metrics", Host="evil.example")[0] == 403


def test_with_tls_other_machines_get_it_over_tls(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    tls = '[gateway]\ntls_cert_file = "cert.pem"\ntls_key_file = "key.pem"\n'
    with Serving(*configure(tmp_path, tls + '[admin]\nhost = "0.0.0.0"\nport = 0\n'), folder=tmp_path) as gateway:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        context.check_hostname = False
        client = http.client.HTTPSConnection("127.0.0.1", admin_port(gateway), timeout=PATIENCE, context=context)
        client.request("GET", "/metrics")
        assert client.getresponse().read().startswith(b"# HELP mcp_server_operation_duration_seconds ")
        client.close()


def test_the_log_and_replicas_that_are_left_out_are_told_as_well(
    tmp_path: Path,
) -> None:
    made = accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    text = f'max_in_flight = 10\n[store]\nurl = "sqlite:///log.db"\n[attest]\nmode = "durable"\n{ADMIN}{TOOLS}'

    async def main(dead: int) -> None:
        config = configure(tmp_path, text, f"http://127.0.0.1:{dead}/mcp")
        with Serving(*config, folder=tmp_path) as gateway:
            port = admin_port(gateway)
            for _ in range(BREAKER_FAILURES):
                async with RawClient(gateway.port) as client:
                    posted = post(Era.MODERN, params={"name": "good", "arguments": {}})
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
                    assert (await client.answer()).status == 502
            shown = get(port, "/metrics")[1]
            assert number(shown, "accredit_log_turn_seconds_count") >= BREAKER_FAILURES
            assert number(shown, 'accredit_decisions_total{error="",verdict="allow"}') == BREAKER_FAILURES
            assert "\naccredit_log_queue 0.0\n" in shown
            most = min(MAX_CLIENT_CONNECTIONS, resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)[0] // 2)
            assert number(shown, 'accredit_connections{of="most"}') == most
            wait_until(lambda: number(get(port, "/metrics")[1], 'accredit_breaker_state{server=""}') == 1)

    with reserved_port() as dead:
        run(main(dead))
