"""Which requests the desk's page answers."""

from typing import Any

import pytest
from starlette.requests import Request

from accredit.console.admission import EVERY_ANSWER, MAX_PAGE_BODY_BYTES, api_fault, host_fault

pytestmark = pytest.mark.holds("console/admission")
ADDRESS = "127.0.0.1:8686"
GOOD = {
    "host": ADDRESS,
    "origin": f"http://{ADDRESS}",
    "sec-fetch-site": "same-origin",
    "content-type": "application/json",
    "content-length": "2",
    "authorization": "Bearer good",
}


def request(method: str = "POST", more: tuple[tuple[str, str], ...] = (), **changes: str | None) -> Request:
    headers = {**GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    pairs = [*((name, value) for name, value in headers.items() if value is not None), *more]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
    return Request({"type": "http", "method": method, "path": "/api/lock", "headers": raw})


def fault(asked: Request, *, login: bool = False) -> tuple[int, str] | None:
    found = host_fault(asked.headers, ADDRESS) or api_fault(
        asked.method, asked.headers, ADDRESS, lambda bearer: bearer == "good", login=login
    )
    return None if found is None else (found.status, found.error)


def test_the_persons_own_page_is_answered() -> None:
    assert fault(request()) is None
    assert fault(request("GET", origin=None, content_type=None, content_length=None)) is None
    assert fault(request(authorization=None), login=True) is None


@pytest.mark.holds("console/admission", "host")
@pytest.mark.parametrize(
    "host",
    ["localhost:8686", "127.0.0.1", "127.0.0.1:8687", "evil.example:8686", "127.0.0.1:8686.", "[::1]:8686", None],
)
def test_a_name_that_was_rebound_to_this_machine_is_not_answered(host: str | None) -> None:
    assert fault(request(host=host)) == (421, "other_host")


@pytest.mark.holds("console/admission", "host")
def test_a_host_that_came_twice_is_not_answered() -> None:
    assert fault(request(more=(("host", ADDRESS),))) == (421, "other_host")


@pytest.mark.holds("console/admission", "same-origin")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "Same-Origin"])
def test_what_another_site_or_port_has_a_browser_ask_is_not_answered(site: str) -> None:
    assert fault(request("GET", sec_fetch_site=site)) == (403, "other_site")
    assert fault(request(sec_fetch_site=site)) == (403, "other_site")
    assert fault(request(sec_fetch_site=site), login=True) == (403, "other_site")


@pytest.mark.holds("console/admission", "writes")
@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"origin": None}, (403, "other_site")),
        ({"origin": "null"}, (403, "other_site")),
        ({"origin": "http://127.0.0.1:8687"}, (403, "other_site")),
        ({"origin": "http://localhost:8686"}, (403, "other_site")),
        ({"sec_fetch_site": None}, (403, "other_site")),
        ({"content_type": "text/plain"}, (415, "not_json")),
        ({"content_type": "application/x-www-form-urlencoded"}, (415, "not_json")),
        ({"content_type": None}, (415, "not_json")),
        ({"content_length": None}, (411, "no_length")),
        ({"content_length": "-1"}, (411, "no_length")),
        ({"content_length": "\xb2"}, (411, "no_length")),
        ({"content_length": str(MAX_PAGE_BODY_BYTES + 1)}, (413, "too_long")),
        ({"content_length": "9" * 5_000}, (413, "too_long")),
    ],
)
def test_a_write_that_a_browser_would_send_for_somebody_else_is_not_taken(
    changes: dict[str, Any], refused: tuple[int, str]
) -> None:
    assert fault(request(**changes)) == refused
    assert fault(request(**changes), login=True) == refused


@pytest.mark.holds("console/admission", "bearer")
@pytest.mark.parametrize("value", [None, "Bearer bad", "Basic good", "good", "Bearer", "Bearer good ", "Bearer  good"])
def test_without_the_bearer_there_is_no_answer(value: str | None) -> None:
    assert fault(request(authorization=value)) == (401, "signed_out")


@pytest.mark.holds("console/admission", "bearer")
def test_two_bearers_are_none() -> None:
    assert fault(request(more=(("authorization", "Bearer good"),))) == (401, "signed_out")


def test_every_answer_says_what_the_page_may_do() -> None:
    headers = {name.decode(): value.decode() for name, value in EVERY_ANSWER}
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert "set-cookie" not in headers
