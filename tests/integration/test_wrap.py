"""`accredit wrap`: the real command between a host and a stdio server."""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.integration.test_loop_steps_in_process import Child, Host
from tests.world.calls import compact, meta
from tests.world.command import COMMAND, environment, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.sdk import EVERYTHING
from tests.world.stdio_processes import alive, descendants, raw_command
from tests.world.warm import Warm, command, python

from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.wrap import Wrap
from accredit.gateway.settings import GatewaySettings, StdioUpstream

pytestmark = [pytest.mark.slow, pytest.mark.holds("base/stdio")]

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Wrapped:
    """The command, with the raw server in it, as a host sees it. A configuration in its folder is named to it."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        child: tuple[str, ...] | None = None,
        command: tuple[str, ...] = COMMAND,
        **env: str,
    ) -> None:
        self._stderr = folder / "stderr"
        file = folder / "accredit.toml"
        if file.exists() and "--config" not in options:
            options = (*options, "--config", str(file))
        with self._stderr.open("wb") as stderr:
            self.process = Warm(
                [*command, "wrap", *options, "--", *(child or raw_command())],
                cwd=folder,
                env=environment(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    @property
    def stderr(self) -> str:
        return self._stderr.read_text("utf-8")

    def write(self, *lines: bytes) -> None:
        self.stdin.write(b"".join(line + b"\n" for line in lines))
        self.stdin.flush()

    def say(self, **message: Any) -> None:
        self.write(compact({"jsonrpc": "2.0", **message}))

    def tool(self, name: str, id: int | str = 7, meta: dict[str, Any] | None = None, **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta is not None else {})
        self.say(id=id, method="tools/call", params=params)

    def line(self) -> bytes:
        return self.stdout.readline().rstrip(b"\n")

    def message(self) -> Any:
        return json.loads(self.line())

    def call(self, name: str, id: int | str = 7, **arguments: Any) -> Any:
        self.tool(name, id, **arguments)
        return self.message()

    def initialize(self, revision: str = "2025-11-25") -> None:
        self.say(id="init", method="initialize", params={**INITIALIZE, "protocolVersion": revision})
        assert self.message()["result"]["protocolVersion"] == revision

    def read(self) -> list[Any]:
        """Every line that the child has read."""
        return [json.loads(line) for line in text_of(self.call("read", "read"))]

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


def text_of(message: Any) -> Any:
    return json.loads(message["result"]["content"][0]["text"])


@contextlib.contextmanager
def wrapped(
    folder: Path,
    *options: str,
    child: tuple[str, ...] | None = None,
    command: tuple[str, ...] = COMMAND,
    **env: str,
) -> Generator[Wrapped]:
    """The command; when the block is left it is told to end, and nothing of it is there any more."""
    wrap = Wrapped(folder, *options, child=child, command=command, **env)
    try:
        yield wrap
        below = descendants(wrap.process.pid)
        wrap.process.terminate()
        wrap.wait()
        wait_until(lambda: not any(map(alive, below)))
    finally:
        wrap.process.kill()
        wrap.process.wait()
        with contextlib.suppress(BrokenPipeError):
            wrap.stdin.close()
        wrap.stdout.close()


def configured(folder: Path, text: str) -> tuple[str, str]:
    file = folder / "accredit.toml"
    file.write_text(text)
    return "--config", str(file)


def test_good_lines_pass_both_ways_byte_for_byte(tmp_path: Path) -> None:
    there = b'{"params" : {"a":1.0e+2 , "b":"\\u00e9\\/"},"method":"x","jsonrpc":"2.0","id":1 }'
    back = b'{"id":1,"jsonrpc":"2.0" ,"result":{"x":1.50}, "more":[ ]}'
    child = ("/bin/sh", "-c", f"read -r line; printf '%s\\n' \"$line\" >&2; echo '{back.decode()}'; cat >/dev/null")
    with wrapped(tmp_path, "--log-format", "json", child=child) as wrap:
        wrap.write(there)
        assert wrap.line() == back
        wait_until(lambda: "upstream_stderr" in wrap.stderr)
        logged = [json.loads(line) for line in wrap.stderr.splitlines() if "upstream_stderr" in line]
        assert [entry["line"] for entry in logged] == [there.decode()]


def test_nothing_but_messages_is_written_to_stdout(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.initialize()
        for number in range(50):
            wrap.tool("chatter", number)
        wrap.tool("floods_stderr", "flood", lines=2_000)
        assert [wrap.message()["id"] for _ in range(51)] == [*range(50), "flood"]


BAD_LINES = {
    b"{bad": -32700,
    b"\xff": -32700,
    b'{"jsonrpc":"1.0","id":1,"method":"x"}': -32600,
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"\\u0061":2}}': -32600,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"echo"}}': -32600,
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]': -32600,
    b"[" * 200 + b"]" * 200: -32700,
}


def test_a_child_that_is_silent_for_the_time_that_is_named_is_given_up__and_the_call_taken_back(tmp_path: Path) -> None:
    with wrapped(tmp_path, "--timeout", "0.5") as wrap:
        assert wrap.call("mute")["error"]["message"] == "Upstream unavailable"
        assert wrap.read()[-2]["method"] == "notifications/cancelled"


@pytest.mark.holds("gateway/front/wrap", "host-lines")
def test_bad_lines_of_the_host_are_answered_and_not_forwarded(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        for line, code in BAD_LINES.items():
            wrap.write(line)
            assert wrap.message()["error"]["code"] == code
        wrap.write(b'{"jsonrpc":"2.0","id":1,"result":{}}')  # it answers nothing
        wrap.write(b"", b"  \r")
        assert [line["method"] for line in wrap.read()] == ["tools/call"]


@pytest.mark.holds("gateway/front/wrap", "log")
def test_a_host_that_sends_bad_lines_without_end_fills_no_disk_by_our_log(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:

        def tell(number: int) -> None:
            for _ in range(number):
                wrap.write(b"no")
            assert [wrap.message()["error"]["code"] for _ in range(number)] == [-32700] * number

        def left_out() -> int:
            return sum(map(int, re.findall(r"left_out\W+(\d+)", wrap.stderr)))

        tell(500)
        while wrap.stderr.count("request_refused") + left_out() < 500:  # the next line says what was left out before it
            tell(1)
        assert left_out()


def test_a_line_of_the_host_over_the_bound_is_refused(tmp_path: Path) -> None:
    with wrapped(tmp_path, *configured(tmp_path, "[gateway]\nmax_request_bytes = 10000\n")) as wrap:
        wrap.tool("echo", text="x" * 12_000)
        told = {"code": -32600, "message": "Invalid Request: a line longer than 10000 bytes"}
        assert wrap.message() == {"jsonrpc": "2.0", "id": 7, "error": told}
        wrap.write(b'{"method":"x","params":{"a":"%s"},"jsonrpc":"2.0","id":"last"}' % (b"x" * 12_000))
        assert wrap.message() == {"jsonrpc": "2.0", "id": "last", "error": told}
        wrap.write(b'{"id":1,"method":"x","params":{"a":"%s"},"id":2}' % (b"x" * 12_000))  # readers differ
        assert wrap.message() == {"jsonrpc": "2.0", "id": None, "error": told}
        assert text_of(wrap.call("echo", a=1)) == {"a": 1}


def test_an_answer_of_the_host_over_the_bound_becomes_an_error_for_the_child_that_waits_for_it(tmp_path: Path) -> None:
    with wrapped(tmp_path, *configured(tmp_path, "[gateway]\nmax_request_bytes = 10000\n")) as wrap:
        for long in (b'{"jsonrpc":"2.0","id":"q1","result":{"a":"%s"}}', b'{"result":{"a":"%s"},"x":[]}'):
            wrap.tool("ask")
            assert wrap.message()["id"] == "q1"
            wrap.write(long % (b"x" * 12_000))
            assert text_of(wrap.message())["error"]["message"] == "Invalid Request: a line longer than 10000 bytes"


@pytest.mark.holds("gateway/upstream/stdio/dedicated", "messages")
@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("both", "both a result and an error"),
        ("trailing", "not valid JSON"),
    ],
)
def test_a_bad_answer_becomes_a_clean_error(tmp_path: Path, name: str, detail: str) -> None:
    with wrapped(tmp_path) as wrap:
        error = {"code": -32000, "message": "Invalid upstream JSON-RPC response", "data": detail}
        assert wrap.call(name, "mine") == {"jsonrpc": "2.0", "id": "mine", "error": error}
        assert text_of(wrap.call("echo", a=1)) == {"a": 1}


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "long-line")
@pytest.mark.parametrize("name", ["huge", "huge_last"])
def test_a_line_of_the_child_over_the_bound_fails_its_own_request_and_no_other(name: str, tmp_path: Path) -> None:
    with wrapped(tmp_path, *configured(tmp_path, "[gateway]\nmax_event_bytes = 100000\n")) as wrap:
        for open_already in (1, 2):
            wrap.tool("mute", open_already)
        failed = wrap.call(name, 7, bytes=150_000)
        assert (failed["id"], failed["error"]["data"]) == (7, "a line longer than 100000 bytes")
        assert wrap.call("echo", 8)["id"] == 8


@pytest.mark.holds("gateway/upstream/stdio/pending_calls", "long-line")
def test_a_request_of_the_child_over_the_bound_is_answered__it_would_wait_for_ever(tmp_path: Path) -> None:
    with wrapped(tmp_path, *configured(tmp_path, "[gateway]\nmax_event_bytes = 100000\n")) as wrap:
        answered = text_of(wrap.call("long_ask", bytes=150_000))
        assert (answered["id"], answered["error"]["code"]) == ("q1", -32600)


@pytest.mark.holds("gateway/upstream/stdio/dedicated", "responses")
@pytest.mark.holds("gateway/front/wrap", "child-lines")
def test_the_servers_requests_are_answered_once_by_the_host(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.initialize()
        wrap.tool("ask")
        assert wrap.message()["method"] == "elicitation/create"
        for id in ("x", 1, "q1", "q1"):
            wrap.say(id=id, result={})
        assert text_of(wrap.message()) == {"jsonrpc": "2.0", "id": "q1", "result": {}}
        assert sum("result" in line for line in wrap.read()) == 1


def test_a_modern_host_gets_no_requests(tmp_path: Path) -> None:
    with wrapped(tmp_path, *configured(tmp_path, "[gateway]\nupstream_timeout_seconds = 0.5\n")) as wrap:
        wrap.tool("ask", meta=meta())
        error = wrap.message()["error"]
        assert (error["message"], error["data"]) == ("Upstream unavailable", "the upstream did not answer in time")
        wrap.tool("echo", meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})
        assert wrap.message()["error"]["code"] == -32602


def test_an_id_that_is_open_is_refused(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.tool("mute")
        wrap.tool("echo")
        assert wrap.message()["error"]["code"] == -32600
        wrap.say(method="notifications/cancelled", params={"requestId": 7})
        assert [line["method"] for line in wrap.read()] == ["tools/call", "notifications/cancelled", "tools/call"]


def test_batches_pass_where_the_revision_has_them(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.initialize("2025-03-26")
        calls = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (1, 2)]
        wrap.write(compact(calls))
        assert [wrap.message()["id"] for _ in calls] == [1, 2]
        wrap.write(compact([*calls, calls[0]]))
        assert wrap.message()["error"]["code"] == -32600
        wrap.write(compact([calls[0], {"jsonrpc": "2.0", "id": 9, "result": {}}]))
        assert wrap.message()["error"]["code"] == -32600
        answers = [{"jsonrpc": "2.0", "id": id, "result": {}} for id in (3, 4)]
        tell = {"name": "tell", "arguments": {"message": answers, "answer": False}}
        called = {4: {"name": "mute"}, 3: tell}
        wrap.write(compact([{**calls[0], "id": id, "method": "tools/call", "params": called[id]} for id in called]))
        assert wrap.message() == answers


@pytest.mark.parametrize("other", [{"id": "never asked", "result": {}}, {"id": "open", "method": "ping"}])
def test_a_batch_that_is_refused_settles_none_of_the_childs_requests__it_would_wait_for_ever(
    other: dict[str, Any], tmp_path: Path
) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.initialize("2025-03-26")
        wrap.tool("mute", "open")
        ask = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
        wrap.tool("tell", message=ask, answer=False)
        assert wrap.message() == ask
        answer = {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}
        for batch in ([answer, {"jsonrpc": "2.0", **other}], [answer, answer]):
            wrap.write(compact(batch))
            assert wrap.message()["error"]["code"] == -32600
        wrap.write(compact(answer))
        assert [line for line in wrap.read() if "result" in line] == [answer]


@pytest.mark.parametrize("how", [{"code": 0}, {"code": 3}, {"signal": signal.SIGKILL}])
def test_when_the_child_ends_open_requests_get_an_error_and_the_exit_code_is_1(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.tool("mute", "open")
        wrap.tool("die", "dying", **how)
        errors = [wrap.message() for _ in range(2)]
        assert [error["id"] for error in errors] == ["open", "dying"]
        assert {error["error"]["message"] for error in errors} == {"Upstream unavailable"}
        assert wrap.line() == b""
        assert wrap.wait() == 1


@pytest.mark.holds("gateway/front/wrap", "end")
def test_a_child_that_ends_between_calls_leaves_a_word_why__else_nobody_learns_what_the_exit_code_means(
    tmp_path: Path,
) -> None:
    child = (python(), "-c", "raise SystemExit(7)")
    with wrapped(tmp_path, child=child) as wrap:
        assert wrap.line() == b""
        assert wrap.wait() == 1
    last = json.loads(wrap.stderr.splitlines()[-1])
    assert (last["level"], last["event"]) == ("error", "upstream_failed")
    assert last["detail"] == "the upstream ended with code 7"


@pytest.mark.parametrize("words", [["http://127.0.0.1:9/mcp"], ["--", "https://mcp.example/mcp"]])
def test_a_url_is_no_command__and_the_refusal_says_what_stands_before_one(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*command(), "wrap", *words], input=b"", capture_output=True, check=False, cwd=tmp_path, env=environment(),
        timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"stands around a stdio server" in done.stderr
    assert b"`accredit serve`" in done.stderr


def test_when_the_host_closes_its_side_what_is_open_is_finished_first(tmp_path: Path) -> None:
    lines = [compact({"jsonrpc": "2.0", "id": id, "method": "ping"}) for id in range(100)]
    done = subprocess.run(
        [*command(), "wrap", "--", *raw_command()],
        input=b"\n".join(lines), capture_output=True, check=True, cwd=tmp_path, env=environment(), timeout=PATIENCE,
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list(range(100))


@pytest.mark.holds("gateway/front/wrap", "end")
def test_a_host_that_has_closed_its_side_is_told_nothing_that_its_server_does_not_say(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.tool("mute", "given up")
        wrap.stdin.close()
        assert wrap.line() == b""
        assert wrap.wait() == 0


def test_a_host_that_has_closed_its_side_still_learns_that_an_answer_was_bad__it_would_get_none(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.tool("both", "mine")
        wrap.stdin.close()
        failed = wrap.message()
        assert (failed["id"], failed["error"]["data"]) == ("mine", "both a result and an error")
        assert wrap.wait() == 0


@pytest.mark.slow
def test_when_the_host_closes_its_side_the_child_ends_whatever_it_is_like(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        child = text_of(wrap.call("stubborn"))
        wrap.stdin.close()
        assert wrap.wait() == 0
        assert not alive(child)


def test_when_the_host_does_not_read_any_more_it_ends(tmp_path: Path) -> None:
    with wrapped(tmp_path) as wrap:
        wrap.initialize()
        wrap.stdout.close()
        wrap.tool("echo")
        assert wrap.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_its_child(tmp_path: Path, number: signal.Signals) -> None:
    with wrapped(tmp_path) as wrap:
        pids = text_of(wrap.call("forks", count=1))
        wrap.process.send_signal(number)
        assert wrap.wait() == 0
        wait_until(lambda: not any(map(alive, pids)))


@pytest.mark.slow
@pytest.mark.holds("gateway/front/wrap", "slow-host")
def test_a_host_that_does_not_read_makes_the_child_wait__memory_stays_bounded(tmp_path: Path) -> None:
    def resident() -> int:
        status = Path(f"/proc/{wrap.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])

    with wrapped(tmp_path) as wrap:
        wrap.initialize()
        before = resident()
        wrap.tool("notes", count=20_000, bytes=5_000)
        wrap.message()
        assert resident() - before < 16 * 1024
        *_, last = [wrap.line() for _ in range(20_000)]
        assert json.loads(last)["id"] == 7
        assert resident() - before < 16 * 1024


class SlowHost(Host):
    """A host that sends three bad lines, and reads nothing at first."""

    def __init__(self) -> None:
        super().__init__(b"x\nx\nx")
        self.reads = asyncio.Event()

    async def drained(self, limit: int = 0) -> None:
        await self.reads.wait()

    async def is_told_once_until_it_reads(self, reading: "asyncio.Task[None]") -> None:
        """`reading` reads its lines."""
        while not self.told:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(self.told) == 1
        self.reads.set()
        await reading
        assert [json.loads(line)["error"]["code"] for line in self.told] == [-32700] * 3


@pytest.mark.holds("gateway/front/wrap", "slow-host")
async def test_a_host_that_does_not_read_its_refusals_is_not_read_either__they_would_pile_up() -> None:
    settings, counters, host = GatewaySettings(StdioUpstream(("server",))), Counters(), SlowHost()
    gate = Gate(settings, counters, ToolDirectory())
    wrap: Any = Wrap(settings, gate, cast(Any, Child()), cast(Any, host), counters)
    await host.is_told_once_until_it_reads(asyncio.create_task(wrap._from_host()))
    await wrap._backend.over


def test_observed_bad_lines_pass_as_they_are(tmp_path: Path) -> None:
    with wrapped(tmp_path, *configured(tmp_path, '[validation]\nresponses = "observe"\n')) as wrap:
        wrap.tool("trailing", 1)
        assert wrap.line() == b'{"jsonrpc":"2.0","id":1,"result":{}}}'
        wrap.tool("chatter", 2)
        assert [wrap.line() for _ in range(5)][:2] == [b"Server started!", b"D'oh"]
        wait_until(lambda: "answer_refused_observed" in wrap.stderr)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_the_official_client_and_server_work_through_it(mode: str) -> None:
    server = StdioServerParameters(command=python(), args=[*COMMAND[1:], "wrap", "--", *EVERYTHING])
    async with Client(stdio_client(server), mode=mode, read_timeout_seconds=PATIENCE) as client:
        assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
        seen: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
        assert seen == [0, 50, 100]
