"""What a run found, as Markdown (readable on a terminal too) and as JSON. It reads versions, and no more."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import msgspec

from bench.errors import BenchError
from bench.footprint import Footprint
from bench.load import WRK
from bench.payloads import MIB
from bench.processes import NGINX
from bench.speed import DIRECT, GATEWAY, Series
from bench.speed import NGINX as NGINX_WAY

MAX_TIMES_NGINX = {
    "200b-json-x16": 2.5,
    "200b-varied-x16": 2.5,
    "200b-modern-x16": 3.0,
    "200b-sse-x16": 3.5,
    "32k-json-x16": 4.0,
    "32k-structured-json-x16": 4.0,
    "32k-modern-x16": 4.0,
    "32k-structured-modern-x16": 4.0,
}
MAX_REST_BYTES = 43 * MIB
MAX_GROWTH_BYTES = MIB
MAX_HUGE_BYTES = 48 * MIB
"""The bound that `[gateway] max_response_bytes` has by default, and 32 MiB."""

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
PEERS_BEGIN, PEERS_END = "<!-- peers:begin -->", "<!-- peers:end -->"
README_PEERS = ("accredit", "supergateway", "FastMCP proxy", "mcp-proxy (PyPI)")
"""The proxies that README's comparison shows, as both pages name them. The gateway's row is that over HTTP."""
_HIGHEST = re.compile(r"(?<=\[)[\d.]+(?=\]\(docs/reference/performance\.md\) times nginx's)")
_RATIO_CELL = re.compile(r"^\| ([\w-]+) .* ([\d.]+) x +\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that one run has found."""

    command: str
    date: str
    machine: str
    versions: str
    skipped: tuple[str, ...]
    series: list[Series]
    footprint: Footprint | None
    main_job: str = ""


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}, Linux {platform.release()}"


def versions() -> str:
    """The commit that was measured, and the versions of that and of what it was measured with."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    names = ["accredit", "uvicorn", "uvloop", "httptools", "msgspec"]
    found = [f"commit {commit.stdout.strip() or 'unknown'}", f"Python {platform.python_version()}"]
    found += [f"{name} {version(name)}" for name in names]
    found += [f"{Path(program).name} {program_version(program)}" for program in (NGINX, WRK) if program]
    return ", ".join(found)


def program_version(program: str) -> str:
    """The version that a program with the option `-v` says."""
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+\.\d+[.\d]*", said.stdout + said.stderr)
    return number[0] if number else "?"


def as_json(results: Results) -> bytes:
    return msgspec.json.format(msgspec.json.encode(asdict(results)), indent=1)


def as_markdown(results: Results) -> str:
    parts = [
        f"{results.date}; {results.machine}; {results.versions}; `{results.command}`.",
        *(f"Skipped: {what}." for what in results.skipped),
    ]
    targets = list(_targets(results))
    if targets:
        parts += [table(("target", "at most", "measured", ""), targets)]
    if results.main_job:
        parts += ["**The main job**", results.main_job]
    if results.series:
        parts += ["**CPU time per call, µs** (direct: the upstream's own)"]
        parts += [table(_COST_HEAD, map(_cost_row, results.series))]
        parts += ["**Calls per second, and latency: median / 99th percentile, ms**"]
        parts += [table(_PACE_HEAD, map(_pace_row, results.series))]
    if results.footprint is not None:
        parts += [
            "**Memory of the gateway's process**",
            table(("state", "MiB"), _memory_rows(results.footprint)),
        ]
    return "\n\n".join(parts) + "\n"


def into_page(page: str, text: str, begin: str = BEGIN, end: str = END) -> str:
    """The page with what stands between the two markers replaced."""
    head, has_begin, rest = page.partition(begin)
    _, has_end, tail = rest.partition(end)
    if not has_begin or not has_end:
        raise BenchError(f"the page has no {begin} ... {end}")
    return f"{head}{begin}\n{text}{end}{tail}"


def highest_ratio(page: str) -> str:
    """The highest ratio to nginx in the page's table of calls that are passed through."""
    block = page.partition(BEGIN)[2].partition(END)[0].partition("**CPU time per call")[2].partition("**Calls per")[0]
    ratios = dict(_RATIO_CELL.findall(block))
    if not ratios:
        raise BenchError("the page has no ratios to nginx")
    return max(ratios.values(), key=float)


def peer_ratio(page: str, peer: str) -> str:
    """The ratio to nginx that the page shows of a proxy, rounded if it has more than one digit before the point."""
    block = page.partition(PEERS_BEGIN)[2].partition(PEERS_END)[0]
    measured = re.search(rf"^\| {re.escape(peer)} .* ([\d.]+) x +\|", block, re.MULTILINE)
    if measured is None:
        raise BenchError(f"the page has no figure of {peer}")
    return measured[1] if len(measured[1]) <= len("1.0") else f"{float(measured[1]):.0f}"


def into_readme(readme: str, page: str) -> str:
    """README with the ratios of the page."""
    readme, shown = _HIGHEST.subn(highest_ratio(page), readme)
    if shown != 1:
        raise BenchError("README does not show the page's highest ratio")
    for peer in README_PEERS:
        cell = rf"^(\| \**{re.escape(peer)}[ *].*\[)[\d.]+(?=\]\(docs/reference/performance\.md#other-proxies\) \|$)"
        readme, shown = re.subn(cell, rf"\g<1>{peer_ratio(page, peer)}", readme, flags=re.MULTILINE)
        if shown != 1:
            raise BenchError(f"README does not show the page's figure of {peer}")
    return readme


def _targets(results: Results) -> Iterable[tuple[str, ...]]:
    for series in results.series:
        if series.name in MAX_TIMES_NGINX:
            times = series.ratio(GATEWAY, NGINX_WAY)
            yield _judged(f"CPU per call to nginx's, {series.name}", times, MAX_TIMES_NGINX[series.name], "{:.1f} x")
    if results.footprint is not None:
        found = results.footprint
        yield _judged("resident at rest", found.rest_rss / MIB, MAX_REST_BYTES / MIB, "{:.1f} MiB")
        growth = f"growth over {found.growth_calls:,} calls"
        yield _judged(growth, found.growth / MIB, MAX_GROWTH_BYTES / MIB, "{:.1f} MiB")
        for what, extra in found.extra.items():
            yield _judged(f"added by {what}", extra / MIB, MAX_HUGE_BYTES / MIB, "{:.1f} MiB")


def _judged(what: str, value: float | None, bound: float, shown: str) -> tuple[str, ...]:
    if value is None:
        return what, shown.format(bound), "not measured", ""
    return what, shown.format(bound), shown.format(value), "met" if value <= bound else "**missed**"


_COST_HEAD = ("call", "direct", "nginx", "gateway", "to nginx")


def _cost_row(series: Series) -> tuple[str, ...]:
    return (
        series.name,
        *(_shown(series.cpu(way), "{:.0f}") for way in (DIRECT, NGINX_WAY, GATEWAY)),
        _shown(series.ratio(GATEWAY, NGINX_WAY), "{:.1f} x"),
    )


_PACE_WAYS = (DIRECT, NGINX_WAY, GATEWAY)
_PACE_HEAD = ("call", *(f"{way}{what}" for way in _PACE_WAYS for what in (" /s", " ms")))


def _pace_row(series: Series) -> tuple[str, ...]:
    cells = [series.name]
    for way in _PACE_WAYS:
        pace = series.typical(way, lambda sample: sample.load.calls / sample.load.duration * 1e6)
        p50 = series.typical(way, lambda sample: sample.load.p50 / 1000)
        p99 = series.typical(way, lambda sample: sample.load.p99 / 1000)
        cells += [_shown(pace, "{:,.0f}"), f"{_shown(p50, '{:.2f}')} / {_shown(p99, '{:.2f}')}"]
    return tuple(cells)


def _memory_rows(found: Footprint) -> Iterable[tuple[str, str]]:
    sizes = {
        "at rest, resident": found.rest_rss,
        "at rest, proportional share": found.rest_pss,
        "highest under load (16 connections, answers up to 1 MiB)": found.load_peak,
        f"growth over {found.growth_calls:,} calls": found.growth,
        **{f"added at the peak by {what}": extra for what, extra in found.extra.items()},
    }
    return [(what, f"{size / MIB:.1f}") for what, size in sizes.items()]


def _shown(value: float | None, shown: str) -> str:
    return "-" if value is None else shown.format(value)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, " | ".join("-" * max(width, 3) for width in widths))
    return "\n".join(f"| {line} |" for line in lines)
