"""`python -m bench.startup [--quick]`: how long a person waits for a command, and a host for `accredit connect`.

Each round starts a bare Python and every command one after the other, so that a busy machine is busy for all of them;
what is compared is each command's ratio to the bare Python of its round. Medians; CPU time is that of the process. For
`connect` the time ends with the first byte of its answer to `initialize`, which a server in this process gives at once;
it is then closed, and its CPU time includes that. The call that is verified is one over a chain of two certificates.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.unit.ratify.world import HUMAN
from tests.world.signed_calls import signed_call

from accredit.attest import CallBundle, encode_call_bundle, encode_statement
from accredit.keys import log_signer, make_key
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile

FULL_ROUNDS, QUICK_ROUNDS = 30, 7
ACCREDIT = str(Path(sys.executable).with_name("accredit"))
BARE = (sys.executable, "-c", "pass")
COMMANDS: Sequence[tuple[str, ...]] = (
    ("--version",),
    ("--help",),
    ("serve", "--help"),
    ("log", "list", "--help"),
    ("install", "--list"),
)
CONNECT = "connect, ready"
VERIFY = "log verify call.json"
_ASKS = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}\n'
)
_ANSWER = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"serverInfo":{"name":"bench","version":"1"}}}'
)


class Spent(NamedTuple):
    """Seconds, on the clock and of the CPU."""

    wall: float
    cpu: float


class _Gateway(BaseHTTPRequestHandler):
    """What `connect` is pointed at."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_ANSWER)))
        self.end_headers()
        self.wfile.write(_ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def started(words: Sequence[str], asks: bytes = b"") -> Spent:
    """What a process takes until it ends; with `asks` on its stdin, until the first byte of its answer."""
    begun = time.perf_counter()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asks)
        if asks:
            process.stdin.flush()
            process.stdout.read(1)
        else:
            process.stdout.read()
        wall = time.perf_counter() - begun
        process.stdin.close()
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(wall, used.ru_utime + used.ru_stime)


def written(folder: Path) -> Sequence[str]:
    """What verifies a call of which there is everything, by words of a command."""
    call, key = signed_call(), make_key("gateway", "mail", 1)
    envelope = log_signer(key).record(encode_statement(call.decision))
    bundle = CallBundle((envelope,), call.certificates, proof=call.proof)
    person = KeyFile(KEY_FILE_VERSION, "human", "Owner", HUMAN.id, 1, HUMAN.public_key)
    files = {"call.json": encode_call_bundle(bundle), "gateway.pub": key.public().text(), "owner.pub": person.text()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    call_file, gateway, owner = (str(folder / name) for name in files)
    return "log", "verify", call_file, "--key", gateway, "--root", owner, "--require-proofs"


def measured(rounds: int, url: str, verifies: Sequence[str]) -> dict[str, list[Spent]]:
    """What each command took, by round."""
    spent: dict[str, list[Spent]] = {}
    for _ in range(rounds):
        spent.setdefault("python -c pass", []).append(started(BARE))
        for words in COMMANDS:
            spent.setdefault(" ".join(words), []).append(started([ACCREDIT, *words]))
        spent.setdefault(VERIFY, []).append(started([ACCREDIT, *verifies]))
        spent.setdefault(CONNECT, []).append(started([ACCREDIT, "connect", url], _ASKS))
    return spent


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of {FULL_ROUNDS}")
    options = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        verifies = written(Path(folder))
        measured(1, url, verifies)
        spent = measured(QUICK_ROUNDS if options.quick else FULL_ROUNDS, url, verifies)
    bare = [each.wall for each in spent["python -c pass"]]
    print("| | ms | CPU ms | times a bare Python |\n|---|---|---|---|")
    for name, each in spent.items():
        ratio = median(one.wall / base for one, base in zip(each, bare, strict=True))
        wall, cpu = median(one.wall for one in each), median(one.cpu for one in each)
        print(f"| `{name}` | {wall * 1_000:.0f} | {cpu * 1_000:.0f} | {ratio:.1f} |")
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
