"""`python -m bench [--quick] [--only NAME] [--write]`: measures and prints tables, in bench/results."""

import argparse
import contextlib
import datetime
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench import footprint, front_door, main_job, report, speed
from bench.errors import BenchError
from bench.processes import NGINX, ROOT, gateway, nginx, upstream
from bench.speed import DIRECT, FULL, GATEWAY, QUICK, Plan, Series, Way
from bench.speed import NGINX as NGINX_WAY

FULL_GROWTH_CALLS, QUICK_GROWTH_CALLS = 100_000, 5_000
MEMORY = "memory"
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "reference" / "performance.md"
README = ROOT / "README.md"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few series and rounds: about a minute")
    parser.add_argument(
        "--only",
        metavar="NAME",
        default="",
        help="only the series whose name holds it, or one of 'memory', 'main-job', 'front-door'",
    )
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables into {PAGE.relative_to(ROOT)}, and two ratios into README"
    )
    options = parser.parse_args(arguments)
    if options.write and (options.only or options.quick):
        parser.error("--write takes a whole run")
    if options.only == front_door.NAME:
        return front_door.main(["--quick"] if options.quick else [])
    plan = chosen(QUICK if options.quick else FULL, options.only)
    calls = QUICK_GROWTH_CALLS if options.quick else FULL_GROWTH_CALLS
    if not plan.series and options.only not in (MEMORY, main_job.NAME):
        parser.error(f"no series has {options.only!r} in its name")
    try:
        with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
            found = list(series(plan, Path(folder)))
            memory = footprint.measure(calls, Path(folder), say) if options.only in ("", MEMORY) else None
        job = main_job.main(quick=options.quick) if options.only in ("", main_job.NAME) else ""
        keep(results(arguments, found, memory, job), write=options.write)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def chosen(plan: Plan, name: str) -> Plan:
    return replace(plan, series=tuple(pair for pair in plan.series if name in f"{pair[0]}-x{pair[1]}"))


def series(plan: Plan, folder: Path) -> list[Series]:
    if not plan.series:
        return []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(upstream("upstream", folder))
        ways = [Way(DIRECT, server.url, server.pid)]
        if NGINX is not None:
            proxy = stack.enter_context(nginx(server.url, folder))
            ways.append(Way(NGINX_WAY, proxy.url, proxy.pid))
        ours = stack.enter_context(gateway(server.url, folder))
        ways.append(Way(GATEWAY, ours.url, ours.pid))
        return list(speed.measure(plan, ways, folder, say))


def results(arguments: list[str], found: list[Series], memory: footprint.Footprint | None, job: str) -> report.Results:
    return report.Results(
        command=" ".join(["python -m bench", *arguments]),
        date=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        machine=report.machine(),
        versions=report.versions(),
        skipped=() if NGINX is not None else ("nginx, which is not installed (Debian: apt-get install nginx)",),
        series=found,
        footprint=memory,
        main_job=job,
    )


def keep(found: report.Results, *, write: bool) -> None:
    text = report.as_markdown(found)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bench.md").write_text(text, "utf-8")
    (RESULTS / "bench.json").write_bytes(report.as_json(found))
    if write:
        PAGE.write_text(report.into_page(PAGE.read_text("utf-8"), text), "utf-8")
        README.write_text(report.into_readme(README.read_text("utf-8"), PAGE.read_text("utf-8")), "utf-8")


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
