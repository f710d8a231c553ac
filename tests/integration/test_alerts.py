"""Each alert fires where an operator is wanted, and is silent a little below that: asked of Prometheus's own tool."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

pytestmark = pytest.mark.slow

ALERTS = Path(__file__).parents[2] / "deploy/prometheus/alerts.yml"
OF = 'job="accredit",instance="g"'
MINUTES = 40


class Case(NamedTuple):
    """Series, each with its values minute by minute, that make an alert fire, and others that do not."""

    fires: dict[str, str]
    quiet: dict[str, str]
    says: str = ',instance="g"'


def decisions(**per_minute: int) -> dict[str, str]:
    """So many decisions a minute, by `data.error`; `allowed` have none."""
    found: dict[str, str] = {}
    for error, number in per_minute.items():
        verdict, word = ("allow", "") if error == "allowed" else ("deny", error)
        found[f'accredit_decisions_total{{{OF},verdict="{verdict}",error="{word}"}}'] = f"0+{number}x{MINUTES}"
    return found


def once(error: str) -> dict[str, str]:
    """One refusal that is counted in minute 38: a series that begins says nothing yet."""
    return {f'accredit_decisions_total{{{OF},verdict="deny",error="{error}"}}': "0x37 1x9"}


def always(series: str, value: float) -> dict[str, str]:
    """A gauge."""
    name, _, labels = series.partition("{")
    return {f"{name}{{{OF}{',' + labels.rstrip('}') if labels else ''}}}": f"{value:g}x{MINUTES}"}


def took(metric: str, seconds: float, bounds: tuple[float, ...], **labels: str) -> dict[str, str]:
    """Sixty a minute of a histogram that took so long."""
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    edges = [(f"{bound:g}", seconds <= bound) for bound in bounds] + [("+Inf", True)]
    return {f'{metric}_bucket{{{OF}{more},le="{edge}"}}': f"0+{60 * counts}x{MINUTES}" for edge, counts in edges}


def asked_of_server(error: str, per_minute: int) -> dict[str, str]:
    """Requests to a server that ended so."""
    name = "mcp_client_operation_duration_seconds_count"
    return {f'{name}{{{OF},server="mail",error_type="{error}"}}': f"0+{per_minute}x{MINUTES}"}


def digests(one: int, other: int) -> dict[str, str]:
    """Two gateways' configurations."""
    return {
        f'accredit_config_digest{{job="accredit",instance="{name}"}}': f"{digest}x{MINUTES}"
        for name, digest in (("g", one), ("h", other))
    }


SHORT = (0.1, 0.2, 0.5, 1.0, 5.0)
LONG = (10.0, 30.0, 60.0, 120.0)
CALLS = {"mcp_method_name": "tools/call"}
CASES = {
    "AccreditNotScraped": Case(always("up", 0), always("up", 1)),
    "AccreditCannotRecord": Case(once("record_unavailable"), once("ratify_expired")),
    "AccreditChallengesFull": Case(once("too_many_challenges"), once("ratify_expired")),
    "AccreditTokenKeysUnavailable": Case(decisions(keys_unavailable=1), decisions(invalid_token=1, allowed=9)),
    "AccreditManyRefusals": Case(decisions(ratify_expired=6, allowed=5), decisions(ratify_expired=5, allowed=6)),
    "AccreditQuotaExceeded": Case(decisions(quota_exceeded=6, allowed=94), decisions(quota_exceeded=4, allowed=96)),
    "AccreditDefinitionChanged": Case(once("definition_changed"), once("quota_exceeded")),
    "AccreditInvalidAnswers": Case(
        {f'accredit_upstream_invalid_total{{{OF},server="mail"}}': f"0+1x{MINUTES}"},
        always('accredit_upstream_invalid_total{server="mail"}', 7),
    ),
    "AccreditServerFails": Case(
        {**asked_of_server("upstream_timeout", 6), **asked_of_server("", 94)},
        {**asked_of_server("upstream_timeout", 4), **asked_of_server("tool_error", 60), **asked_of_server("", 36)},
    ),
    "AccreditReplicasLeftOut": Case(
        always('accredit_breaker_state{server="mail"}', 1), always('accredit_breaker_state{server="mail"}', 0)
    ),
    "AccreditSlow": Case(
        took("mcp_server_operation_duration_seconds", 50, LONG, **CALLS),
        {
            **took("mcp_server_operation_duration_seconds", 20, LONG, **CALLS),
            **took("mcp_server_operation_duration_seconds", 50, LONG, mcp_method_name="subscriptions/listen"),
        },
    ),
    "AccreditStoreSlow": Case(
        took("accredit_store_seconds", 0.9, SHORT, op="spend"), took("accredit_store_seconds", 0.4, SHORT, op="spend")
    ),
    "AccreditLogSlow": Case(
        always("accredit_log_queue", 1001),
        {**always("accredit_log_queue", 900), **took("accredit_log_turn_seconds", 0.4, SHORT)},
    ),
    "AccreditSinkBehind": Case(
        always('accredit_sink_lag_records{sink="siem"}', 1001),
        # a burst that was sent within a quarter of an hour
        {f'accredit_sink_lag_records{{{OF},sink="siem"}}': "0x27 9000x5 0x7"},
    ),
    "AccreditClockDiffers": Case(
        always("accredit_store_skew_seconds", 2.1), always("accredit_store_skew_seconds", 1.9)
    ),
    "AccreditConfigurationsDiffer": Case(digests(1, 2), digests(1, 1), says=""),
    "AccreditWorkersDie": Case(
        {f"accredit_worker_starts_total{{{OF}}}": f"0+1x{MINUTES}"}, always("accredit_worker_starts_total", 8)
    ),
    "AccreditSpansLost": Case(
        {f'accredit_spans_total{{{OF},outcome="failed"}}': f"0+5x{MINUTES}"},
        {f'accredit_spans_total{{{OF},outcome="sent"}}': f"0+5x{MINUTES}"},
    ),
}  # fmt: skip


def test_each_alert_has_its_case() -> None:
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == CASES.keys()


def test_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        assert not os.environ.get("CI"), "continuous integration has promtool"
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "promql_expr_test": [
                {
                    # what fires is a series of Prometheus's own; that of others may fire beside it
                    "expr": f'group by (alertname, instance) (ALERTS{{alertstate="firing",alertname="{alert}"}})',
                    "eval_time": f"{MINUTES}m",
                    "exp_samples": [{"labels": named, "value": 1}] if fires else [],
                }
            ],
        }
        for alert, case in CASES.items()
        for fires, given in ((True, case.fires), (False, case.quiet))
        for named in [f'{{alertname="{alert}"{case.says}}}']
    ]
    file = tmp_path / "alerts.test.yml"
    told = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(told), "utf-8")
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
