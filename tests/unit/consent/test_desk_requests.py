"""A desk's request is one person's, for one gateway, for half a minute."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.asked import URL, WORLD, allowed, an_ask
from tests.world.delegations import NOW
from tests.world.desk_requests import SESSION, a_request, a_session

from accredit.consent.desk_requests import (
    DESK_REQUEST_SECONDS,
    DESK_SESSION_SECONDS,
    MAX_DESK_REQUEST_BYTES,
    check_place,
    check_signed,
    read_desk_request,
)
from accredit.errors import DeskRequestError

ASK = an_ask()
PERSON = WORLD.owner.public_key
LIST = a_request()
GOOD = [
    LIST,
    a_request("list", known=(ASK.code,)),
    a_request("list", session=a_session()),
    a_request("fetch", code=ASK.code),
    a_request("fetch", code=ASK.code, session=a_session()),
    a_request("answer", code=ASK.code, answer=allowed(ASK)),
    a_request("revoke", certificate="0" * 32),
]


@pytest.mark.parametrize("request_", GOOD)
def test_what_a_desk_asks_is_read_as_it_was_signed(request_: Any) -> None:
    read = read_desk_request(request_.encode())
    assert read == request_
    check_place(read, URL, NOW)
    check_signed(read, PERSON)


@given(st.binary() | st.integers(0, 20_000).map(lambda at: GOOD[at % len(GOOD)].encode()[: at % 4_000]))
def test_any_bytes_are_a_request_or_one_error(data: bytes) -> None:
    with pytest.raises(DeskRequestError):
        read_desk_request(data)


@pytest.mark.holds("consent/desk_requests", "members")
@pytest.mark.parametrize(
    "changes",
    [
        {"op": "revoke_all"},
        {"op": "fetch"},
        {"op": "revoke"},
        {"op": "revoke", "certificate": "x"},
        {"op": "revoke", "certificate": "0" * 32, "code": ASK.code},
        {"op": "revoke", "certificate": "0" * 32, "known": []},
        {"certificate": "0" * 32},
        {"op": "answer"},
        {"code": ASK.code},
        {"known": ["x"]},
        {"known": [ASK.code] * 101},
        {"nonce": "1"},
        {"person": "A1" * 16},
        {"gateway": ""},
        {"more": 1},
        {"session": {}},
        {"at": "now"},
    ],
)
def test_what_is_not_written_as_a_request_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(DeskRequestError):
        read_desk_request(json.dumps(json.loads(LIST.text()) | changes).encode())


@pytest.mark.holds("consent/desk_requests", "members")
def test_a_session_answers_nothing__takes_nothing_back__and_a_longer_text_is_not_read() -> None:
    for request in (
        a_request("answer", code=ASK.code, answer=allowed(ASK), session=a_session()),
        a_request("revoke", certificate="0" * 32, session=a_session()),
    ):
        with pytest.raises(DeskRequestError, match="session"):
            read_desk_request(request.text())
    with pytest.raises(DeskRequestError, match=str(MAX_DESK_REQUEST_BYTES)):
        read_desk_request(LIST.text().ljust(MAX_DESK_REQUEST_BYTES + 1))


@pytest.mark.holds("consent/desk_requests", "gateway")
@pytest.mark.parametrize("url", ["https://other.example", f"{URL}/", URL.upper(), f"{URL}:443", ""])
def test_a_request_that_a_gateway_relays_to_another_one_is_of_no_use_there(url: str) -> None:
    with pytest.raises(DeskRequestError, match="another gateway"):
        check_place(LIST, url, NOW)


@pytest.mark.holds("consent/desk_requests", "time")
@pytest.mark.parametrize("off", [DESK_REQUEST_SECONDS + 1, -DESK_REQUEST_SECONDS - 1])
def test_a_request_is_good_for_half_a_minute(off: int) -> None:
    check_place(LIST, URL, NOW + DESK_REQUEST_SECONDS)
    with pytest.raises(DeskRequestError, match="clocks"):
        check_place(LIST, URL, NOW + off)


@pytest.mark.holds("consent/desk_requests", "session")
@pytest.mark.parametrize("until", [NOW - 1, NOW + DESK_SESSION_SECONDS + 1])
def test_a_session_that_is_over__or_too_long__is_none(until: int) -> None:
    with pytest.raises(DeskRequestError, match="session"):
        check_place(a_request(session=a_session(until=until)), URL, NOW)


@pytest.mark.holds("consent/desk_requests", "session")
def test_a_session_that_somebody_else_certified__or_certified_longer__is_none() -> None:
    for session in (
        a_session(WORLD.agent),
        replace(a_session(), until=NOW + 9),
        replace(a_session(), signature=LIST.signature),
    ):
        with pytest.raises(DeskRequestError, match="certify"):
            check_signed(a_request(session=session), PERSON)


@pytest.mark.holds("consent/desk_requests", "signature")
def test_what_was_changed_after_it_was_signed__or_signed_by_another_key__is_none() -> None:
    fetch = a_request("fetch", code=ASK.code)
    for other in (
        a_request(by=WORLD.agent),
        a_request(by=SESSION),
        replace(fetch, nonce="0" * 32),
        replace(fetch, code="0000-00"),
        replace(LIST, op="fetch", code=ASK.code),
        replace(LIST, signature=fetch.signature),
        replace(a_request(session=a_session()), known=(ASK.code,)),
        replace(LIST, session=a_session()),
    ):
        with pytest.raises(DeskRequestError, match="not signed"):
            check_signed(other, PERSON)
