"""What several servers offer at one endpoint: no name of one is taken for another's, and each needs its own scope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.policy.catalog import Catalog, Entry
from accredit.policy.merging import (
    Member,
    MergedCatalog,
    member_of_name,
    member_of_target,
    member_of_uri,
    merged_name,
    merged_page,
    merged_uri,
)

pytestmark = pytest.mark.holds("policy/merging")

SERVERS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True)
OWN = st.text() | st.text("ab_-:%{}", max_size=8)


@pytest.mark.holds("policy/merging", "prefix", "server-name", "one-name")
@given(SERVERS, OWN)
def test_a_name_goes_there_and_back_whatever_the_server_calls_its_own(server: str, own: str) -> None:
    assert member_of_name(merged_name(server, own)) == Member(server, own)
    assert member_of_uri(merged_uri(server, own)) == Member(server, own)
    for uri in (own, f"ui://{own}"):
        assert member_of_uri(merged_page(server, uri)) == Member(server, uri)


@pytest.mark.holds("policy/merging", "one-name")
@given(
    OWN
    | st.builds(merged_name, SERVERS, OWN)
    | st.builds(merged_uri, SERVERS, OWN)
    | st.builds(merged_page, SERVERS, OWN.map("ui://{}".format))
)
def test_no_second_spelling_stands_for_the_same(text: str) -> None:
    by_name, by_uri = member_of_name(text), member_of_uri(text)
    assert by_name is None or merged_name(*by_name) == text
    assert by_uri is None or text in (merged_uri(*by_uri), merged_page(*by_uri))


@pytest.mark.holds("policy/merging", "server-name")
@given(SERVERS, SERVERS, OWN, OWN)
def test_two_servers_never_share_a_name(one: str, other: str, own: str, others: str) -> None:
    same = (one, own) == (other, others)
    assert (merged_name(one, own) == merged_name(other, others)) is same
    assert (merged_uri(one, own) == merged_uri(other, others)) is same


@pytest.mark.holds("policy/merging", "server-name", "one-name")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mail__send", Member("mail", "send")),
        ("mail__calendar__send", Member("mail", "calendar__send")),
        ("mail___send", Member("mail", "_send")),
        ("mail__", Member("mail", "")),
        ("mail_send", None),
        ("send", None),
        ("__send", None),
        ("_mail__send", None),
        ("Mail__send", None),
        (" mail__send", None),
        ("mail\n__send", None),
        ("-mail__send", None),
        ("m" * 33 + "__send", None),
        ("m\u00e4il__send", None),
    ],
)
def test_the_first_two_lines_end_the_servers_name(name: str, expected: Member | None) -> None:
    assert member_of_name(name) == expected


@pytest.mark.holds("policy/merging", "server-name", "one-name")
@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("accredit+mail:file:///a", Member("mail", "file:///a")),
        ("accredit+mail:accredit+other:file:///a", Member("mail", "accredit+other:file:///a")),
        ("accredit+mail:", Member("mail", "")),
        ("accredit+mail", None),
        ("ACCREDIT+mail:file:///a", None),
        ("accredit+Mail:file:///a", None),
        ("accredit+mail%3afile:///a", None),
        ("accredit%2bmail:file:///a", None),
        ("accredit+:file:///a", None),
        ("file:///a", None),
        ("accredit+mail/x:file:///a", None),
    ],
)
def test_a_uri_has_one_spelling(uri: str, expected: Member | None) -> None:
    assert member_of_uri(uri) == expected


SEND, READ, ETC = (Entry(scope=f"custom:{name}") for name in ("send", "read", "etc"))
CATALOG = MergedCatalog(
    by_server={
        "a": Catalog(tools={"send": SEND, "b__send": READ}, resource_prefixes={"file:///etc": ETC}),
        "b": Catalog(default_tool=READ),
        "c": Catalog(),
    }
)


@pytest.mark.parametrize(
    ("method", "target", "entry"),
    [
        ("tools/call", "a__send", SEND),
        ("tools/call", "a__b__send", READ),
        ("tools/call", "b__send", READ),
        ("tools/call", "c__send", None),
        ("tools/call", "d__send", None),
        ("tools/call", "send", None),
        ("tools/call", "accredit+a:send", None),
        ("resources/read", "accredit+a:file:///etc/passwd", ETC),
        ("resources/read", "accredit+b:file:///etc/passwd", Catalog().resource),
        ("resources/read", "accredit+a:file:///x/../etc/passwd", None),
        ("resources/read", "file:///etc/passwd", None),
        ("prompts/get", "c__ask", Catalog().prompt),
        ("prompts/get", "ask", None),
        ("tools/list", "a__send", None),
        ("tasks/get", "a__send", None),
    ],
)
def test_a_target_needs_what_its_own_server_asks_for(method: str, target: str, entry: Entry | None) -> None:
    assert CATALOG.find(method, target) == entry


def test_what_one_catalog_says_the_merged_one_says() -> None:
    assert CATALOG.says_something
    assert CATALOG.tool("a__send") == SEND
    assert not MergedCatalog(by_server={"c": Catalog()}).says_something
    assert {"custom:send", "custom:read", "custom:etc", "mcp:tool"} <= CATALOG.vocabulary()


@given(st.sampled_from(["tools/call", "prompts/get", "resources/read", "tasks/get", "tools/list"]), OWN)
def test_only_targets_that_servers_name_are_anybodys(method: str, own: str) -> None:
    named = dict.fromkeys(("tools/call", "prompts/get", "tasks/get"), merged_name)
    names = {**named, "resources/read": merged_uri}
    made = names.get(method, merged_name)("mail", own)
    assert member_of_target(method, made) == (Member("mail", own) if method in names else None)
