"""Values of labels come from lists of ours, whatever peers say."""

from asyncio import CancelledError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.world.calls import compact

from accredit.errors import (
    AnswerError,
    ClientGone,
    InsufficientScope,
    KeysUnavailable,
    MissingToken,
    ProofRefused,
    RequestError,
    UpstreamLeftOut,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.jsonrpc.frames import Failure, Request, Success
from accredit.jsonrpc.methods import METHODS
from accredit.refusals import BY_WORD, CHALLENGE_REQUIRED
from accredit.telemetry.labels import MAX_LABEL_CHARS, OTHER_ERROR, Names, decision_of, error_of, error_of_response

pytestmark = pytest.mark.holds("telemetry/labels")


def request(method: str, params: bytes = b"{}") -> Request:
    return Request(1, method, Raw(params), b"")


def success(result: bytes) -> Success:
    return Success(1, Raw(result), b'{"jsonrpc":"2.0","id":1,"result":%s}' % result)


def test_a_tool_is_named_only_if_the_catalog_names_it__and_a_method_only_if_somebody_of_ours_does() -> None:
    names = Names(["pay"], ["vendor/x"])
    assert names.of(request("tools/call", b'{"name":"pay"}')) == ("tools/call", "pay")
    assert names.of(request("tools/call", b'{"name":"steal"}')) == ("tools/call", "_other")
    assert names.of(request("tools/call", b"{}")) == ("tools/call", "_other")
    assert names.of(request("prompts/get", b'{"name":"pay"}')) == ("prompts/get", "")
    assert names.of(request("vendor/x")) == ("vendor/x", "")
    assert names.of(request("vendor/y")) == ("_other", "")


def test_a_name_that_is_too_long_for_a_label_is_some_other() -> None:
    long = "x" * (MAX_LABEL_CHARS + 1)
    assert Names([long]).of(request("tools/call", b'{"name":"%s"}' % long.encode()))[1] == "_other"


@given(st.text(max_size=40), st.text(st.characters(codec="utf-8"), max_size=40))
def test_whatever_a_client_asks_for_its_labels_are_of_the_lists(method: str, tool: str) -> None:
    params = compact({"name": tool})
    found = Names(["pay"]).of(request(method, params))
    assert found[0] in {*METHODS, "_other"}
    assert found[1] in {"", "pay", "_other"}


@given(st.integers())
def test_a_code_that_nobody_knows_is_some_other_error(code: int) -> None:
    label = error_of_response(Failure(1, code, "no", Raw(b"{}"), b""), of_tool=True)
    assert label == OTHER_ERROR or (label == str(code) and -33_000 < code < -31_000)


@pytest.mark.parametrize(
    ("result", "label"),
    [
        (b'{"isError":true}', "tool_error"),
        (b'{"content":[], "isError" :\n true }', "tool_error"),
        (b'{"isError":false}', ""),
        (b'{"structuredContent":{"isError":true},"isError":false}', ""),
        (b'{"structuredContent":{"isError":true}}', ""),
        (b'{"content":[{"text":"\\"isError\\":true"}]}', ""),
        (b'"isError"', ""),
        (b"{}", ""),
    ],
)
def test_a_tool_s_error_is_one_that_its_result_says(result: bytes, label: str) -> None:
    assert error_of_response(success(result), of_tool=True) == label
    assert error_of_response(success(result), of_tool=False) == ""


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (None, ""),
        (ProofRefused({"error": "ratify_expired"}), "ratify_expired"),
        (ProofRefused({"error": "made up by a peer"}), OTHER_ERROR),
        (MissingToken("why"), "missing_token"),
        (InsufficientScope("why", "what"), "insufficient_scope"),
        (KeysUnavailable("why", 1), "keys_unavailable"),
        (RequestError(-32600, "x"), "-32600"),
        (RequestError(-32600, "x", word="session_not_found"), "session_not_found"),
        (RequestError(12345, "x", word="made up"), OTHER_ERROR),
        (AnswerError("x"), "upstream_invalid"),
        (UpstreamTimeout("x"), "upstream_timeout"),
        (UpstreamLeftOut("x"), "upstream_left_out"),
        (UpstreamUnavailable("x"), "upstream_unavailable"),
        (ClientGone(), "cancelled"),
        (CancelledError(), "cancelled"),
        (ZeroDivisionError("x"), OTHER_ERROR),
    ],
)
def test_what_ended_a_request_has_one_word(error: BaseException | None, label: str) -> None:
    assert error_of(error) == label


def test_a_decision_is_called_as_its_record_is() -> None:
    assert decision_of(None) == ("allow", "")
    for word, row in BY_WORD.items():
        verdict = "challenge" if row.code == CHALLENGE_REQUIRED else "deny"
        assert decision_of(ProofRefused({"error": word}, code=row.code)) == (verdict, word)
    assert decision_of(RequestError(-32020, "x")) == ("deny", "header_mismatch")
    assert decision_of(RequestError(-32000, "x")) == ("deny", "invalid_request")
