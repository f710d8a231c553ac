"""`make conformance`: the official MCP suite against the everything server, directly and through the gateway; against
our client; and against the front door as an authorization server.

Exit code 0: everything that passes directly passes through the gateway with the same counts of checks (or the
difference is explained in `report.py`), and our client and the front door pass their scenarios; 1: it does not; 2:
wrong use, or no Node.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.conformance.client_suite import run_client
from tests.conformance.door import run_door
from tests.conformance.node import Node, NodeMissing, find_node, install_suite
from tests.conformance.report import DIRECT, Comparison, markdown_report, text_report
from tests.conformance.suite import REVISIONS, Outcomes, read_outcomes, renamed, run_suite, server_scenarios
from tests.conformance.targets import MERGED, NAME, TARGETS, NotStarted

CLIENT, DOOR = "client", "door"
AT_ONCE = 2
"""Runs of the suite."""
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "conformance.md"
BEGIN, END = "<!-- conformance:begin -->", "<!-- conformance:end -->"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    only = [*TARGETS, CLIENT, DOOR]
    parser.add_argument("--only", choices=only, help="one target (all but direct: compared with it)")
    parser.add_argument("--revision", choices=REVISIONS, help="one revision of the protocol")
    parser.add_argument("--scenario", action="append", default=[], help="only this scenario; may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    if options.write and (options.only or options.revision or options.scenario):
        parser.error("--write needs the whole run: leave out --only, --revision and --scenario")
    return options


def run_target(node: Node, entry: Path, results: Path, target: str, *, revision: str, scenarios: list[str]) -> Outcomes:
    """One run of the suite: a fresh target, its results in a folder of their own."""
    folder = results / target / revision
    folder.mkdir(parents=True)
    requests = folder / "requests.log"
    requests.touch()
    begun = time.monotonic()
    with TARGETS[target](folder, requests) as url:
        run_suite(node, renamed(entry, NAME) if target in MERGED else entry, url, revision, scenarios, folder / "suite")
    outcomes = read_outcomes(folder / "suite", requests, list(server_scenarios(revision)))
    print(f"{revision} {target}: {len(outcomes)} scenarios in {time.monotonic() - begun:.0f} s", flush=True)
    return outcomes


def compare(node: Node, entry: Path, results: Path, targets: list[str], revision: str, only: list[str]) -> Comparison:
    """Runs every target for one revision, or these scenarios of it."""
    listed = server_scenarios(revision)
    required = [name for name, scored in listed.items() if scored and (not only or name in only)]
    chosen = [name for name in listed if name in only]
    run = partial(run_target, node, entry, results, revision=revision, scenarios=chosen)
    with ThreadPoolExecutor(AT_ONCE) as pool:  # half of the time is waiting
        outcomes = dict(zip(targets, pool.map(run, targets), strict=True))
    return Comparison(revision, required, outcomes)


def write_page(table: str) -> None:
    """Puts the table between the page's markers."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}", "utf-8")


def run(options: argparse.Namespace, node: Node, entry: Path, results: Path) -> list[Comparison]:
    """All comparisons that were asked for: each revision that has the scenarios, through each target."""
    if options.only in (CLIENT, DOOR):
        return []
    targets = list(TARGETS) if options.only is None else list(dict.fromkeys([DIRECT, options.only]))
    return [
        compare(node, entry, results, targets, revision, options.scenario)
        for revision in revisions(options)
        if not options.scenario or server_scenarios(revision).keys() & set(options.scenario)
    ]


def run_others(options: argparse.Namespace, node: Node, entry: Path, results: Path) -> list[str]:
    """What did not go well with our client and the front door, where they were asked for."""
    runs = {CLIENT: run_client, DOOR: run_door} if not options.scenario else {}
    chosen = [run for name, run in runs.items() if options.only in (None, name)]
    return [problem for run in chosen for each in revisions(options) for problem in run(node, entry, results, each)]


def revisions(options: argparse.Namespace) -> Sequence[str]:
    return [options.revision] if options.revision else REVISIONS


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    results = Path(tempfile.mkdtemp(prefix="accredit-conformance-"))
    try:
        node = find_node()
        entry = install_suite(node)
        comparisons = run(options, node, entry, results)
        problems = run_others(options, node, entry, results)
    except (NodeMissing, NotStarted, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 2
    if not comparisons and options.scenario:
        print(f"no revision has the scenario {', '.join(options.scenario)}", file=sys.stderr)
        return 2
    problems += [problem for comparison in comparisons for problem in comparison.problems()]
    print(text_report(comparisons))
    print()
    print("\n".join([*problems, f"details: {results}"]) if problems else "no unexplained difference")
    if not problems:
        shutil.rmtree(results)
    if options.write and not problems:
        write_page(markdown_report(comparisons))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
