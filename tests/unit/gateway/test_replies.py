"""The one table from a refusal to a reply."""

import json

import pytest

from accredit.errors import (
    AccreditError,
    AnswerError,
    ClientGone,
    FrameError,
    RequestError,
    UpstreamLeftOut,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.gateway.replies import refusal
from accredit.jsonrpc.frames import Failure, decode_frame


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (AnswerError("why"), 502, {"code": -32000, "message": "Invalid upstream JSON-RPC response", "data": "why"}),
        (UpstreamUnavailable("why"), 502, {"code": -32000, "message": "Upstream unavailable", "data": "why"}),
        (UpstreamLeftOut("why"), 503, {"code": -32000, "message": "Upstream unavailable", "data": "why"}),
        (UpstreamTimeout("why"), 504, {"code": -32000, "message": "Upstream unavailable", "data": "why"}),
        (RequestError(-32600, "what"), 400, {"code": -32600, "message": "what"}),
        (
            RequestError(-32700, "what", status=413, data={"a": 1}),
            413,
            {"code": -32700, "message": "what", "data": {"a": 1}},
        ),
    ],
)
def test_each_error_has_its_status_and_its_body(error: AccreditError, status: int, told: dict[str, object]) -> None:
    found = refusal(error)
    assert found.status == status
    assert json.loads(found.frame()) == {"jsonrpc": "2.0", "id": None, "error": told}


@pytest.mark.parametrize("error", [AccreditError("secret"), FrameError("secret"), ClientGone()])
def test_an_error_that_nobody_foresaw_tells_nothing(error: AccreditError) -> None:
    found = refusal(error)
    assert (found.status, found.code, found.message, found.data) == (500, -32603, "Internal error", None)


def test_the_request_s_id_comes_from_the_error_or_from_who_knows_it() -> None:
    assert json.loads(refusal(RequestError(-32600, "x", id=7)).frame())["id"] == 7
    assert json.loads(refusal(AnswerError("x")).frame("seven"))["id"] == "seven"
    assert json.loads(refusal(AnswerError("x")).frame(0))["id"] == 0


@pytest.mark.parametrize("detail", ["plain", 'quo"te\\', "\u2028\u00e4\ud7ff", "\x00\x1f"])
def test_what_is_told_is_a_sound_frame(detail: str) -> None:
    frame = decode_frame(refusal(AnswerError(detail)).frame(7))
    assert isinstance(frame, Failure)
    assert (frame.id, frame.code) == (7, -32000)
