"""The era of a message, and the agreement of its headers with its body."""

import base64

import pytest

from accredit.errors import RequestError
from accredit.jsonrpc.era import (
    DUPLICATED,
    check_agreement,
    decode_header,
    names_modern,
    plain_header,
    unmirrored_headers,
)
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.methods import LEGACY_REVISIONS, META_CAPABILITIES, META_VERSION, Era
from accredit.jsonrpc.requests import Batch, decode_request

META = f'"_meta":{{"{META_VERSION}":"2026-07-28","{META_CAPABILITIES}":{{}}}}'
VERSION = {b"mcp-protocol-version": b"2026-07-28"}
LIST = {**VERSION, b"mcp-method": b"tools/list"}
CALL = {**VERSION, b"mcp-method": b"tools/call", b"mcp-name": b"n"}


def message(method: str = "tools/list", params: str | None = None) -> Request:
    frame = decode_request(f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params or META}}}}}'.encode())
    assert isinstance(frame, Request)
    return frame


def call(name: str = '"n"', method: str = "tools/call", member: str = "name") -> Request:
    return message(method, f'"{member}":{name},{META}')


def notification(method: str = "notifications/cancelled") -> Notification:
    frame = decode_request(f'{{"jsonrpc":"2.0","method":"{method}"}}'.encode())
    assert isinstance(frame, Notification)
    return frame


def refused(frame: Request | Notification, headers: dict[bytes, bytes]) -> RequestError:
    with pytest.raises(RequestError) as error:
        check_agreement(frame, headers)
    assert error.value.status == 400
    assert error.value.id == (frame.id if isinstance(frame, Request) else None)
    return error.value


# --- the era ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY_REVISIONS)
def test_a_legacy_revision_is_legacy(revision: str) -> None:
    assert not names_modern({b"mcp-protocol-version": revision.encode()})


@pytest.mark.parametrize("revision", [b"2026-07-28", b" 2026-07-28\t", b"2027-01-01", b"DRAFT-2027"])
def test_a_modern_or_later_revision_is_modern(revision: bytes) -> None:
    assert names_modern({b"mcp-protocol-version": revision})


def test_no_version_at_all_is_legacy__clients_of_the_first_revisions_name_none() -> None:
    assert not names_modern({})
    frames = (message(params='"x":1'), message(params='"_meta":7'), notification(), Batch((), b"[]"))
    assert {frame.era for frame in frames} == {Era.LEGACY}


def test_a_body_with_a_version_is_modern__else_its_header_would_never_be_compared() -> None:
    assert message().era is Era.MODERN
    assert message(params=META.replace("2026-07-28", "2025-11-25")).era is Era.MODERN


def test_a_doubled_modern_version_is_modern_and_then_refused() -> None:
    assert names_modern({b"mcp-protocol-version": b"2026-07-28" + DUPLICATED + b"2025-11-25"})


# --- what every modern request carries --------------------------------------------------------------


@pytest.mark.holds("jsonrpc/era", "meta")
@pytest.mark.parametrize(
    "params",
    [
        '"x":1',
        '"_meta":{}',
        '"_meta":7',
        f'"_meta":{{"{META_VERSION}":"2026-07-28"}}',
        f'"_meta":{{"{META_CAPABILITIES}":{{}}}}',
    ],
)
def test_missing_metadata_is_invalid_params(params: str) -> None:
    error = refused(message(params=params), LIST)
    assert error.code == -32602
    assert "params._meta lacks" in error.detail


def test_a_version_that_is_no_string_is_invalid_params() -> None:
    error = refused(message(params=META.replace('"2026-07-28"', "7")), LIST)
    assert (error.code, error.detail) == (-32602, f"params._meta {META_VERSION} is not a string")


def test_a_request_without_params_lacks_both() -> None:
    frame = decode_request(b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}')
    assert isinstance(frame, Request)
    assert refused(frame, LIST).detail == f"params._meta lacks {META_VERSION} and {META_CAPABILITIES}"


# --- agreement --------------------------------------------------------------------------------------


def test_headers_that_say_what_the_body_says_pass() -> None:
    check_agreement(message(), LIST)
    check_agreement(call(), CALL)
    check_agreement(
        call('"file:///a"', "resources/read", "uri"),
        CALL | {b"mcp-method": b"resources/read", b"mcp-name": b"file:///a"},
    )
    check_agreement(call(method="prompts/get"), CALL | {b"mcp-method": b"prompts/get"})


def test_blanks_around_a_value_are_not_part_of_it() -> None:
    check_agreement(call(), {name: b" \t" + value + b"  " for name, value in CALL.items()})


@pytest.mark.holds("jsonrpc/era", "headers")
@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (b"mcp-protocol-version", None, "MCP-Protocol-Version is missing"),
        (b"mcp-method", None, "Mcp-Method is missing"),
        (b"mcp-name", None, "Mcp-Name is missing"),
        (b"mcp-protocol-version", b"2025-11-25", "MCP-Protocol-Version differs"),
        (b"mcp-method", b"tools/list", "Mcp-Method differs"),
        (b"mcp-method", b"TOOLS/CALL", "Mcp-Method differs"),
        (b"mcp-name", b"m", "Mcp-Name differs"),
        (b"mcp-name", b"N", "Mcp-Name differs"),
        (b"mcp-name", b"", "Mcp-Name differs"),
        (b"mcp-name", b"n\xe9", "Mcp-Name differs"),
        (b"mcp-name", b"=?base64?bg?=", "Mcp-Name differs"),
        (b"mcp-method", b"tools/call" + DUPLICATED + b"tools/call", "Mcp-Method occurs twice"),
        (b"mcp-name", b"n" + DUPLICATED + b"n", "Mcp-Name occurs twice"),
        (b"mcp-protocol-version", b"2026-07-28" + DUPLICATED + b"2026-07-28", "MCP-Protocol-Version occurs twice"),
    ],
)  # fmt: skip
def test_a_header_that_says_something_else_is_refused__intermediaries_route_by_it_and_servers_act_on_the_body(
    name: bytes, value: bytes | None, why: str
) -> None:
    headers = {known: text for known, text in CALL.items() if known != name}
    error = refused(call(), headers if value is None else headers | {name: value})
    assert error.code == -32020
    assert why in error.detail


def test_only_names_have_the_sentinel_form__a_server_would_compare_the_others_as_they_are() -> None:
    encoded = {name: b"=?base64?" + base64.b64encode(value) + b"?=" for name, value in CALL.items()}
    check_agreement(call(), CALL | {b"mcp-name": encoded[b"mcp-name"]})
    for name in (b"mcp-method", b"mcp-protocol-version"):
        assert refused(call(), CALL | {name: encoded[name]}).code == -32020


def test_a_name_that_is_no_ascii_agrees_in_its_sentinel_form() -> None:
    headers = CALL | {b"mcp-name": b"=?base64?" + base64.b64encode("n\u00e9\n".encode()) + b"?="}
    check_agreement(call('"n\u00e9\\n"'), headers)


@pytest.mark.parametrize("name", ["7", "null", "[]"])
def test_a_target_that_is_no_string_is_the_upstreams_to_refuse(name: str) -> None:
    check_agreement(call(name), CALL)


def test_a_method_that_its_revision_does_not_have_has_no_target__not_found_is_the_answer_not_a_missing_header() -> None:
    asked = call('"t"', "tasks/result", "taskId")
    headers = {**VERSION, b"mcp-method": b"tasks/result"}
    check_agreement(asked, headers)
    named = headers | {b"mcp-name": b"another"}
    unmirrored = unmirrored_headers(asked, Era.MODERN, named, (b"mcp-method", b"mcp-name"))
    assert unmirrored == {b"mcp-name"}, "compared with nothing, it must not go on"
    with pytest.raises(RequestError, match="Mcp-Name is missing"):
        check_agreement(call('"t"', "tasks/get", "taskId"), headers | {b"mcp-method": b"tasks/get"})


def test_a_notification_needs_no_metadata_but_its_method_must_agree_where_it_is_said() -> None:
    check_agreement(notification(), VERSION)
    check_agreement(notification(), {**VERSION, b"mcp-method": b"notifications/cancelled"})
    assert refused(notification(), {**VERSION, b"mcp-method": b"tools/call"}).code == -32020


# --- header values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"us-west1", "us-west1"),
        (b" a b\t", "a b"),
        (b"", ""),
        (b"=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, \u4e16\u754c"),
        (b"=?base64?IHBhZGRlZCA=?=", " padded "),
        (b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
        (b"=?base64??=", ""),
        (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (b"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        (b"=?base64?=", "=?base64?="),
    ],
)
def test_a_value_is_decoded(value: bytes, text: str) -> None:
    assert decode_header(value) == text


@pytest.mark.parametrize(
    "value",
    [
        b"=?base64?SGVsbG8?=",
        b"=?base64?SGVs!!!bG8=?=",
        b"=?base64?SGVsbG9=?=",
        b"=?base64?SGVs bG8=?=",
        b"=?base64?/w==?=",
        b"=?base64?7aCA?=",
        b"caf\xc3\xa9",
        b"a\0b",
        b"a\x7f",
    ],
    ids=["padding", "characters", "not_canonical", "blank", "not_utf8", "surrogate", "utf8", "nul", "delete"],
)
def test_a_malformed_value_is_none__it_must_equal_nothing(value: bytes) -> None:
    assert decode_header(value) is None


def test_a_plain_value_keeps_what_looks_like_a_sentinel() -> None:
    assert plain_header(b"=?base64?bg==?=") == "=?base64?bg==?="
    assert plain_header(b"\xe9") is None
