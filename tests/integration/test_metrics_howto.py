"""The how-to for metrics and traces is executed; dashboard and alerts use the metrics that exist, and all of them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.test_admin import number
from tests.world.calls import post
from tests.world.command import Serving, wait_until
from tests.world.ends import Ends
from tests.world.measured import collecting
from tests.world.ports import reserved_port
from tests.world.raw_client import RawClient
from tests.world.raw_server import RawServer
from tests.world.running import run

from accredit.jsonrpc.methods import Era
from accredit.refusals import BY_WORD
from accredit.telemetry.families import FAMILIES, Family

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/metrics-and-traces.md").read_text("utf-8")
REFERENCE = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "deploy/grafana/accredit.json").read_text("utf-8"))
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8"))
BY_NAME = {family.name: family for family in FAMILIES}
METRIC = re.compile(r"\b((?:accredit|mcp)_\w+?)(_bucket|_count|_sum)?(?:\{([^}]*)\}|(?=[\[\s),]|$))")
LABEL = re.compile(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"')
OF_PROMETHEUS = {"job", "instance", "le"}
NOT_OF_CALLS = {"record_unavailable", "keys_unavailable", "too_many_challenges"} - BY_WORD.keys()


def dashboard_queries() -> list[str]:
    panels: list[Any] = DASHBOARD["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def alert_queries() -> list[str]:
    return [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]


def used(query: str) -> list[tuple[Family, str, dict[str, str]]]:
    """The metrics that a query asks for, each with its suffix and the labels that it is chosen by."""
    found: list[tuple[Family, str, dict[str, str]]] = []
    for name, suffix, labels in METRIC.findall(query.replace("label_values(", "")):
        if name in {label for family in FAMILIES for label in family.labels}:
            continue
        assert name in BY_NAME, f"{query} asks for {name}, which does not exist"
        found.append((BY_NAME[name], suffix, dict(LABEL.findall(labels))))
    return found


@pytest.mark.parametrize("query", [*dashboard_queries(), *alert_queries()])
def test_each_query_is_for_metrics_and_labels_that_there_are(query: str) -> None:
    if query.startswith("up{"):
        return
    asked = used(query)
    assert asked
    known = OF_PROMETHEUS.union(*(family.labels for family, _, _ in asked))
    for family, suffix, labels in asked:
        assert bool(suffix) == (family.kind == "histogram"), query
        assert labels.keys() <= {*family.labels, *OF_PROMETHEUS}, query
        if "error" in labels:
            assert labels["error"] in {*BY_WORD, *NOT_OF_CALLS}, query
    for grouped in re.findall(r"\bby \(([\w, ]*)\)", query):
        assert {each.strip() for each in grouped.split(",")} <= known, query


def test_every_metric_is_on_the_dashboard_and_in_the_reference() -> None:
    shown = {family.name for query in dashboard_queries() for family, _, _ in used(query)}
    assert shown == BY_NAME.keys()
    rows = re.findall(r"^\| `((?:accredit|mcp)_\w+)` \| (.*?) \|", REFERENCE, re.MULTILINE)
    assert {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == {
        family.name: family.labels for family in FAMILIES
    }


def test_what_alerts_say_names_labels_that_their_queries_have() -> None:
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            query = rule["expr"]
            known = OF_PROMETHEUS.union(*(family.labels for family, _, _ in used(query)))
            for by in re.findall(r"\bby \(([\w, ]*)\)", query)[:1]:
                known = {each.strip() for each in by.split(",")}
            said = " ".join(rule["annotations"].values())
            assert set(re.findall(r"\$labels\.(\w+)", said)) <= known, rule["alert"]


def test_prometheus_takes_the_configuration_and_the_alerts() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    command = [promtool, *re.findall(r"^promtool (.*)$", PAGE, re.MULTILINE)[0].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_the_page_says_is_so(tmp_path: Path) -> None:
    on_loopback, outside, traced = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert 'host = "0.0.0.0"' in outside
    commands = re.findall(r"^curl (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2

    async def main(port: int) -> None:
        async with RawServer(Ends()) as upstream:
            text = f"{on_loopback}{traced}".replace("9464", str(port)).replace("http://127.0.0.1:4318", collector.url)
            text = f'[upstream]\nurl = "{upstream.url}"\n{text.replace("0.01", "1")}'
            (tmp_path / "accredit.toml").write_text(f'{text}[tools.send_email]\nscope = "email:send"\n')
            with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
                async with RawClient(gateway.port) as client:
                    posted = post(Era.MODERN, params={"name": "send_email", "arguments": {}})
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
                    assert (await client.answer()).status == 200
                shown = [
                    subprocess.run(
                        ["curl", *command.replace("9464", str(port)).split()],
                        capture_output=True, text=True, check=True,
                    ).stdout
                    for command in commands
                ]  # fmt: skip
                (line,) = re.findall(r"^mcp_server.*$", PAGE, re.MULTILINE)
                series, _, count = line.rpartition(" ")
                assert number(shown[0], series) == float(count)
                assert json.loads(shown[1]) == {"status": "ok", "upstream": True, "refused": {}}
                gateway.stop()
                wait_until(lambda: len(collector.spans) == 2)
            assert upstream.errors == []

    with collecting() as collector, reserved_port() as port:
        run(main(port))
        resource = collector.traces[0].resource_spans[0].resource.attributes
        assert {each.key: each.value.string_value for each in resource}["service.name"] == "mail-gateway"
