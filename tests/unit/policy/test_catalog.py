"""Which scope a target needs: no spelling of a URI, and no name of a tool, gets away with less than the strictest."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.policy.catalog import MCP_SCOPES, Catalog, Entry, scope_fault
from accredit.policy.uris import MAX_MARKS, readings

OPEN, ETC, WEB, WORK, CELLAR = (Entry(scope=f"custom:{name}") for name in ("open", "etc", "web", "work", "cellar"))
PREFIXES: Mapping[str, Entry] = {
    "file:///etc": ETC,
    "file:///home/me/private docs/": WORK,
    "https://example.com/admin": WEB,
    "notes://Work/": WORK,
    "notes://work/cellar/": CELLAR,
}
CATALOG = Catalog(resource=OPEN, resource_prefixes=PREFIXES)


def scope(uri: str, catalog: Catalog = CATALOG) -> str | None:
    entry = catalog.find("resources/read", uri)
    return None if entry is None else entry.scope


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///etc", "custom:etc"),
        ("file:///etc/passwd", "custom:etc"),
        ("file:///etcetera", "custom:etc"),
        ("file:///home/me/notes.txt", "custom:open"),
        ("file:///home/me/private docs/a", "custom:work"),
        ("https://example.com/admin/users?x=1#y", "custom:web"),
        ("https://example.com/", "custom:open"),
        ("https://example.com/a//b/?q=a%20b", "custom:open"),
        ("https://other.example/admin", "custom:open"),
        ("notes://Work/today", "custom:work"),
        ("notes://work/cellar/wine", "custom:cellar"),
        ("notes://work/cellar/", "custom:cellar"),
        ("notes://home/work/cellar/", "custom:open"),
        ("notes:1", "custom:open"),
        ("urn:isbn:123", "custom:open"),
        ("file:///home/\u00fc/\u65e5\u672c.txt", "custom:open"),
        ("mail://alice@example.com/inbox", "custom:open"),
    ],
)
def test_a_plain_uri_has_the_scope_of_its_longest_prefix(uri: str, expected: str) -> None:
    assert scope(uri) == expected


@pytest.mark.holds("policy/uris", "invalid", "percent-decoding", "normalization", "scheme", "host")
@pytest.mark.parametrize(
    "uri",
    [
        "file:///home/../etc/passwd",
        "file:///home/..//etc/passwd",
        "file:///./etc/passwd",
        "file:////etc/passwd",
        "file:///%65tc/passwd",
        "file:///%2565tc/passwd",
        "file:///home/%2e%2e/etc/passwd",
        "file:///home/%2E%2E%2Fetc/passwd",
        "file:///home/%252e%252e%252fetc/passwd",
        "file:///home/x/..%5c..%5cetc/passwd",
        "file:///home\\..\\etc\\passwd",
        "file:\\\\\\etc\\passwd",
        "FILE:///etc/passwd",
        "File:///ETC/passwd",
        "file:///Etc/passwd",
        "file:///%45TC/passwd",
        "file:/etc/passwd",
        "file:etc/passwd",
        "file://localhost/etc/passwd",
        "file://LOCALHOST/etc/passwd",
        "file://127.0.0.1/etc/passwd",
        "file://anything/etc/passwd",
        "file://etc/passwd",
        "file:///\uff45tc/passwd",
        "file:///%EF%BD%85tc/passwd",
        "file:///\U0001d404tc/passwd",
        "/etc/passwd",
        "etc/passwd",
        " file:///etc/passwd",
        "file:///etc/passwd ",
        "%20file:///etc/passwd",
        "\tfile:///etc/passwd",
        "fi\nle:///etc/passwd",
        "file:///e\ttc/passwd",
        "file:///e%09tc/passwd",
        "file:///e%0atc/passwd",
        "file:///etc%00/passwd",
        "file:///home/x%00/../../etc/passwd",
        "file:///e\u200btc/passwd",
        "file:///e\u00adtc/passwd",
        "file:///\u202eetc/passwd",
        "file:///home/%c0%ae%c0%ae/etc/passwd",
        "file:///home/%ff",
        "file:///etc/../home/me",
        "file:///etc/../../etc/../home",
        "file:///home/me/private%20docs/a",
        "file:///home/me/Private Docs/a",
        "https:/example.com/admin",
        "https:example.com/admin",
        "https:///example.com/admin",
        "https://EXAMPLE.com/admin",
        "https://example.com:443/admin",
        "https://example.com:/admin",
        "https://example.com./admin",
        "https://user:pw@example.com/admin",
        "https://example.com/x/../admin",
        "https://example.com//admin",
        "https://example.com/%61dmin",
        "https://example.com/ADMIN",
        "https://exam\nple.com/admin",
        "notes://work/today",
        "notes://WORK/today",
        "notes://Work/cellar/wine",
        "notes://home/../work/cellar/wine",
        "notes://Work/../work/cellar/wine",
        "notes://home/%2e%2e/Work/today",
        "notes://Work/Cellar/wine",
        "notes://home/" + "x" * 9000,
    ],
    ids=lambda uri: ascii(uri)[:60],
)
def test_a_uri_that_a_server_could_take_for_another_is_nobodys(uri: str) -> None:
    assert scope(uri) is None


@pytest.mark.holds("policy/uris", "percent-decoding")
@pytest.mark.parametrize("depth", range(1, 8))
def test_encoding_over_itself_leads_nowhere(depth: int) -> None:
    uri = "file:///%2e%2e/etc/passwd"
    for _ in range(depth):
        uri = uri.replace("%", "%25")
    assert scope(uri) is None


def test_without_prefixes_every_uri_has_the_one_scope() -> None:
    for uri in ("", "x", "file:///../..", "\0", "%%%"):
        assert scope(uri, Catalog(resource=OPEN)) == "custom:open"


@pytest.mark.parametrize("prefix", ["https://Example.com:443/Admin%20Area/", "notes:", "file:", "file:///a%2Fb/"])
def test_a_prefix_that_is_not_plainly_written_covers_what_begins_with_it(prefix: str) -> None:
    assert scope(f"{prefix}here", Catalog(resource=OPEN, resource_prefixes={prefix: ETC})) == "custom:etc"


def test_prefixes_that_differ_only_in_their_spelling_each_have_their_own() -> None:
    catalog = Catalog(resource=OPEN, resource_prefixes={"notes://Work/": WORK, "notes://work/": CELLAR})
    found = [scope(uri, catalog) for uri in ("notes://Work/x", "notes://work/x", "notes://WORK/x")]
    assert found == ["custom:work", "custom:cellar", None]


def test_a_prefix_that_is_an_end_of_a_host_covers_no_other_host() -> None:
    catalog = Catalog(resource=OPEN, resource_prefixes={"https://example.com": ETC})
    assert scope("https://example.com/x", catalog) == "custom:etc"
    assert scope("https://user@example.com/x", catalog) is None


def test_a_prefix_that_asks_for_the_same_makes_no_difference() -> None:
    same = Catalog(resource=OPEN, resource_prefixes={"file:///etc": OPEN})
    assert scope("file:///home/../etc", same) == "custom:open"


def test_the_empty_prefix_stands_for_every_uri() -> None:
    catalog = Catalog(resource=OPEN, resource_prefixes={"": ETC})
    assert scope("notes:1", catalog) in {"custom:etc", None}


@pytest.mark.holds("policy/uris", "invalid")
@pytest.mark.parametrize("piece", ["%25", "../", "\u0390", "a/../", "//", "\\"])
def test_a_uri_that_is_too_long_to_be_looked_at_is_nobodys(piece: str) -> None:
    assert scope("file:///" + piece * 1_000_000) is None


PIECES = st.sampled_from(
    [
        *("file:", "FILE:", "/", "//", "\\", "%2f", "%5C", "%252f", "..", "%2e", ".", "etc", "Etc", "%65tc", "passwd"),
        *("home", "localhost", "?", "#", ";", ":", " ", "%00", "\t", "\uff0f", "\uff45", "@", "%"),
    ]
)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=10).map("".join))
@settings(max_examples=300)
def test_no_uri_is_taken_for_open_that_a_lenient_reader_takes_for_the_other(uri: str) -> None:
    found = scope(uri)
    if found == "custom:open":
        for reading in readings(uri):
            assert not reading.startswith("file:///etc")


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_no_uri_raises(uri: str) -> None:
    assert scope(uri) in {None, "custom:open", "custom:etc", "custom:web", "custom:work", "custom:cellar"}
    assert scope("file:///etc/" + uri) in {None, "custom:etc"}


class TestTools:
    CATALOG = Catalog(tools={"send": ETC})

    @pytest.mark.parametrize("name", ["", "Send", "send ", " send", "send\0", "s\u0435nd", "\uff53end", "tools/call"])
    def test_a_tool_is_found_by_its_exact_name_or_not_at_all(self, name: str) -> None:
        assert self.CATALOG.tool("send") is ETC
        assert self.CATALOG.find("tools/call", name) is None

    def test_a_default_is_for_every_tool_that_has_no_entry(self) -> None:
        catalog = Catalog(tools={"send": ETC}, default_tool=OPEN)
        assert [catalog.tool(name) for name in ("send", "Send", "")] == [ETC, OPEN, OPEN]

    @pytest.mark.parametrize("method", ["tools/list", "ping", "", "Tools/call"])
    def test_what_is_not_guarded_has_no_entry(self, method: str) -> None:
        assert Catalog(default_tool=OPEN).find(method, "x") is None

    def test_prompts_have_theirs(self) -> None:
        assert Catalog(prompt=WEB).find("prompts/get", "x") is WEB

    def test_what_needs_nothing_else_has_the_scopes_that_every_deployment_knows(self) -> None:
        assert {Catalog().resource.scope, Catalog().prompt.scope, "mcp:tool"} == MCP_SCOPES
        assert Catalog().tool("x") is None


class TestEntries:
    @pytest.mark.parametrize(
        ("entry", "sensitive"),
        [
            (Entry(scope="files:write"), True),
            (Entry(scope="files:write", marked_sensitive=False), True),
            (Entry(scope="files:read"), False),
            (Entry(scope="files:read", marked_sensitive=True), True),
            (Entry(scope="email:send"), False),
            (Entry(scope="files:read", accepts=("files:write",)), False),
            (Entry(scope="Files:write"), False),
            (Entry(scope="custom:files:write"), False),
        ],
    )
    def test_it_is_sensitive_where_the_operator_or_the_vocabulary_says_so(self, entry: Entry, sensitive: bool) -> None:
        assert entry.sensitive is sensitive

    def test_its_scope_or_any_that_it_accepts_satisfies_it(self) -> None:
        entry = Entry(scope="email:send", accepts=("comms:email:send", "mcp:tool"))
        assert [entry.allows([scope]) for scope in ("email:send", "comms:email:send", "mcp:tool")] == [True] * 3
        assert [entry.allows(granted) for granted in ((), ("email:read",), ("email",), ("comms:*",))] == [False] * 4


def test_the_vocabulary_is_what_every_entry_names() -> None:
    catalog = Catalog(
        tools={"a": Entry(scope="a:1", accepts=("a:2",))},
        default_tool=Entry(scope="b:1"),
        resource=Entry(scope="c:1"),
        resource_prefixes={"x:": Entry(scope="d:1", accepts=("d:2",))},
        prompt=Entry(scope="e:1"),
    )
    assert catalog.vocabulary() == MCP_SCOPES | {"a:1", "a:2", "b:1", "c:1", "d:1", "d:2", "e:1"}


@pytest.mark.parametrize(
    "scope", ["email:send", "mcp:tool", "custom:x", "custom:\u00e9", "files:write", "a:b:c", "a:" + "x" * 254]
)
def test_a_concrete_scope_is_one(scope: str) -> None:
    assert scope_fault(scope) is None


@pytest.mark.parametrize(
    "scope",
    [
        *("", " ", "a b", "a\n", "a\0", "a\u200b", "*", "email:*", "comms:*", "custom:*", "mcp:*", "x" * 257),
        *("a", "\u00e9", "x" * 256, "x-a:b", "urn:a", "a:", "a::b", ":b", "custom:a b", "custom:"),
        *("\u00e9" * 129, "\ud800", "a\u00a0b", "a\u3000b"),
    ],
    ids=ascii,
)
def test_what_no_call_can_be_held_against_is_no_scope(scope: str) -> None:
    assert scope_fault(scope) is not None


@pytest.mark.holds("policy/uris", "invalid")
def test_a_uri_that_piles_up_marks_is_nobodys__to_put_them_in_order_takes_the_square_of_the_time() -> None:
    assert readings("file:///e" + "\u0301" * MAX_MARKS)
    assert not readings("file:///e" + "\u0301" * (MAX_MARKS + 1))
    assert not readings("file:///e" + "%CC%81" * (MAX_MARKS + 1))
