"""The logs of the real commands name the trace of the call that a line is about, however it came."""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_wrap import wrapped
from tests.world.calls import Posted, initialize, post
from tests.world.command import Serving, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.stdio_processes import raw_command

from accredit.jsonrpc.methods import Era

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def call(era: Era, tool: str) -> Posted:
    return post(era, params={"name": tool, "arguments": {"a": "no log holds this"}, "_meta": TRACED})


def events(stderr: str) -> list[tuple[str, str, str]]:
    """What was logged of traced calls."""
    assert "no log holds this" not in stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in stderr.splitlines()]
    assert {line["trace_id"] for line in lines if "trace_id" in line} == {TRACE}
    return [(line["level"], line["event"], line["method"]) for line in lines if "trace_id" in line]


PASSED, REFUSED, FAILED = (
    ("debug", "request_passed", "tools/call"),
    ("warning", "answer_refused", "tools/call"),
    ("warning", "upstream_failed", "tools/call"),
)
SEEN = [PASSED, PASSED, REFUSED, PASSED, FAILED]


def test_of_a_call_over_stdio(tmp_path: Path) -> None:
    with wrapped(tmp_path, "--log-level", "debug") as wrap:
        wrap.initialize()
        for tool in ("echo", "both", "die"):
            wrap.tool(tool, meta=TRACED, a="no log holds this")
            wrap.line()
        wrap.wait()
        assert events(wrap.stderr) == SEEN


@pytest.mark.parametrize("era", Era)
def test_of_a_call_over_http_to_a_stdio_server(era: Era, tmp_path: Path) -> None:
    with Serving("--log-level", "debug", "--", *raw_command(), folder=tmp_path) as gateway:
        client = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)

        def answer(posted: Posted, session: str | None) -> http.client.HTTPResponse:
            own = {"Mcp-Session-Id": session} if session else {}
            client.request("POST", "/mcp", posted.body, {**dict(posted.headers), **own})
            response = client.getresponse()
            response.read()
            return response

        session = answer(initialize(), None).getheader("Mcp-Session-Id") if era is Era.LEGACY else None
        for tool in ("echo", "both", "die"):
            answer(call(era, tool), session)
        client.close()
        wait_until(lambda: gateway.stderr.count("trace_id") >= len(SEEN) and gateway.stderr.endswith("\n"))
        assert events(gateway.stderr) == SEEN
