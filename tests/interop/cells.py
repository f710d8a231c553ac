"""Plays one client against one server, by each way, and reads what came of each step.

I/O: processes, files. In the folder of the run, `CLIENT/SERVER/WAY` has the plan, the transcript, and all logs.
"""

import hashlib
import json
import re
import shutil
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.interop.clients import Client
from tests.interop.compare import Transcript
from tests.interop.environments import Environments
from tests.interop.servers import Server
from tests.interop.steps import Step, merged, restarts, unmerged
from tests.interop.ways import WAYS, Endpoint, Place
from tests.world.command import environment

CELL_SECONDS = 1800.0
PLAN, TRANSCRIPT = "plan.json", "transcript.jsonl"
ON_DISK = "what is on the disk"

_LONG = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]{1000,}+")
"""Images and the like: compared by their digest."""
SEARCHED = 100_000
"""A line of more characters even so is compared as it is."""
_VOLATILE = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{32}\b"), "<hex>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"), "<day>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d [AP]M\b"), "<time>"),
    (re.compile(r"MCP server '[^']*'"), "MCP server <its address>"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ (\d{4} )?\d\d:\d\d:\d\d[^\"\\]*"), "<time>"),
    (re.compile(r"[0-9a-f]{7}\.\.[0-9a-f]{7}|(?<=\] )[0-9a-f]{7}\b|(?<=main )[0-9a-f]{7}\b"), "<hash>"),
]  # fmt: skip


def plan(server: Server, endpoint: Endpoint, data: Path) -> list[Step]:
    """The steps for this server by this way: what can be restarted is, at the end."""
    steps = server.steps(data)
    works = next(step for step in steps if step["name"] == server.recover)
    return [*steps, *(step for part in endpoint.parts for step in restarts(part, works))]


def play(client: Client, place: Place, way: str) -> None:
    """Writes the transcript of a client's way to a server into the folder of the place."""
    place.data.mkdir(parents=True)
    place.server.prepare(place.data)
    with WAYS[way](place) as endpoint:
        record(client, place, endpoint)


def record(client: Client, place: Place, endpoint: Endpoint) -> None:
    """Writes the plan and the transcript of a client at an endpoint; the last line is what the server has left."""
    target = {**endpoint.target, "root": place.data.as_uri()}
    steps, name = plan(place.server, endpoint, place.data), endpoint.merged
    said = {
        "endpoint": target,
        "steps": merged(steps, name) if name else steps,
        "data": str(place.data),
        "merged": name,
    }
    file = place.folder / PLAN
    file.write_text(json.dumps(said), "utf-8")
    lines = _run([*client.command(place.environments), str(file)], endpoint, place.folder)
    left = json.dumps({"step": ON_DISK, "result": place.server.left(place.data)})
    (place.folder / TRANSCRIPT).write_text("".join([*lines, left, "\n"]), "utf-8")


def read(folder: Path) -> Transcript:
    """The transcript that lies in a folder: each step with what came of it."""
    plan = json.loads((folder / PLAN).read_text("utf-8"))
    loose = {step["name"] for step in plan["steps"] if step["loosely"]}
    text = (folder / TRANSCRIPT).read_text("utf-8")
    texts = text.split("\n")[:-1]
    if name := plan.get("merged"):
        texts = [json.dumps(unmerged(json.loads(line), name)) for line in texts]
    lines = [json.loads(_settled(line, plan["data"])) for line in texts]
    named = [(line.pop("step"), line) for line in lines]
    return {name: _loosened(line) if name in loose else line for name, line in named}


def _run(command: list[str], endpoint: Endpoint, folder: Path) -> list[str]:
    """Runs the client's program, and restarts what it asks to have restarted."""
    lines: list[str] = []
    with (folder / "client.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(CELL_SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            what = _restart_asked(line)
            if what is None:
                stray = {"step": "a line that is none of the program's", "error": {"line": line}}
                lines.append(line if line.startswith('{"step"') and line.endswith("}\n") else json.dumps(stray) + "\n")
                continue
            endpoint.parts[what].restart()
            process.stdin.write("done\n")
            process.stdin.flush()
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    if process.returncode:
        lines.append(json.dumps({"step": "the program's end", "error": {"exit": process.returncode}}) + "\n")
    return lines


def _restart_asked(line: str) -> str | None:
    try:
        return json.loads(line).get("restart") if line.startswith("{") else None
    except ValueError:
        return None


def _settled(line: str, data: str) -> str:
    """A line without what no two runs have in common."""
    line = _LONG.sub(_digest, line.replace(json.dumps(data)[1:-1], "<data>"))
    if len(line) <= SEARCHED:
        for pattern, instead in _VOLATILE:
            line = pattern.sub(instead, line)
    return line


def _digest(found: re.Match[str]) -> str:
    return f"<{len(found[0])} characters, {hashlib.sha256(found[0].encode()).hexdigest()[:16]}>"


def _loosened(value: Any) -> Any:
    """The shape of a value: which members, and of what kind. Of a list, that of its first element."""
    if isinstance(value, dict):
        return {name: each if name == "type" else _loosened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_loosened(each) for each in value[:1]]
    return f"some {type(value).__name__}"


class Cell(Struct, frozen=True):
    """A client with a server."""

    client: Client
    server: Server

    def played(self, run: Path, way: str) -> bool:
        """Whether a whole transcript of this way is there."""
        return (self.folder(run, way) / TRANSCRIPT).exists()

    def day(self, run: Path, way: str) -> str:
        """The day on which the transcript of this way was written."""
        written = (self.folder(run, way) / TRANSCRIPT).stat().st_mtime
        return datetime.fromtimestamp(written, UTC).date().isoformat()

    def play(self, run: Path, environments: Environments, ways: list[str]) -> dict[str, Transcript]:
        """The transcripts of these ways. One that is there whole, of a run that was broken off, is taken as it is."""
        transcripts: dict[str, Transcript] = {}
        for way in ways:
            folder = self.folder(run, way)
            if not self.played(run, way):
                shutil.rmtree(folder, ignore_errors=True)
                place = Place(self.server, environments, folder, run / "authority" / self.server.name)
                play(self.client, place, way)
            transcripts[way] = read(folder)
        return transcripts

    def folder(self, run: Path, way: str) -> Path:
        """Where the plan, the transcript and the logs of this way are."""
        return run / self.client.name / self.server.name / way.replace(" ", "-").lower()
