"""Whose client it is, and where its answers go: no look-alike, no address of somebody else."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.oauth.uris import (
    MAX_URI_CHARS,
    PROGRAMS,
    form_action,
    host_of,
    is_allowed,
    is_any_programs,
    is_client_id,
    is_document_url,
    is_given_id,
    is_named_redirect,
    is_pattern,
    is_redirect_uri,
    redirect_host,
)

CLAUDE = "https://claude.ai/oauth/mcp-oauth-client-metadata"
GIVEN = "accredit-client:" + "0a" * 16


@pytest.mark.holds("oauth/uris", "client-id")
@pytest.mark.parametrize(
    "url", [CLAUDE, "https://a.example/c.json?v=2", "https://a.example:8443/c/", "https://xn--bcher-kva.example/c"]
)
def test_a_document_on_the_web_is_a_client(url: str) -> None:
    assert is_document_url(url)
    assert is_client_id(url)


@pytest.mark.holds("oauth/uris", "client-id")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "claude.ai",
        "http://claude.ai/c",
        "https://claude.ai",
        "https://claude.ai/",
        "https://CLAUDE.ai/c",
        "https://claude.ai./c",
        "https://claude.ai@evil.example/c",
        "https://u:p@claude.ai/c",
        "https://claude.ai/c#f",
        "https://claude.ai/a/../c",
        "https://claude.ai/./c",
        "https://claude.ai/a/%2e%2e/c",
        "https://claude.ai/a%2fc",
        "https://claude.ai//c",
        "https://claude.ai/a\\c",
        "https://claude.ai\\@evil.example/c",
        "https://claude.ai/c d",
        "https://claude.ai/c\n",
        "https://cläude.ai/c",
        "https://claude.ai:0/c",
        "https://claude.ai:65536/c",
        "https://claude.ai:/c",
        "https://claude.ai:080/c",
        "https://localhost/c",
        "https://127.0.0.1/c",
        "https://2130706433/c",
        "https://0x7f.1/c",
        "https://[::1]/c",
        "https://169.254.169.254/latest",
        "https://-a.example/c",
        "ftp://claude.ai/c",
        "https:claude.ai/c",
        "https:///c",
        "https://claude.ai/c?a=%00",
        "https://claude.ai/" + "c" * MAX_URI_CHARS,
    ],
)
def test_no_other_spelling_is(url: str) -> None:
    assert not is_client_id(url)


@pytest.mark.holds("oauth/uris", "client-id")
def test_only_tests_have_clients_on_their_own_machine() -> None:
    for url in ("http://127.0.0.1:9/c", "http://localhost/c", "https://localhost:9/c", "https://10.0.0.1/c"):
        assert is_document_url(url, private=True)
        assert not is_document_url(url)
    assert not is_document_url("http://10.0.0.1/c", private=True)
    assert not is_document_url("http://claude.ai/c", private=True)


@pytest.mark.holds("oauth/uris", "given-id")
def test_an_id_that_was_given_out_has_one_form() -> None:
    assert is_client_id(GIVEN)
    for text in (GIVEN + "0", GIVEN[:-1], GIVEN.upper(), GIVEN + "\n", "accredit-client:"):
        assert not is_given_id(text)


@pytest.mark.holds("oauth/uris", "redirect")
@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://a.example:8443/cb?x=%2F",
        "http://127.0.0.1:33418/",
        "http://127.0.0.1/callback",
        "http://[::1]:9/cb",
        "http://localhost:6274/oauth/callback",
        "https://localhost:9/cb",
        "cursor://anysphere.cursor-retrieval/oauth/callback",
        "vscode://dynamicauthprovider/redirect",
        *(f"{scheme}://host/redirect" for scheme in PROGRAMS.split("|")),
        "com.example.app:/cb",
        "com.example.app://cb",
        "com.example.app:///cb",
        "com.example-1.app:cb",
    ],
)
def test_clients_have_their_answers_there(uri: str) -> None:
    assert is_redirect_uri(uri)
    assert is_named_redirect(uri, [uri])


@pytest.mark.holds("oauth/uris", "redirect")
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/cb",
        "http://claude.ai/cb",
        "http://127.0.0.1.evil.example/cb",
        "http://127.0.0.1@evil.example/cb",
        "http://localhost.evil.example/cb",
        "http://127.0.0.1:99999/cb",
        "http://10.0.0.1/cb",
        "https://claude.ai/cb#f",
        "https://*.claude.ai/cb",
        "https://claude.ai/*",
        "https://u@claude.ai/cb",
        "https://claude.ai;script-src/cb",
        "https://claude.ai,evil/cb",
        "https://10.0.0.1/cb",
        "https://claude.ai/\r\nSet-Cookie:a",
        "https://claude.ai\\@evil.example/",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,a",
        "file:///etc/passwd",
        "ms-msdt:/id",
        "view-source:https://claude.ai/",
        "microsoft-edge:https://claude.ai/",
        "googlechromes://claude.ai/",
        "firefox-focus://claude.ai/",
        "a:b",
        "sms:1",
        "tel:1",
        "facetime://1",
        "sip:1",
        "afp://host/",
        "applescript://com.apple.scripteditor?action=new",
        "somebodys-program://cb",
        "x-apple.systempreferences:com.apple.preference.security",
        ".app:/cb",
        "com.:/cb",
        "com..app:/cb",
        "COM.example.app:/cb",
        "com.example.app:",
        "com.example.app:u@host/cb",
        "cursor://u@host/cb",
        "cursor://host/cb#f",
        "https://claude.ai/" + "c" * MAX_URI_CHARS,
    ],
)
def test_no_answer_goes_elsewhere(uri: str) -> None:
    assert not is_redirect_uri(uri)
    assert not is_named_redirect(uri, [uri])


@pytest.mark.holds("oauth/uris", "same-redirect")
@pytest.mark.parametrize(
    ("asked", "named", "same"),
    [
        ("https://a.example/cb", "https://a.example/cb", True),
        ("https://a.example/cb/", "https://a.example/cb", False),
        ("https://a.example/CB", "https://a.example/cb", False),
        ("https://a.example/cb?x=1", "https://a.example/cb", False),
        ("https://a.example:443/cb", "https://a.example/cb", False),
        ("https://a.example:9/cb", "https://a.example:8/cb", False),
        ("https://a.example/%63b", "https://a.example/cb", False),
        ("http://127.0.0.1:51234/cb", "http://127.0.0.1/cb", True),
        ("http://127.0.0.1:51234/cb", "http://127.0.0.1:80/cb", True),
        ("http://127.0.0.1:51234/cb", "http://localhost/cb", False),
        ("http://127.0.0.1:51234/other", "http://127.0.0.1/cb", False),
        ("http://127.0.0.1:51234/cb?a", "http://127.0.0.1/cb", False),
        ("http://[::1]:1/cb", "http://[::1]/cb", True),
        ("https://localhost:1/cb", "https://localhost:2/cb", False),
    ],
)
def test_an_answer_goes_only_where_the_client_said(asked: str, named: str, same: bool) -> None:
    assert is_named_redirect(asked, ["https://other.example/", named]) is same


@pytest.mark.holds("oauth/uris", "pattern")
@pytest.mark.parametrize(
    "text", ["https://claude.ai/*", "https://a.example/b/c*", CLAUDE, GIVEN, "https://a.example:9/*"]
)
def test_an_allow_list_names_hosts(text: str) -> None:
    assert is_pattern(text)


@pytest.mark.holds("oauth/uris", "pattern")
@pytest.mark.parametrize(
    "text",
    [
        "*",
        "https://*",
        "https://claude.ai*",
        "https://claude*",
        "https://*.ai/*",
        "https://*/c",
        "*://claude.ai/*",
        "https://claude.ai/*/c",
        "https://claude.ai/**",
        "https://claude.ai:4*",
        "https://claude.ai/c?*",
        "http://claude.ai/*",
        "accredit-client:*",
        "claude.ai",
        "",
    ],
)
def test_no_entry_of_it_stands_for_any_host(text: str) -> None:
    assert not is_pattern(text)


@pytest.mark.holds("oauth/uris", "pattern")
def test_only_clients_on_the_list_are_let_in() -> None:
    listed = ["https://claude.ai/*", "https://a.example/c", GIVEN]
    assert all(is_allowed(each, listed) for each in (CLAUDE, "https://a.example/c", GIVEN))
    for other in ("https://claude.ai.evil.example/c", "https://a.example/c2", "https://a.example/", GIVEN[:-1] + "b"):
        assert not is_allowed(other, listed)


def test_a_person_is_told_where_the_answer_goes() -> None:
    assert redirect_host("https://claude.ai/cb") == "claude.ai"
    assert redirect_host("http://127.0.0.1:9/cb") == "127.0.0.1:9"
    assert redirect_host("cursor://x/cb") == "cursor:"
    assert host_of(CLAUDE) == "claude.ai"
    assert host_of(GIVEN) == ""
    assert [
        is_any_programs(f"{each}/cb") for each in ("https://a.example", "http://[::1]", "cursor:", "https://localhost")
    ] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("uri", "source"),
    [
        ("https://claude.ai/cb?x", "https://claude.ai"),
        ("http://127.0.0.1:9?x", "http://127.0.0.1:9"),
        ("http://[::1]:9/cb", "http:"),
        ("cursor://x/cb", "cursor:"),
    ],
)
def test_a_page_sends_its_form_to_no_other_origin(uri: str, source: str) -> None:
    assert form_action(uri) == source


_SCHEMES = ["https://", "http://", "cursor:", "javascript:"]
_HOSTS = ["127.0.0.1", "localhost", "[::1]", "a.example", ":9", "@", "*", "ä"]
_PATHS = ["/", "..", ".", "%2e", "?", "#", ";", "\\", " ", "\n"]
_NEAR = st.lists(st.sampled_from(_SCHEMES + _HOSTS + _PATHS), max_size=8).map("".join)


@given(_NEAR | st.text(max_size=40))
def test_whatever_is_good_has_one_meaning(text: str) -> None:
    if is_document_url(text):
        parts = urlsplit(text)
        assert (parts.scheme, parts.username, parts.fragment) == ("https", None, "")
        assert parts.hostname == host_of(text)
        assert ".." not in parts.path.split("/")
    if is_redirect_uri(text):
        source = form_action(text)
        assert not set(source) & set(" ;,'\"*\n")
        assert urlsplit(text).username is None
    if is_pattern(text):
        assert "*" not in text[:-1]
