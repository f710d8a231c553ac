"""The tutorial is done here as it is written: its commands are run, and what it promises is compared."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.demo_picture import PICTURE, draw, drawn_lines
from tests.world.command import wait_until, with_nobody_to_ask
from tests.world.raw_server import PATIENCE
from tests.world.warm import path, python

from accredit.keys import make_key, write_key

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIRST, PROTECT = "docs/tutorial/first-gateway.md", "docs/tutorial/protect-your-server.md"
BLOCK = re.compile(r"```(console|json|python|text)\n(.*?)```", re.DOTALL)
COLD = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""Where the command is found as it was installed."""


def surroundings(**more: str) -> dict[str, str]:
    """The environment in which a reader types; the programs in it start at once."""
    return {**os.environ, "PATH": path(), **more}


@contextlib.contextmanager
def running(command: str, sign: str, folder: Path = ROOT, **more: str) -> Generator[None]:
    """Runs a command of the tutorial until the end of the context; waits for `sign` in its stderr."""
    with subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        env=surroundings(**more),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stderr is not None
        try:
            while sign not in (line := child.stderr.readline()):
                assert line, f"{command!r} ended before it said {sign!r}"
            yield
        finally:
            os.killpg(child.pid, signal.SIGTERM)
            child.stderr.read()
            child.wait(PATIENCE)


def blocks(page: str, free_port: Callable[[], int]) -> list[tuple[str, str]]:
    """The fenced blocks of a tutorial, with ports that are free."""
    server, gateway = free_port(), free_port()
    text = (ROOT / page).read_text("utf-8").replace("9000", str(server)).replace("8484", str(gateway))
    found = [(kind, body.strip()) for kind, body in BLOCK.findall(text)]
    return [(kind, f"{body} --port {gateway}" if body.startswith("accredit serve") else body) for kind, body in found]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tutorial_does_what_it_says(free_port: Callable[[], int]) -> None:
    steps = blocks(FIRST, free_port)
    commands = [body for kind, body in steps if kind == "console"]
    promised = [json.loads(body) for kind, body in steps if kind == "json"]
    demo, mail, gateway, list_inbox, mismatch, hostile, two_results, ready = commands
    assert demo == "make demo ARGS=--once"

    def run(command: str) -> object:
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=True)
        return json.loads(done.stdout)

    with running(gateway, "listening on"):
        with running(mail, "Uvicorn running"):
            answer = run(list_inbox)
            assert isinstance(answer, dict)
            assert answer["result"]["structuredContent"]["result"][0].startswith("ada@example.org")
            assert run(mismatch) == promised[0]
        with running(hostile, "listening on"):
            assert run(two_results) == promised[1]
            assert run(ready) == promised[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tutorial_that_protects_a_server_does_what_it_says(free_port: Callable[[], int], tmp_path: Path) -> None:
    steps = blocks(PROTECT, free_port)
    commands = [body for kind, body in steps if kind == "console"]
    (script,) = [body for kind, body in steps if kind == "python"]
    printed = [body for kind, body in steps if kind == "text"]
    promised = [json.loads(body) for kind, body in steps if kind == "json"]
    mail, init, keys, gateway, ask, act, more, revoke, second, both, look = commands
    guarded = tmp_path / "guarded"
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def run(command: str, folder: Path = guarded) -> str:
        done = subprocess.run(
            with_nobody_to_ask(command), shell=True, cwd=folder, env=surroundings(), capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    with running(mail, "Uvicorn running"):
        run(init, tmp_path)
        run(keys.removeprefix("cd guarded\n"))
        (guarded / "agent.py").write_text(script, "utf-8")
        with running(gateway, "listening on", tmp_path):
            refused = json.loads(run(ask))
            data = refused["error"]["data"]
            data["_meta"]["ratify_verifier"] = "the gateway's id"
            assert len(data["definition"]) == 64
            data["definition"] = "what is pinned of the tool"
            assert refused == promised[0]
            assert run(act).strip() == printed[0]
            for page, program in (("how-to/agent-author.md", "first_calls.py"), ("start/agent.md", "first_calls.py")):
                told, promise = first_program(page, program, guarded, gateway.split()[-1], run)
                assert told.startswith(promise or "may call: list_inbox\n")
            grant, _, again = more.partition("\n")
            told = run(grant)
            assert run(again).strip() == printed[1]
            certificate = re.search(r"certificate +([0-9a-f]+)", told)
            assert certificate is not None
            run(revoke.replace("CERT_ID", certificate[1]))
            wait_until(lambda: run(act).endswith("ratify_revoked: the delegation has been revoked\n"))
            run(second, tmp_path)
            grant, _, calls = both.partition("\n")
            run(grant)
            assert run(calls).strip() == printed[2]
            found = run(look)
            assert "deny ratify_revoked" in found
            assert re.search(r" calendar +book +allow +ok ", found)
            assert re.search(r"^ok: \d+ records of 1 writer verify$", found, re.MULTILINE)


def first_program(page: str, name: str, folder: Path, port: str, run: Callable[[str], str]) -> tuple[str, str]:
    """What the first program of a page prints after the tutorial's commands, and what the page says of it."""
    text = (ROOT / "docs" / page).read_text("utf-8").replace("8484", port)
    found = re.search(
        rf"`{name}`[^`]*```python\n(.*?)```.*?```console\n(python {name} [^\n]*)\n```\n(?:\n```text\n(.*?)```)?",
        text, re.DOTALL,
    )  # fmt: skip
    assert found is not None
    (folder / name).write_text(found[1], "utf-8")
    return run(found[2]), found[3] or ""


def test_the_readme_does_what_it_says__its_delegation_is_good_for_a_call(
    free_port: Callable[[], int], tmp_path: Path
) -> None:
    section = (
        (ROOT / "README.md").read_text("utf-8").partition("## Protect a server step by step\n")[2].partition("\n## ")[0]
    )
    server, gateway = free_port(), free_port()
    section = section.replace("9000", str(server)).replace("8484", str(gateway))
    sample = re.search(r"`(python examples/\S+ --port \d+)`", section)
    steps, host = [body for kind, body in BLOCK.findall(section) if kind in ("console", "json")][:2]
    *before, serve = steps.strip().splitlines()
    assert sample is not None
    (connect,) = json.loads(host)["mcpServers"].values()
    command = [connect["command"], *(word.replace("/home/ada", str(tmp_path)) for word in connect["args"])]
    with running(sample[1], "Uvicorn running"):
        done = subprocess.run(
            ["sh", "-ec", with_nobody_to_ask("\n".join(before))], cwd=tmp_path, env=surroundings(**COLD),
            capture_output=True, text=True, timeout=len(before) * PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        with running(f"{serve.partition('#')[0]} --port {gateway}", "listening on", tmp_path, **COLD):
            assert "ada@example.org: The engine" in called(command, "list_inbox", tmp_path)


def test_the_readme_s_programs_run_as_they_stand(tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert programs
    write_key(tmp_path / "owner.key", make_key("human", "Owner", 1_700_000_000))
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def called(command: list[str], tool: str, folder: Path) -> str:
    """What a host that starts this command gets from a tool."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}
    with subprocess.Popen(
        command, cwd=folder, env=surroundings(**COLD), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None

        def say(message: dict[str, object]) -> None:
            print(json.dumps({"jsonrpc": "2.0", **message}), file=host.stdin, flush=True)

        say({"id": 1, "method": "initialize", "params": hello})
        host.stdout.readline()
        say({"method": "notifications/initialized"})
        say({"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
        answer = host.stdout.readline()
        host.stdin.close()
        host.wait(PATIENCE)
    return answer


def test_the_demo_tells_its_story_and_stops() -> None:
    done = subprocess.run(
        [python(), "-m", "accredit", "demo", "--once"], cwd=ROOT, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "revision 2025-11-25" in done.stdout
    assert "revision 2026-07-28" in done.stdout
    assert "Nothing malformed got through, and nobody did what no human has allowed." in done.stdout
    assert "1 writer verify" in done.stdout
    assert PICTURE.read_text("utf-8") == draw(drawn_lines(done.stdout)), "make pictures"


def test_who_interrupts_the_demo_in_the_middle_sees_no_trace_and_nothing_goes_on() -> None:
    command = [sys.executable, "-m", "accredit", "demo"]
    demo = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert demo.stdout is not None
        assert demo.stdout.readline().startswith("1. ")  # a server and a gateway run by now, and the story goes on
        os.killpg(demo.pid, signal.SIGINT)
        _, told = demo.communicate(timeout=60)
        assert (demo.returncode, told) == (130, "")
        with pytest.raises(ProcessLookupError):
            os.killpg(demo.pid, 0)
    finally:
        demo.kill()
