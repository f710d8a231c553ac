"""The ways to the everything server: directly, through the gateway over HTTP and over stdio, and so as one of several
servers (`/mcp/NAME`, and `/mcp` where they are merged).

It does I/O: each target is a context manager that starts real processes on free ports of 127.0.0.1 and stops
them. The processes run in the folder of the results, so that no `accredit.toml` of the project is picked up,
and write their stderr there.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.world.warm import python

SERVER = Path(__file__).parent / "everything_server.py"
GATEWAY = Path(sys.executable).parent / "accredit"
NAME = "everything"
START_SECONDS = 30
STOP_SECONDS = 15
POLL_SECONDS = 0.05
_LISTENING = re.compile(r"listening on (http://\S+) ")


class NotStarted(Exception):
    """A process of the target ended, or did not answer in time; its log says why."""


@contextmanager
def _process(command: list[str], folder: Path, name: str) -> Generator[subprocess.Popen[str]]:
    """Runs `command`; it may print a little on stdout (a pipe) and anything on stderr (a log)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ACCREDIT_")}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


@contextmanager
def direct(folder: Path, requests: Path, *options: str) -> Generator[str]:
    """The server alone, with these options; yields its URL. A line per request that reaches it goes into `requests`."""
    command = [python(), str(SERVER), "--port", "0", "--requests", str(requests), *options]
    with _process(command, folder, "server") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise NotStarted(f"the everything server did not start: see {folder}/server.log")
        yield url


@contextmanager
def _gateway(folder: Path, *upstream: str) -> Generator[str]:
    command = [str(GATEWAY), "serve", "--port", "0", *upstream]
    with _process(command, folder, "gateway") as process:
        deadline = time.monotonic() + START_SECONDS
        while not (listening := _LISTENING.search((folder / "gateway.log").read_text("utf-8"))):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NotStarted(f"the gateway did not start: see {folder}/gateway.log")
            time.sleep(POLL_SECONDS)
        yield listening[1]


@contextmanager
def through_http(folder: Path, requests: Path, *options: str) -> Generator[str]:
    """The gateway in front of the server's URL."""
    with direct(folder, requests, *options) as url, _gateway(folder, url) as gateway:
        yield gateway


@contextmanager
def through_stdio(folder: Path, requests: Path, *options: str) -> Generator[str]:
    """The gateway in front of the server's command."""
    with _gateway(folder, "--", *_command(requests, *options)) as gateway:
        yield gateway


def _command(requests: Path, *options: str) -> list[str]:
    return [python(), str(SERVER), "--stdio", "--requests", str(requests), *options]


@contextmanager
def _one_of_two(folder: Path, upstream: str, *, merge: bool) -> Generator[str]:
    """The endpoint of a server that is the first of two behind one gateway, or of both as one."""
    unasked = folder / "unasked.log"
    tables = {"gateway": f"merge = {json.dumps(merge)}", f"servers.{NAME}": upstream}
    tables["servers.beside"] = f"command = {json.dumps(_command(unasked))}"
    configuration = folder / "accredit.toml"
    configuration.write_text("\n".join(f"[{name}]\n{said}\n" for name, said in tables.items()), "utf-8")
    with _gateway(folder, "--config", str(configuration)) as url:
        yield url.removesuffix(f"/{NAME}") if merge else url
    assert merge or not unasked.exists() or not unasked.read_text("utf-8"), "what was for one server came to the other"


@contextmanager
def one_over_http(folder: Path, requests: Path, *options: str, merge: bool = False) -> Generator[str]:
    """`/mcp/NAME` of a gateway before two servers, of which this one has a URL; merged: `/mcp`."""
    with ExitStack() as stack:
        url = stack.enter_context(direct(folder, requests, *options))
        yield stack.enter_context(_one_of_two(folder, f"url = {json.dumps(url)}", merge=merge))


@contextmanager
def one_over_stdio(folder: Path, requests: Path, *options: str, merge: bool = False) -> Generator[str]:
    """As `one_over_http`, where the server is a command."""
    with _one_of_two(folder, f"command = {json.dumps(_command(requests, *options))}", merge=merge) as gateway:
        yield gateway


Target = Callable[[Path, Path], AbstractContextManager[str]]
TARGETS: dict[str, Target] = {
    "direct": direct,
    "http": through_http,
    "stdio": through_stdio,
    "named-http": one_over_http,
    "named-stdio": one_over_stdio,
    "merged-http": partial(one_over_http, merge=True),
    "merged-stdio": partial(one_over_stdio, merge=True),
}
MERGED = frozenset({"merged-http", "merged-stdio"})
"""Where tools, prompts and resources have the names of merged servers."""
