"""Which route a request is: exact, literals first, and never by what a server might take for the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.errors import RequestError
from accredit.http_api.routes import MAX_ROUTES, RouteTable, read_route
from accredit.http_api.targets import read_target

TABLE = RouteTable(
    [
        "GET /messages",
        "GET /messages/{id}",
        "GET /messages/drafts",
        "POST /messages/{id}/send",
        "DELETE /messages/{id}",
        "POST /caf%C3%A9",
        "GET /",
        "GET /files/{folder}/{name}",
        "PUT /files/{folder}/index",
    ]
)


def found(method: str, target: str) -> tuple[str, dict[str, str]] | None:
    match = TABLE.find(method, read_target(target.encode()))
    return (match.route, match.parameters) if match is not None else None


@pytest.mark.holds("http_api/routes", "exact")
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("HEAD", "/messages"),
        ("get", "/messages"),
        ("GET ", "/messages"),
        ("GET", "/messages/"),
        ("GET", "/messages/5/"),
        ("POST", "/messages/5"),
        ("GET", "/message"),
        ("GET", "/messages/5/send"),
        ("POST", "/messages/x/y/send"),
        ("GET", "/messages2"),
        ("PATCH", "/"),
    ],
)
def test_another_method_or_path_is_no_route(method: str, target: str) -> None:
    assert found(method, target) is None


@pytest.mark.holds("http_api/routes", "literal-first")
def test_a_literal_wins__and_parameters_have_their_decoded_values() -> None:
    assert found("GET", "/messages/drafts?x=1") == ("GET /messages/drafts", {})
    assert found("GET", "/messages/5") == ("GET /messages/{id}", {"id": "5"})
    assert found("DELETE", "/messages/drafts") == ("DELETE /messages/{id}", {"id": "drafts"})
    assert found("POST", "/messages/a%20b/send") == ("POST /messages/{id}/send", {"id": "a b"})
    assert found("POST", "/caf%c3%a9") == ("POST /caf%C3%A9", {})
    assert found("GET", "/files/a/index") == ("GET /files/{folder}/{name}", {"folder": "a", "name": "index"})
    assert found("GET", "/") == ("GET /", {})


@pytest.mark.holds("http_api/routes", "no-twins")
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/Messages"),
        ("GET", "/messages."),
        ("GET", "/messages%20"),
        ("GET", "/messages/Drafts"),
        ("GET", "/messages/%EF%BD%84rafts"),
        ("POST", "/messages/5/SEND"),
        ("GET", "/CAF%C3%89"),
        ("GET", "/files/a/Index"),
        ("HEAD", "/MESSAGES/1"),
    ],
)
def test_a_segment_that_could_be_taken_for_a_literal_is_refused(method: str, target: str) -> None:
    with pytest.raises(RequestError, match="but for case"):
        found(method, target)


@pytest.mark.holds("http_api/routes", "one-meaning")
@pytest.mark.parametrize(
    "texts",
    [
        ["GET /a", "POST /A"],
        ["GET /a/b", "GET /a/b."],
        ["GET /a", "GET /a/"],
        ["GET /a/{x}", "GET /a/b/"],
        ["GET /a/{x}", "GET /a/{y}"],
        ["GET /a/{x}", "GET /{y}/b"],
        ["GET /{a}/b/{c}", "GET /x/{y}/{z}"],
    ],
)
def test_tables_of_two_meanings_are_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^has "):
        RouteTable(texts)


def test_routes_that_only_look_alike_are_taken() -> None:
    assert RouteTable(["GET /a/{x}", "GET /a/b", "POST /{y}/b", "POST /a"]).routes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GET",
        "GET a",
        "get /a",
        "GET  /a",
        "GET /a ",
        "GET /a?b",
        "GET /a#b",
        "CONNECT /a",
        "TRACE /a",
        "GET /a{x}",
        "GET /{x}y",
        "GET /{}",
        "GET /{1}",
        "GET /{x}/{x}",
        "GET //a",
        "GET /../a",
        "GET /a;b",
        "GET /a%2fb",
        "GET /%41",
    ],
)
def test_what_no_request_could_be_is_no_route(text: str) -> None:
    with pytest.raises(ValueError, match=r"^should "):
        read_route(text)


def test_a_table_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than"):
        RouteTable(f"GET /{number}" for number in range(MAX_ROUTES + 1))


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["a", "b", "A", "{x}", "{y}", "c"]), min_size=1, max_size=3),
    st.text("abAcx/.%20", max_size=8),
)
def test_whatever_is_asked_the_table_finds_what_its_segments_say(parts: list[str], path: str) -> None:
    try:
        table = RouteTable(["GET /" + "/".join(parts), "GET /a/b"])
        target = read_target(b"/" + path.encode())
        match = table.find("GET", target)
    except (ValueError, RequestError):
        return
    if match is not None:
        route = table.routes[match.route]
        pairs = zip(route.segments, target.segments, strict=True)
        assert all(segment != "" if literal is None else literal == segment for literal, segment in pairs)


LATER = RouteTable(
    ["GET /messages/{key}", "GET /files/{folder}/{name}", "GET /files/mine/{name}", "PUT /files/{a}/{b}"]
)


@pytest.mark.holds("http_api/routes", "literal-first")
@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("GET /messages/{id}", "GET /messages/{key}"),
        ("GET /messages/drafts", "GET /messages/{key}"),
        ("PUT /files/{folder}/index", "PUT /files/{a}/{b}"),
        ("GET /files/{folder}/{name}", None),
        ("GET /files/mine/{x}", "GET /files/mine/{name}"),
        ("GET /files/mine/x", "GET /files/mine/{name}"),
        ("GET /messages", ""),
        ("DELETE /messages/{id}", ""),
        ("no route", ""),
    ],
)
def test_what_a_route_is_in_another_table_is_said_only_where_it_does_not_depend_on_the_path(
    text: str, now: str | None
) -> None:
    assert LATER.route_now(text) == now


@given(
    st.sampled_from(["GET", "PUT", "POST"]), st.lists(st.sampled_from(["messages", "files", "mine", "x"]), max_size=4)
)
def test_a_request_of_a_route_is_of_what_that_route_is_in_another_table(method: str, segments: list[str]) -> None:
    target = read_target(f"/{'/'.join(segments)}".encode())
    once, later = TABLE.find(method, target), LATER.find(method, target)
    if once is not None and (now := LATER.route_now(once.route)) is not None:
        assert (later.route if later is not None else "") == now
