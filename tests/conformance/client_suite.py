"""Runs the official suite against our client (`client.py`), one scenario after the other, and reads what it found.

It does I/O: the suite is a Node program that starts the client and writes `checks.json` per scenario.
"""

import subprocess
from pathlib import Path

from tests.conformance.node import Node
from tests.conformance.suite import read_checks
from tests.world.warm import python

CLIENT = Path(__file__).with_name("client.py")
SCENARIOS = {
    "2025-11-25": ("tools_call", "initialize", "elicitation-sep1034-client-defaults", "sse-retry"),
    "2026-07-28": (
        "tools_call",
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "sep-2322-client-request-state",
    ),
}
"""What the suite requires of clients that take their authorization from elsewhere: all but its OAuth scenarios."""

SCENARIO_SECONDS = 60
_BAD_ENDS = ("Client exited with code", "Client timed out")


def run_client(node: Node, entry: Path, results: Path, revision: str) -> list[str]:
    """Runs the scenarios of a revision; gives what did not go well, a line each."""
    problems: list[str] = []
    for scenario in SCENARIOS[revision]:
        folder = results / "client" / revision / scenario
        folder.mkdir(parents=True)
        problems += [f"{revision} {scenario} (client): {fault}" for fault in _faults(node, entry, revision, folder)]
    print(f"{revision} client: {len(SCENARIOS[revision])} scenarios, {len(problems)} problems", flush=True)
    return problems


def _faults(node: Node, entry: Path, revision: str, folder: Path) -> list[str]:
    command = [node.node, str(entry), "client", "--command", f"{python()} {CLIENT}"]
    options = ["--scenario", folder.name, "--spec-version", revision, "--output-dir", str(folder)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=SCENARIO_SECONDS, check=False)
    (folder / "suite.log").write_text(done.stdout + done.stderr, "utf-8")
    faults = [line.strip() for line in done.stderr.splitlines() if line.startswith(_BAD_ENDS)]
    checks = read_checks(next(folder.glob("*/"), folder))
    faults += [f"{check} is a {status}" for check, status in checks if status in ("FAILURE", "WARNING")]
    if not any(status == "SUCCESS" for _, status in checks):
        faults.append("nothing was checked")
    return faults
