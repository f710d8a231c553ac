"""What peers say is in no metric, no span, and no byte that goes to the collector: property test with marks planted in
all of it, on every way to a server."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.test_measured_ways import WAYS, over_http
from tests.world.calls import Posted, post
from tests.world.ends import SESSION
from tests.world.measured import Measured, collecting
from tests.world.running import run

from accredit.jsonrpc.methods import Era
from accredit.net.otlp import Collector
from accredit.telemetry.export import Exporter
from accredit.telemetry.exposition import text_of

pytestmark = [pytest.mark.slow, pytest.mark.holds("telemetry")]
MARK = "zqxjkvbpw"
"""Six of the rarest letters in a row: in no text of ours."""

marked = st.text("ab-._ \u00e9\U0001f600", max_size=6).map(lambda text: f"{text}{MARK}{text}")
METHODS = ("tools/call", "resources/read", "prompts/get", "completion/complete", f"vendor/{MARK}", "tools/list")


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, dict[str, Any], str, list[tuple[str, str]]]:
    """A request with marks in everything that a client can say: its method, params, id and headers."""
    method = draw(st.sampled_from(METHODS))
    state = {"requestState": draw(marked)} if draw(st.booleans()) else {}
    params = {
        "name": draw(st.sampled_from(["good", "fails", "refuses", "lies", draw(marked)])),
        "uri": f"mail://{draw(marked)}",
        "arguments": {draw(marked): draw(marked), "_token": draw(marked)},
        "_meta": {
            draw(marked): draw(marked),
            "baggage": f"key={draw(marked)}",
            "tracestate": f"a={draw(marked)}",
            "traceparent": draw(st.sampled_from(["00-" + "a" * 32 + "-" + "b" * 16 + "-01", draw(marked)])),
            "com.ratifyprotocol/proof": draw(marked),
            "progressToken": draw(marked),
        },
        **state,
    }
    plain = f"{MARK}{draw(st.integers(0, 9))}"
    headers = [("Authorization", f"Bearer {plain}"), ("tracestate", f"a={plain}"), ("baggage", f"a={plain}")]
    headers += [("traceparent", draw(st.sampled_from([plain, "00-" + "c" * 32 + "-" + "d" * 16 + "-01"])))]
    return method, params, draw(marked), headers


@pytest.mark.parametrize("examples", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize(("kind", "era"), WAYS, ids=[f"{kind}-{era.value}" for kind, era in WAYS])
def test_no_mark_of_a_peer_s_is_in_any_metric_span_or_message_to_the_collector(
    kind: str, era: Era, examples: int, tmp_path: Path
) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(messages(), min_size=3, max_size=5))
    def holds(asked: list[tuple[str, dict[str, Any], str, list[tuple[str, str]]]]) -> None:
        measured = Measured()

        async def main() -> None:
            async with over_http(kind, era, measured.telemetry, tmp_path / "received") as (send, _):
                for method, params, id, headers in asked:
                    posted = post(era, method, params, id=id)
                    ascii_only = [(name, value) for name, value in posted.headers if value.isascii()]
                    with_marks = [*ascii_only, *headers]
                    if kind != "legacy_sse":  # there a refused message has no answer on the stream to wait for
                        await send(Posted(with_marks, posted.body))
                if kind == "legacy_sse":
                    method, params, id, headers = asked[0]
                    called = post(era, "tools/call", {**params, "name": "good"}, id=id)
                    await send(Posted([*called.headers, *headers], called.body))

        run(main())
        with collecting() as collector:
            exporter = Exporter(measured.metrics, measured.queue, lambda: Collector(collector.url), "accredit", "1")
            exporter.start()
            asyncio.run(exporter.stop())
            assert collector.spans
            assert collector.metrics
            shown = text_of(measured.board) + b"".join(collector.bodies)
        assert MARK.encode() not in shown
        assert SESSION.encode() not in shown
        assert not [thread for thread in threading.enumerate() if thread.name == "accredit-telemetry"]

    holds()
