"""Each refusal is counted and logged."""

import logging

import pytest

from accredit.base.log_events import Pace
from accredit.errors import AccreditError, AnswerError, ProofRefused, RequestError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.counters import Counters
from accredit.refusals import CHALLENGE_REQUIRED, MISSING


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RequestError(-32600, "x"), "request_refused"),
        (AnswerError("x"), "answer_refused"),
        (UpstreamTimeout("x"), "upstream_failed"),
        (UpstreamUnavailable("x"), "upstream_failed"),
        (AccreditError("x"), "refused"),
    ],
)
def test_each_kind_has_its_own_count(error: AccreditError, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    counters = Counters()
    with caplog.at_level(logging.WARNING, "accredit.gateway"):
        counters.refused(error)
        counters.refused(error)
        counters.refused(error, observed=True)
    assert counters.counts == {kind: 2, kind + "_observed": 1}
    assert [record.message for record in caplog.records] == [kind, kind, kind + "_observed"]


def test_what_is_left_out_by_the_pace_is_counted__and_said_by_the_next_line(caplog: pytest.LogCaptureFixture) -> None:
    """A peer whose refusals are logged one by one fills the disk with them."""
    counters = Counters(pace=Pace(2))
    with caplog.at_level(logging.WARNING, "accredit.gateway"):
        while not any("left_out" in vars(each)["accredit_fields"] for each in caplog.records):
            counters.of_server("mail").refused(RequestError(-32600, "x"))
            counters.dropped("notifications/x")
            counters.unrecorded(logged=True)
    left_out = sum(vars(each)["accredit_fields"].get("left_out", 0) for each in caplog.records)
    assert left_out > 0
    assert 0 <= counters.counts.total() - len(caplog.records) - left_out < 3  # those of the last round


def test_a_challenge_is_no_denial__an_alarm_for_each_call_of_a_sensitive_tool_would_be_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = Counters()
    with caplog.at_level(logging.INFO, "accredit.gateway"):
        for code in (CHALLENGE_REQUIRED, MISSING):
            counters.refused(ProofRefused({}, "x", code))
    assert counters.counts == {"call_challenged": 1, "call_denied": 1}
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]


def test_what_one_server_says_of_its_tools_is_about_no_other__each_call_elsewhere_would_cost_a_look() -> None:
    shared = Counters()
    loud, quiet = shared.of_server("loud"), shared.of_server("quiet")
    loud.notified("notifications/tools/list_changed")
    loud.refused(AnswerError("x"))
    assert (loud.tool_list_changes, quiet.tool_list_changes) == (1, 0)
    assert shared.counts == quiet.counts == {"answer_refused": 1}


def test_the_log_names_the_server_that_failed__which_of_eight_is_down_nobody_could_tell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING", "accredit.gateway")
    shared = Counters()
    shared.of_server("mail").refused(AnswerError("x"), method="tools/call")
    shared.refused(AnswerError("x"), server="files")
    shared.refused(AnswerError("x"))
    named = [vars(record)["accredit_fields"].get("server") for record in caplog.records]
    assert named == ["mail", "files", None]
