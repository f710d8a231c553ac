"""Writes `docs/reference/interoperability.md`: the tables, and the differences with their reasons. I/O: that file."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tests.interop.clients import CLIENTS
from tests.interop.compare import Difference, Verdict
from tests.interop.environments import ROOT, version
from tests.interop.servers import SERVERS
from tests.interop.ways import WAYS

PAGE = ROOT / "docs" / "reference" / "interoperability.md"
BEGIN, END = "<!-- interop:begin -->", "<!-- interop:end -->"
ONE_BEGIN, ONE_END = "<!-- one-gateway:begin -->", "<!-- one-gateway:end -->"


def write_page(page: Path, verdicts: Sequence[Verdict], differences: Iterable[Difference], *, how: str = "") -> None:
    """Writes what was found between the two marks of the page, and `how` it was played."""
    said = " ".join(part for part in (summary(verdicts), how) if part)
    found = "\n\n".join([said, tables(verdicts), reasons(verdicts, differences), versions(verdicts)])
    _write(page, BEGIN, found, END)


def write_one_gateway(page: Path, verdicts: Sequence[Verdict], differences: Iterable[Difference], *, how: str) -> None:
    """Writes what was found behind one gateway into its own part of the page."""
    clients = list(dict.fromkeys(verdict.where.client for verdict in verdicts))
    parts = [f"{summary(verdicts)} {how}"]
    for way in dict.fromkeys(verdict.where.way for verdict in verdicts):
        rows = [f"| {way} | {' | '.join(clients)} |", "| --- |" + " --- |" * len(clients)]
        for server in dict.fromkeys(verdict.where.server for verdict in verdicts):
            here = [verdict for verdict in verdicts if (verdict.where.way, verdict.where.server) == (way, server)]
            cells = [_cell([verdict for verdict in here if verdict.where.client == client]) for client in clients]
            rows.append(f"| {server} | {' | '.join(cells)} |")
        parts.append("\n".join(rows))
    parts.append(reasons(verdicts, differences).replace("### The differences", "What was named:"))
    _write(page, ONE_BEGIN, "\n\n".join(parts), ONE_END)


def _write(page: Path, begin: str, found: str, end: str) -> None:
    before, rest = page.read_text("utf-8").split(begin)
    page.write_text(f"{before}{begin}\n\n{found}\n\n{end}{rest.split(end)[1]}", "utf-8")


def summary(verdicts: Sequence[Verdict]) -> str:
    """How much there was, in all."""
    cells = len({(verdict.where.client, verdict.where.server) for verdict in verdicts})
    return f"{len(verdicts)} steps of {cells} pairs of a client and a server: {_cell(verdicts)}."


def how_played(days: Collection[str], absent: Sequence[str]) -> str:
    """On which days, and what is left out."""
    when = " and ".join(dict.fromkeys((min(days), max(days)))) if days else "no day"
    parts = "" if len(days) == 1 else ", in parts, each with the gateway as it was then"
    left_out = f" Not played: {', '.join(absent)}." if absent else " Nothing was left out."
    return f"Played on {when}{parts}.{left_out}"


def versions(verdicts: Sequence[Verdict]) -> str:
    """What each client and server is made of."""
    lines = ["### Versions", "", "| | |", "| --- | --- |"]
    for role, known in (("client", CLIENTS), ("server", SERVERS)):
        names = {getattr(verdict.where, role) for verdict in verdicts}
        for part in (known[name] for name in known if name in names):
            made = ", ".join(f"{package} {version(part.environment, package)}" for package in part.packages)
            lines.append(f"| {role} {part.name} | {made} |")
    return "\n".join(lines)


def tables(verdicts: Sequence[Verdict]) -> str:
    """A table for each server: a row for each client, a column for each way."""
    parts: list[str] = []
    for server in dict.fromkeys(verdict.where.server for verdict in verdicts):
        here = [verdict for verdict in verdicts if verdict.where.server == server]
        ways = [
            way for way in WAYS if any(verdict.where.way == way for verdict in here) and not way.startswith("direct")
        ]
        lines = [f"### Server {server}", "", f"| client | {' | '.join(ways)} |", "| --- |" + " --- |" * len(ways)]
        for client in dict.fromkeys(verdict.where.client for verdict in here):
            mine = [verdict for verdict in here if verdict.where.client == client]
            cells = [_cell([verdict for verdict in mine if verdict.where.way == way]) for way in ways]
            lines.append(f"| {client} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cell(verdicts: Sequence[Verdict]) -> str:
    same = sum(not (verdict.known or verdict.failed or verdict.cannot) for verdict in verdicts)
    named = sum(bool(verdict.known) for verdict in verdicts)
    failed = sum(verdict.failed for verdict in verdicts)
    cannot = sum(verdict.cannot for verdict in verdicts)
    counts = ((same, "same"), (named, "named"), (failed, "UNEXPLAINED"), (cannot, "n/a"))
    return " · ".join(f"{count} {word}" for count, word in counts if count)


def reasons(verdicts: Sequence[Verdict], differences: Iterable[Difference]) -> str:
    """Each difference that occurred, how often, and why it is as it is."""
    parts = ["### The differences"]
    for difference in differences:
        where = [verdict.where for verdict in verdicts if difference.name in verdict.known]
        if where:
            ways = ", ".join(f"`{way}`" for way in dict.fromkeys(each.way for each in where))
            parts.append(f"- **{difference.name}** ({len(where)} steps; {ways}): {difference.reason}")
    return "\n\n".join([parts[0], "\n".join(parts[1:])])
