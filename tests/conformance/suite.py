"""Runs the official suite against one URL and reads what it found.

It does I/O: the suite is a Node program that writes one `checks.json` per scenario. Requests that reached the
server are taken from the server's own log (`everything_server.py --requests`), by the time that each scenario
began: the suite runs one scenario after the other, and the folder of its results is named for that moment.
"""

import json
import os
import re
import subprocess
import threading
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.conformance.node import INSTALLED, Node

REVISIONS = ("2025-11-25", "2026-07-28")
RUN_SECONDS = 900
"""Longer than nearly every scenario being cut off by the suite's own limit, which is 30 s for each."""
_FOLDER = re.compile(r"server-(?P<scenario>.+)-(?P<start>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3})Z")


@dataclass(frozen=True)
class Outcome:
    """What one scenario found: how often each check had each status, and what reached the server.

    INFO entries are left out: they are the suite's own notes and promise nothing.
    """

    checks: Counter[tuple[str, str]]
    requests: int

    @property
    def succeeded(self) -> int:
        return sum(count for (_, status), count in self.checks.items() if status == "SUCCESS")

    @property
    def judged(self) -> int:
        """The number of checks with a verdict, the denominator that the suite prints."""
        verdicts = ("SUCCESS", "FAILURE")
        return sum(count for (_, status), count in self.checks.items() if status in verdicts)

    @property
    def passed(self) -> bool:
        """As the suite says it (nothing failed, something was checked), and the server was reached."""
        return 0 < self.succeeded == self.judged and self.requests > 0


Outcomes = dict[str, Outcome]
_NAMED = re.compile(r"""(?<=[`'"])(?=(?:test_|json_schema_2020_12_tool)\w*[`'"])""")
"""Where the name of a tool or a prompt begins in the suite's text."""


def server_scenarios(revision: str) -> dict[str, bool]:
    """What the suite runs for a revision, in its order: each scenario, and whether it is required."""
    scenarios: dict[str, bool] = {}
    section = name = ""
    for line in (INSTALLED / "requirements" / f"{revision}.yaml").read_text("utf-8").splitlines():
        if line.endswith(":") and line[0].isalpha():
            section = line
        elif section == "server:" and line.startswith("  - "):
            scenarios[line.removeprefix("  - ")] = True
        elif line.startswith("  - scenario: "):
            name = line.removeprefix("  - scenario: ")
        elif line == "    leg: server":
            scenarios[name] = False
    return scenarios


def renamed(entry: Path, server: str) -> Path:
    """A copy of the suite whose tools, prompts and resources are called as they are where servers are merged.

    It differs from the suite in these names alone.
    """
    text = _NAMED.sub(f"{server}__", entry.read_text("utf-8")).replace("test://", f"accredit+{server}:test://")
    copy = entry.with_name(f"merged-{server}.js")
    if not copy.exists() or copy.read_text("utf-8") != text:  # runs are side by side
        part = copy.with_name(f"{copy.name}.{os.getpid()}.{threading.get_ident()}")
        part.write_text(text, "utf-8")
        part.replace(copy)
    return copy


def run_suite(node: Node, entry: Path, url: str, revision: str, scenarios: list[str], results: Path) -> None:
    """Runs what `revision` requires, or only `scenarios` at that revision; the results are files."""
    results.mkdir()
    base = [node.node, str(entry), "server", "--url", url, "--output-dir", str(results)]
    runs = [[*base, "--scenario", name, "--spec-version", revision, "--force"] for name in scenarios]
    with (results / "suite.log").open("wb") as log:
        for command in runs or [[*base, "--requirements", revision]]:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=RUN_SECONDS, check=False)


def read_outcomes(results: Path, requests: Path, order: list[str]) -> Outcomes:
    """What `run_suite` left in `results`, with the requests that the server logged in `requests`.

    `order` is the suite's: it decides between two scenarios that began in the same millisecond.
    """
    folders = {match["scenario"]: folder for folder in results.iterdir() if (match := _match(folder))}
    names = sorted((name for name in order if name in folders), key=lambda name: _began(folders[name]))
    starts = [_began(folders[name]) for name in names]
    moments = [float(line.split()[0]) for line in requests.read_text("utf-8").splitlines()]
    reached = Counter(bisect_right(starts, moment) - 1 for moment in moments)
    return {name: Outcome(read_checks(folders[name]), reached[position]) for position, name in enumerate(names)}


def _match(folder: Path) -> re.Match[str] | None:
    return _FOLDER.fullmatch(folder.name)


def _began(folder: Path) -> float:
    match = _match(folder)
    assert match is not None
    return datetime.strptime(match["start"], "%Y-%m-%dT%H-%M-%S-%f").replace(tzinfo=UTC).timestamp()


def read_checks(folder: Path) -> Counter[tuple[str, str]]:
    """How often each check of a scenario had each status."""
    path = folder / "checks.json"
    if not path.exists():
        return Counter({("the suite finished the scenario", "FAILURE"): 1})
    checks = json.loads(path.read_text("utf-8"))
    return Counter((check["id"], check["status"]) for check in checks if check["status"] != "INFO")
