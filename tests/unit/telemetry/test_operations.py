"""What is measured of one request at the way in, and at each server that it goes to."""

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.world.calls import compact
from tests.world.measured import Measured, calls

from accredit.errors import UpstreamTimeout
from accredit.jsonrpc.frames import Failure, Request, Success
from accredit.jsonrpc.requests import Batch, decode_request
from accredit.ports import ProofStore
from accredit.stores import MemoryStore
from accredit.telemetry.labels import Names
from accredit.telemetry.metrics import time_store
from accredit.telemetry.operations import Batched, Meter, Operation, Transports

GOOD = Success(1, Raw(b"{}"), b"{}")


def meter(measured: Measured, server: str = "") -> Meter:
    return measured.telemetry.meter(server, Names(["pay"]), Transports())


def request(method: str = "tools/call", **params: Any) -> Request:
    asked = decode_request(compact({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "pay", **params}}))
    assert isinstance(asked, Request)
    return asked


def test_what_a_gateway_asks_for_itself_is_its_own__and_says_nothing_of_the_call_that_it_asks_it_for() -> None:
    measured = Measured()
    of, call = meter(measured), request()
    begun = of.begin(call, 0.0)
    assert begun is not None
    own, asked = of.sent(request("tools/list"), call.watcher)
    assert isinstance(own, Request)
    assert own.watcher is not None
    own.watcher.answered(Failure(1, -32601, "no", Raw(b"{}"), b"{}"))
    of.received(asked)
    sent, _ = of.sent(call)
    assert isinstance(sent, Request)
    begun.end()
    assert measured.asked == {("tools/list", "", "-32601", ""): 1}
    assert measured.served == {("tools/call", "pay", "_OTHER", ""): 1}
    listed, called = measured.spans()
    assert (listed.name, listed.parent_id) == ("tools/list", called.context.span_id)


def test_what_a_server_has_said_first_counts_there__and_what_its_caller_heard_last_counts_here() -> None:
    measured = Measured()
    of, call = meter(measured), request()
    begun = of.begin(call, 0.0)
    assert isinstance(begun, Operation)
    begun.sent = 1.0
    assert of.in_trace(call, begun).in_meta("traceparent") is not None
    begun.answered(GOOD)
    for error in ("upstream_invalid", "cancelled"):
        begun.end(error)
    assert calls(measured.asked) == {("pay", ""): 1}
    assert calls(measured.served) == {("pay", "upstream_invalid"): 1}
    asked, served = measured.spans()
    assert (asked.error, served.error) == (False, True)
    assert asked.parent_id == served.context.span_id


@pytest.mark.parametrize("code", [-32050, -32768, -1, 0, 7, 2**53])
@pytest.mark.parametrize("apart", [False, True])
def test_a_span_keeps_the_code_of_an_error_whatever_it_is__and_a_label_only_a_known_one(apart: bool, code: int) -> None:
    measured = Measured()
    of, call = meter(measured), request()
    begun = of.begin(call, 0.0)
    assert isinstance(begun, Operation)
    failure = Failure(1, code, "busy", Raw(b"{}"), b"{}")
    if apart:
        sent, asked = of.sent(call)
        assert isinstance(sent, Request)
        assert sent.watcher is not None
        sent.watcher.answered(failure)
        of.received(asked)
    else:
        begun.sent = 1.0
        of.in_trace(call, begun)
        begun.answered(failure)
    begun.end()
    assert calls(measured.asked) == calls(measured.served) == {("pay", "_OTHER"): 1}
    spans = measured.spans()
    assert [each.attributes["rpc.response.status_code"] for each in spans] == [str(code)] * 2
    assert [each.attributes["error.type"] for each in spans] == ["_OTHER"] * 2


def test_a_server_s_code_is_not_that_of_an_exchange_that_ends_otherwise() -> None:
    measured = Measured()
    of, call = meter(measured), request()
    begun = of.begin(call, 0.0)
    assert isinstance(begun, Operation)
    begun.sent = 1.0
    of.in_trace(call, begun)
    begun.answered(Failure(1, -32050, "busy", Raw(b"{}"), b"{}"))
    begun.end("_OTHER")
    asked, served = measured.spans()
    assert asked.attributes["rpc.response.status_code"] == "-32050"
    assert "rpc.response.status_code" not in served.attributes


def test_one_request_that_goes_to_several_servers_is_measured_at_each() -> None:
    measured = Measured(rate=0)
    whole, mail, files = (meter(measured, name) for name in ("", "mail", "files"))
    asked = request("tools/list")
    begun = whole.begin(asked, 0.0)
    assert begun is not None
    to_mail, at_mail = mail.sent(asked)
    to_files, at_files = files.sent(asked)
    assert isinstance(to_mail, Request)
    assert isinstance(to_files, Request)
    assert to_mail is not to_files
    for each in (to_files, to_mail):
        assert each.watcher is not None
    to_files.failed(UpstreamTimeout("late"))
    assert to_mail.watcher is not None
    to_mail.watcher.answered(GOOD)
    mail.received(at_mail)
    files.received(at_files)
    begun.end()
    assert measured.asked == {("tools/list", "", "", "mail"): 1, ("tools/list", "", "upstream_timeout", "files"): 1}
    assert measured.served == {("tools/list", "", "", ""): 1}


def test_an_answer_that_comes_on_another_way_ends_what_is_measured__once() -> None:
    measured = Measured()
    of, call = meter(measured), request()
    begun = of.begin(call, 0.0)
    assert begun is not None
    sent, _ = of.sent(call)
    begun.end(later=True)
    assert measured.served == {}
    assert isinstance(sent, Request)
    assert sent.watcher is not None
    for _ in range(2):
        sent.watcher.answered(GOOD)
    assert calls(measured.served) == calls(measured.asked) == {("pay", ""): 1}
    assert len(measured.spans()) == 2


def test_a_batch_goes_on_as_it_came_unless_a_member_is_traced() -> None:
    members = [{"jsonrpc": "2.0", "id": id, "method": "ping", "params": {}} for id in (1, 2)]
    text = json.dumps([*members, {"jsonrpc": "2.0", "method": "notifications/initialized"}]).encode()
    for rate in (0, 1):
        measured = Measured(rate=rate)
        of, batch = meter(measured), decode_request(text, batch_allowed=True)
        begun = of.begin(batch, 0.0)
        assert isinstance(begun, Batched)
        sent, asked = of.sent(batch)
        assert isinstance(sent, Batch)
        assert (len(begun.operations), len(asked), len(sent.frames)) == (2, 2, 3)
        told = json.loads(sent.text)
        traced = [each["params"]["_meta"]["traceparent"] for each in told[:2]] if rate else []
        assert (sent.text == text) == (not rate)
        assert len(set(traced)) == 2 * rate
        assert [each["id"] for each in told[:2]] == [1, 2]


def test_a_timed_store_does_all_that_a_store_does() -> None:
    asked = {name for name in vars(ProofStore) if not name.startswith("_")}
    assert asked <= vars(time_store(MemoryStore(), Measured().metrics.store_seconds)).keys()
