"""`python -m bench.anatomy [--files]`: what one `tools/call` with token, proof and record enters on its way.

`make check` runs it: what was reached may not be lost. With `--files` it also prints the files, and how many of the
functions of each are called.

A real `accredit serve` runs under the interpreter's profiler. Three calls fill its caches; of the fourth it is counted:
files of ours that it enters, changes of file from one call of a function to the next, JSON decodes and encodes, how
often its text is written anew, and how often its `params` are split. Threads and the log's process are not seen.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import uvloop

from accredit.cli import main as accredit
from accredit.keys import make_key, make_token_key, write_key, write_token_key
from bench.authorization import Agent, Upstream, body_of, post_all, toml
from bench.errors import BenchError
from bench.processes import ROOT, configured
from bench.token_gateway import TOKENS, token

OURS = str(ROOT / "src/accredit")
SPLITTERS = {"members", "pairs", "unambiguous_members"}
"""The functions of `jsonrpc/objects.py` that open an object."""

NO_REWRITES = {
    "check_no_duplicates": "the decoded text, to compare the number of members",
    "_reread": "the arguments in lower case, to compare the number of members",
    "_canonical_text": "what a digest is of: the call's for its proof, the result's for its record",
    "for_upstream": "the one member that is put in: on whose authority the call comes",
}
"""The functions that encode something else than the message, and what."""

TICK = "on_tick"
"""What uvicorn's server does ten times a second, whoever calls."""

RECORDS = '[attest]\nmode = "durable"\n'
WARMING_CALLS = 3
WAIT_SECONDS = 10.0
SETTLING_SECONDS = 0.05
"""How long the warming calls' connections get to end: what the gateway does then is not of the call that is counted."""
AIMS = {"files": 35, "changes of file": 220, "splits of params": 1, "decodes": 15, "rewrites of its text": 1}
REACHED = {
    "files": 63,
    "changes of file": 288,
    "splits of params": 1,
    "decodes": 15,
    "encodes": 6,
    "rewrites of its text": 1,
}
"""What may only fall: lower these when it has. A run may count some ten changes more than another, and a file: on a
busy machine, the gateway looks after its revocation lists meanwhile."""


class Anatomist:
    """Counts while it is on. A signal switches it on; the next one writes what was counted, and switches it off."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._counts: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._last = ""
        self._on = False

    def switch(self, _number: int, _frame: FrameType | None) -> None:
        """Handles the signal."""
        self._on = not self._on
        sys.setprofile(self._see if self._on else None)
        if not self._on:
            counted = {**self._counts, "files": len(self._files), "entered": dict(self._files)}
            partial = self._output.with_suffix(".partial")
            partial.write_text(json.dumps(counted))
            partial.rename(self._output)

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            if called is msgspec.json.decode or isinstance(owner, msgspec.json.Decoder):
                self._counts["decodes"] += 1
            elif called is msgspec.json.encode or isinstance(owner, msgspec.json.Encoder):
                self._counts["encodes"] += 1
                self._counts["rewrites of its text"] += frame.f_code.co_name not in NO_REWRITES
        elif event == "call" and frame.f_code.co_filename.startswith(OURS) and frame.f_code.co_name != TICK:
            self._enter(frame)

    def _enter(self, frame: FrameType) -> None:
        name = frame.f_code.co_filename.removeprefix(OURS + "/")
        self._files[name] += 1
        self._counts["changes of file"] += name != self._last
        self._last = name
        came_from = frame.f_back
        if name == "jsonrpc/objects.py" and frame.f_code.co_name in SPLITTERS:
            inner = came_from is not None and came_from.f_code.co_filename == frame.f_code.co_filename
            text = bytes(frame.f_locals["text"])
            self._counts["splits of params"] += not inner and text.startswith(b'{"name":"pay"')


def serve(output: str) -> None:
    """Runs `accredit` with an anatomist in it."""
    signal.signal(signal.SIGUSR1, Anatomist(Path(output)).switch)
    sys.exit(accredit())


async def measure(folder: Path) -> dict[str, Any]:
    """Runs the gateway and the calls; gives what was counted."""
    listener = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    text = toml(f"http://127.0.0.1:{port}/mcp", f"sqlite:///{folder}/accredit.db") + TOKENS + RECORDS
    write_key(folder / "gateway.key", make_key("gateway", "Bench", int(time.time())))
    agent, output = Agent(folder), folder / "counted.json"
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from bench.anatomy import serve; serve({str(output)!r})"
    command = [sys.executable, "-c", program]
    with configured(text, folder, "anatomy", command=command) as server:
        bodies = [body_of(agent.bundle(bound=True), token(folder, number)) for number in range(WARMING_CALLS + 1)]
        await post_all(server.url, bodies[:-1])
        await asyncio.sleep(SETTLING_SECONDS)
        os.kill(server.pid, signal.SIGUSR1)
        await post_all(server.url, bodies[-1:])
        os.kill(server.pid, signal.SIGUSR1)
        await written(output)
    listener.close()
    return json.loads(output.read_bytes())


async def written(output: Path) -> None:
    """Waits for a file."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not output.exists():
        if time.monotonic() > deadline:
            raise BenchError("the gateway did not say what it counted")
        await asyncio.sleep(0.02)


def main() -> int:
    """Prints the table; returns 1 where more is done with a call than was."""
    parser = argparse.ArgumentParser(prog="python -m bench.anatomy")
    parser.add_argument("--files", action="store_true", help="print the files that a call enters, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        folder = Path(name)
        write_token_key(folder / "tokens.key", make_token_key())
        counted = uvloop.run(measure(folder))
    entered: dict[str, int] = counted.pop("entered")
    print("| of one call | counted | aim |")
    print("|---|---|---|")
    for what, count in sorted(counted.items()):
        print(f"| {what} | {count} | {AIMS.get(what, '')} |")
    if options.files:
        print("\nfunctions called, by file:")
        for file, calls in sorted(entered.items(), key=lambda each: -each[1]):
            print(f"{calls:5} {file}")
    lost = [what for what, most in REACHED.items() if counted.get(what, 0) > most]
    if lost:
        print(f"anatomy: more than there were: {', '.join(lost)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
