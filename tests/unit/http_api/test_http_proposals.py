"""What is proposed for an API's operations: no scope covers two that change things, and no route another operation."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import RequestError
from accredit.http_api.openapi import Operation
from accredit.http_api.proposals import Proposal, Proposals, propose, read_scope
from accredit.http_api.routes import RouteTable
from accredit.http_api.targets import read_target
from accredit.policy.catalog import scope_fault

READ = read_scope("mail")


def operation(text: str, name: str = "", server: str = "") -> Operation:
    method, _, path = text.partition(" ")
    return Operation(method, path, name, "", False, server)


def proposed(*texts: str, **more: object) -> Proposals:
    return propose([operation(text) for text in texts], "mail", **more)  # type: ignore[arg-type]


def one(text: str, name: str = "") -> Proposal:
    (found,) = propose([operation(text, name)], "mail").routes
    return found


def kept(found: Proposals) -> list[str]:
    return [each.route.text for each in found.routes]


def left(found: Proposals) -> dict[str, str]:
    return {each.route.text: why for each, why in found.left_out}


@pytest.mark.holds("http_api/proposals", "reads")
def test_reads_share_one_scope_of_this_api() -> None:
    assert READ == "custom:mail:read"
    for method in ("GET", "HEAD", "OPTIONS"):
        assert one(f"{method} /messages/{{id}}", "listAll").needs == (READ, False)


@pytest.mark.holds("http_api/proposals", "own-scope")
def test_what_changes_things_has_a_scope_of_its_own_by_its_name() -> None:
    assert one("PUT /a", "messages/replace").needs == ("custom:mail:messages.replace", False)
    assert re.fullmatch(r"custom:mail:PATCH-a-x-~[0-9a-f]{8}", one("PATCH /a/{x}").scope)


@pytest.mark.holds("http_api/proposals", "own-scope")
def test_no_name_gives_an_operation_the_scope_of_another_or_of_reads() -> None:
    names = ["read", "same", "same", "sa/me", "sa.me", "same", ""]
    found = propose(
        [operation(f"POST /{at}", name) for at, name in enumerate(names)],
        "mail",
        there={"PUT /z": ("custom:mail:sa.me", False)},
    )
    scopes = [each.scope for each in found.routes]
    assert len(set(scopes)) == len(names)
    assert not {READ, "custom:mail:sa.me"} & set(scopes)
    assert "custom:mail:same" in scopes


@pytest.mark.holds("http_api/proposals", "sensitive")
@pytest.mark.parametrize(
    ("text", "name", "sensitive"),
    [
        ("DELETE /a/{x}", "", True),
        ("POST /a/{x}/send", "", True),
        ("POST /a/{x}/SEND", "x", True),
        ("POST /a", "sendMessage", True),
        ("PUT /a", "admin.users/revoke-all", True),
        ("POST /a/{x}", "createTransfer", False),
        ("PATCH /sends/{x}", "", False),
        ("GET /a/send", "", True),
        ("GET /a", "deleteAll", True),
        ("GET /pulls/{n}/merge", "pulls/check-if-merged", False),
    ],
)
def test_what_nobody_takes_back_is_sensitive__and_no_read(text: str, name: str, sensitive: bool) -> None:
    found = one(text, name)
    assert found.sensitive is sensitive
    assert not sensitive or found.scope != READ


@pytest.mark.holds("http_api/proposals", "left-out")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("TRACE /a", "a method and a path"),
        ("POST /a/{x}:go", "whole segment"),
        ("POST /a?b=c", "a method and a path"),
        ("POST /a//b", "empty segment"),
        ("POST /a;b", "characters"),
        ("POST /a/{x}/{x}", "once"),
        ("POST /é", "characters"),
    ],
)
def test_a_path_that_no_table_takes_is_left_out(text: str, why: str) -> None:
    found = proposed("POST /other", text)
    assert kept(found) == ["POST /other"]
    assert why in left(found)[text]


@pytest.mark.holds("http_api/proposals", "left-out")
def test_what_is_at_another_server_is_left_out() -> None:
    found = propose([operation("POST /a", "", "https://uploads.example")], "mail")
    assert left(found) == {"POST /a": "it is at https://uploads.example"}


@pytest.mark.holds("http_api/proposals", "not-another")
@pytest.mark.parametrize(
    ("wide", "lost"),
    [
        ("DELETE /a/{x}", "DELETE /a/{x}:all"),
        ("POST /a/{x}", "POST /a/é"),
        ("POST /a", "POST /a?do=pay"),
        ("POST /a", "POST /a/"),
        ("POST /a", "POST /A"),
        ("POST /a/{x}", "POST /a/{y}"),
        ("POST /{x}/me", "POST /users/{id}"),
        ("POST /", "POST /#Target=x"),
    ],
)
def test_no_route_is_proposed_as_which_what_is_left_out_would_count(wide: str, lost: str) -> None:
    for texts in ((wide, lost), (lost, wide)):
        found = proposed(*texts)
        assert not found.routes
        assert {*left(found)} == {wide, lost}


@pytest.mark.holds("http_api/proposals", "not-another")
def test_reads_that_need_the_same_stay__and_so_does_what_is_narrower() -> None:
    assert kept(proposed("GET /a/{x}", "GET /a/{x}.json")) == ["GET /a/{x}"]
    assert kept(proposed("POST /a/me", "POST /a/{x}:go")) == ["POST /a/me"]
    assert kept(proposed("POST /a/{x}", "DELETE /a/{x}:go", "POST /b/{x}:go", "POST /a/b/{x}:go")) == ["POST /a/{x}"]


@pytest.mark.holds("http_api/proposals", "not-another")
def test_what_is_left_out_for_another_takes_those_with_it_as_which_it_would_count_itself() -> None:
    found = proposed("POST /{x}/{y}", "POST /a/{y}", "POST /a/{y}:go")
    assert not found.routes


@pytest.mark.holds("http_api/proposals", "not-another")
def test_an_operation_whose_requests_count_as_a_route_that_is_there_is_told() -> None:
    there = {"GET /a/{id}": ("email:read", False), "POST /a/{id}": ("custom:mail:x", False)}
    found = proposed("GET /a/{x}", "GET /a/keys", "POST /a/{x}:go", "PUT /a/b", there=there)
    assert found.same == {"GET /a/{id}"}
    assert found.counted == {"GET /a/keys": ["GET /a/{id}"], "POST /a/{x}:go": ["POST /a/{id}"]}
    assert kept(found) == ["GET /a/keys", "PUT /a/b"]


SEGMENTS = st.sampled_from(["a", "b", "A", "{x}", "{y}", "{x}:go", "a.", "", "c%20d"])
TEXTS = st.tuples(st.sampled_from(["GET", "POST"]), st.lists(SEGMENTS, min_size=1, max_size=3)).map(
    lambda found: f"{found[0]} /{'/'.join(found[1])}"
)
NAMES = st.sampled_from(["", "read", "go", "sendIt", "é", "x" * 300]) | st.text(max_size=6)


@pytest.mark.holds("http_api/proposals", "own-scope", "left-out", "not-another")
@given(st.lists(st.tuples(TEXTS, NAMES), max_size=8, unique_by=lambda each: each[0]))
def test_whatever_the_operations_are__requests_of_one_need_what_was_proposed_for_it(
    given: list[tuple[str, str]],
) -> None:
    found = propose([operation(*each) for each in given], "mail")
    table = RouteTable(kept(found))
    needs = {each.route.text: each.needs for each in found.routes}
    writes = [scope for scope, _ in needs.values() if scope != READ]
    assert len(set(writes)) == len(writes)
    assert all(scope_fault(scope) is None for scope, _ in needs.values())
    for each in (*found.routes, *(out for out, _ in found.left_out)):
        sample = re.sub(r"\{[^}]*\}", "7", each.operation.path)
        try:
            match = table.find(each.operation.method, read_target(sample.encode()))
        except RequestError:
            continue
        assert match is None or needs[match.route] == each.needs
