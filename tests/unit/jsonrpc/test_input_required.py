"""`input_required` results: a person is asked only what the client said that it can ask."""

import pytest

from accredit.errors import FrameError
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.input_required import MAX_INPUT_REQUESTS, check_input_required, shows_pages
from accredit.jsonrpc.objects import members
from accredit.jsonrpc.requests import decode_request

ALL = '{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}'
FORM = b'{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}'
URL = b'{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example"}}'


def asked(capabilities: str | None = ALL, method: str = "tools/call") -> Request:
    meta = "{}" if capabilities is None else f'{{"io.modelcontextprotocol/clientCapabilities":{capabilities}}}'
    frame = decode_request(f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"_meta":{meta}}}}}'.encode())
    assert isinstance(frame, Request)
    return frame


def check(result: bytes, request: Request | None = None) -> None:
    check_input_required(request or asked(), members(result))


def refused(result: bytes, request: Request | None = None) -> str:
    with pytest.raises(FrameError) as error:
        check(result, request)
    return error.value.detail


def entry(text: bytes) -> bytes:
    return b'{"inputRequests":{"a":' + text + b"}}"


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_the_three_methods_may_be_answered_so(method: str) -> None:
    check(b'{"requestState":"s"}', asked(method=method))


@pytest.mark.holds("jsonrpc/input_required", "methods")
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "completion/complete", "vendor/x"])
def test_other_methods_may_not__their_clients_do_not_know_what_to_do(method: str) -> None:
    assert refused(b'{"requestState":"s"}', asked(method=method)) == f"input_required in answer to {method}"


def test_all_three_kinds_pass_with_and_without_state() -> None:
    kinds = b'"a":%s,"b":{"method":"sampling/createMessage","params":{}},"c":{"method":"roots/list"},"d":%s' % (
        FORM,
        URL,
    )
    check(b'{"inputRequests":{' + kinds + b"}}")
    check(b'{"inputRequests":{' + kinds + b'},"requestState":""}')


@pytest.mark.holds("jsonrpc/input_required", "members")
@pytest.mark.parametrize("result", [b"{}", b'{"inputRequests":{}}'])
def test_neither_requests_nor_state_is_refused__the_client_would_retry_for_ever(result: bytes) -> None:
    assert refused(result) == "input_required with neither inputRequests nor requestState"


def test_an_empty_map_counts_as_absent() -> None:
    check(b'{"inputRequests":{},"requestState":"s"}')


@pytest.mark.parametrize("state", [b"null", b"1", b"{}"])
def test_a_state_that_is_no_string_is_refused(state: bytes) -> None:
    assert refused(b'{"requestState":' + state + b"}") == '"requestState" is not a string'


@pytest.mark.parametrize("requests", [b"null", b"[]", b'"x"'])
def test_requests_that_are_no_map_are_refused(requests: bytes) -> None:
    assert refused(b'{"inputRequests":' + requests + b',"requestState":"s"}') == '"inputRequests" is not an object'


@pytest.mark.parametrize("text", [b"null", b'"roots/list"', b"[]"])
def test_an_entry_that_is_no_object_is_refused(text: bytes) -> None:
    assert refused(entry(text)) == "an input request that is not an object"


@pytest.mark.holds("jsonrpc/input_required", "entries")
@pytest.mark.parametrize(
    "text",
    [b"{}", b'{"method":1}', b'{"method":"tools/call"}', b'{"method":"elicitation/Create"}', b'{"method":"ping"}'],
)
def test_an_entry_of_another_kind_is_refused__a_client_could_be_made_to_call_anything(text: bytes) -> None:
    assert refused(entry(text)).startswith("an input request of unknown kind: ")


@pytest.mark.parametrize("params", [b"null", b"[]", b'"x"'])
def test_params_that_are_no_object_are_refused(params: bytes) -> None:
    text = entry(b'{"method":"roots/list","params":' + params + b"}")
    assert refused(text) == "an input request whose params are not an object"


@pytest.mark.parametrize(
    "capabilities", [None, "{}", "null", "[]", '{"roots":null}', '{"Roots":{}}', '{"sampling":{}}']
)
def test_an_undeclared_kind_is_refused__the_client_has_nobody_to_ask(capabilities: str | None) -> None:
    text = entry(b'{"method":"roots/list"}')
    assert refused(text, asked(capabilities)) == "an input request that the client did not declare: roots/list"


def test_each_entry_is_judged_also_a_duplicate() -> None:
    text = b'{"inputRequests":{"a":{"method":"sampling/createMessage"},"a":{"method":"roots/list"}}}'
    assert "did not declare: sampling/createMessage" in refused(text, asked('{"roots":{}}'))


def test_no_mode_is_a_form_and_an_empty_capability_declares_forms_only() -> None:
    check(entry(FORM), asked('{"elicitation":{}}'))
    check(entry(b'{"method":"elicitation/create"}'), asked('{"elicitation":{}}'))
    check(entry(b'{"method":"elicitation/create","params":{"mode":"form"}}'), asked('{"elicitation":{"form":{}}}'))


@pytest.mark.holds("jsonrpc/input_required", "declared-kinds")
def test_an_undeclared_url_is_refused__a_person_would_be_sent_to_a_page_by_a_client_that_cannot() -> None:
    for capabilities in ('{"elicitation":{}}', '{"elicitation":{"form":{}}}'):
        assert refused(entry(URL), asked(capabilities)) == "a URL elicitation that the client did not declare"


def test_an_undeclared_form_is_refused() -> None:
    text = "a form elicitation that the client did not declare"
    assert refused(entry(FORM), asked('{"elicitation":{"url":{}}}')) == text


@pytest.mark.holds("jsonrpc/input_required", "declared-kinds")
def test_what_could_be_a_form_or_a_page_to_visit_needs_both_declared__readers_do_not_agree() -> None:
    either = entry(b'{"method":"elicitation/create","params":{"message":"m","url":"https://a.example"}}')
    for capability in ("{}", '{"form":{}}'):
        with pytest.raises(FrameError, match="without a mode"):
            check(either, asked(f'{{"elicitation":{capability}}}'))
    check(either, asked('{"elicitation":{"form":{},"url":{}}}'))


@pytest.mark.parametrize("mode", [b'"URL"', b'"x"', b"null", b"1"])
def test_an_unknown_mode_is_refused(mode: bytes) -> None:
    text = entry(b'{"method":"elicitation/create","params":{"mode":' + mode + b"}}")
    assert refused(text) == "an elicitation of unknown mode"


@pytest.mark.holds("jsonrpc/input_required", "entries")
@pytest.mark.parametrize(
    "text",
    [
        b'{"method":"roots/list","method":"sampling/createMessage"}',
        b'{"method":"roots/list","Method":"sampling/createMessage"}',
        b'{"method":"elicitation/create","params":{"mode":"form","mode":"url"}}',
        b'{"method":"elicitation/create","params":{"mode":"form","Mode":"url"}}',
    ],
)
def test_an_ambiguous_entry_is_refused__a_client_could_read_the_kind_that_was_not_judged(text: bytes) -> None:
    assert refused(entry(text), asked('{"roots":{},"elicitation":{}}'))


def test_more_input_requests_than_anybody_answers_are_refused_unread() -> None:
    def entries(count: int) -> bytes:
        return b'{"inputRequests":{' + b",".join(b'"%d":%b' % (each, FORM) for each in range(count)) + b"}}"

    check(entries(MAX_INPUT_REQUESTS), asked('{"elicitation":{}}'))
    assert "more than 1024" in refused(entries(MAX_INPUT_REQUESTS + 1), asked('{"elicitation":{}}'))


@pytest.mark.parametrize(
    ("capabilities", "can"),
    [(ALL, True), ('{"elicitation":{}}', False), ('{"elicitation":"url"}', False), ("{}", False), (None, False)],
)
def test_a_page_is_shown_only_by_a_client_that_declares_it(capabilities: str | None, can: bool) -> None:
    assert shows_pages(asked(capabilities)) is can
