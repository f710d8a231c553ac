"""Which header fields go on, and in whose words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ConfigurationError
from accredit.gateway.forwarding import TO_CLIENT, TO_UPSTREAM, Fate, Forwarding, accepted_types, can_be_added
from accredit.gateway.settings import GatewaySettings, HttpUpstream

OPEN = Forwarding(listed_only=False, own=("X-Api-Key",))
LISTED = Forwarding(listed_only=True, added=("X-Tenant", "set-cookie"))
BOTH = (OPEN, LISTED)
Pairs = list[tuple[bytes, bytes]]


def up(forwarding: Forwarding, *names: bytes) -> list[bytes]:
    return [name for name, _ in forwarding.to_upstream([(name, b"x") for name in names], body=False)]


def back(forwarding: Forwarding, *names: bytes) -> list[bytes]:
    return [name for name, _ in forwarding.to_client([(name, b"x") for name in names])]


@pytest.mark.parametrize("forwarding", BOTH)
@pytest.mark.parametrize(
    "name",
    [b"connection", b"keep-alive", b"proxy-authorization", b"te", b"trailer", b"transfer-encoding", b"upgrade"],
)
def test_hop_by_hop_headers_pass_neither_way(forwarding: Forwarding, name: bytes) -> None:
    assert up(forwarding, name, b"user-agent") == [b"user-agent"]
    assert back(forwarding, name, b"retry-after") == [b"retry-after"]


@pytest.mark.parametrize("forwarding", BOTH)
@pytest.mark.parametrize(
    "name",
    [
        *(b"x-forwarded-for", b"x-forwarded-anything", b"forwarded", b"x-real-ip", b"host", b"content-length"),
        *(b"expect", b"x-http-method-override", b"x-http-method", b"x-method-override", b"x-original-url"),
        *(b"x-rewrite-url", b"x-original-method", b"proxy", b"x-middleware-subrequest", b"x-accel-mapping"),
        *(b"content-encoding", b"content-transfer-encoding", b"content-range", b"content-digest", b"digest"),
        *(b"accept-charset", b"range", b"if-range", b"if-none-match", b"accredit-identity", b"x-content-type"),
    ],
)
def test_nothing_goes_up_that_says_how_a_message_is_read_or_where_it_goes__however_it_is_spelled(
    forwarding: Forwarding, name: bytes
) -> None:
    spelled = [name, name.replace(b"-", b"_"), name.replace(b"-", b"."), name.replace(b"-", b"_", 1)]
    assert up(forwarding, *spelled) == []


@pytest.mark.parametrize("forwarding", BOTH)
@pytest.mark.parametrize(
    "name", [b"content_type", b"mcp_session_id", b"mcp.session-id", b"mcp-param_x", b"last_event_id", b"x_api_key"]
)
def test_a_name_that_a_careless_reader_takes_for_one_of_ours_does_not_pass(forwarding: Forwarding, name: bytes) -> None:
    assert up(forwarding, name) == []


@pytest.mark.parametrize("forwarding", BOTH)
@pytest.mark.parametrize("name", [b"", b"X-Upper", b"x y", b"x\n", b"x:", b"caf\xe9", b"x\0"])
def test_a_name_that_is_no_clean_token_goes_nowhere(forwarding: Forwarding, name: bytes) -> None:
    assert up(forwarding, name) == back(forwarding, name) == []


@pytest.mark.holds("gateway/forwarding", "guarded", "open")
def test_where_calls_are_guarded_only_what_is_listed_or_added_goes_on() -> None:
    names = (b"x-tenant", b"x-other", b"cookie", b"origin", b"mcp-name", b"mcp-param-a", b"mcp-future", b"user-agent")
    assert up(LISTED, *names) == [b"x-tenant", b"mcp-name", b"mcp-param-a", b"user-agent"]
    assert up(OPEN, *names) == list(names)
    names = (b"set-cookie", b"etag", b"x-tenant", b"server", b"mcp-session-id", b"www-authenticate")
    assert back(LISTED, *names) == [b"set-cookie", b"x-tenant", b"mcp-session-id", b"www-authenticate"]
    assert back(OPEN, *names) == list(names)


@pytest.mark.parametrize("forwarding", BOTH)
@pytest.mark.parametrize(
    "name", [b"x-accel-redirect", b"x-accel-charset", b"x-sendfile", b"alt-svc", b"location", b"content-location"]
)
def test_an_answer_sends_neither_a_proxy_nor_a_client_elsewhere(forwarding: Forwarding, name: bytes) -> None:
    assert back(forwarding, name, b"x-accel-buffering") == [b"x-accel-buffering"]


def test_what_connection_names_belongs_to_one_hop() -> None:
    raw = [
        (b"connection", b"close, X-Hop"),
        (b"connection", b"x-two"),
        (b"x-hop", b""),
        (b"x-two", b""),
        (b"x-three", b""),
    ]
    assert OPEN.to_upstream(raw, body=False) == [(b"x-three", b"")]
    assert OPEN.to_client(raw) == [(b"x-three", b"")]


@pytest.mark.parametrize("name", [b"authorization", b"mcp-session-id", b"mcp-name", b"last-event-id", b"cookie"])
def test_but_not_what_the_gateway_judged_by(name: bytes) -> None:
    assert OPEN.to_upstream([(b"connection", name.upper()), (name, b"x")], body=False) == [(name, b"x")]


def test_a_body_is_json_in_our_own_words() -> None:
    raw: Pairs = [(b"content-type", b"application/json; charset=utf-7"), (b"content-encoding", b"br")]
    for forwarding in BOTH:
        assert forwarding.to_upstream(raw, body=True) == [(b"content-type", b"application/json")]
        assert forwarding.to_upstream(raw, body=False) == []
        assert forwarding.to_client(raw) == []


@pytest.mark.parametrize(
    ("values", "ours"),
    [
        ((b"application/json, text/event-stream",), b"application/json, text/event-stream"),
        ((b"application/json", b"text/event-stream;q=0.5"), b"application/json, text/event-stream;q=0.5"),
        ((b"application/json;charset=utf-7",), b"application/json"),
        ((b"application/json;charset=utf-16;q=0.2, */*;Q=0",), b"application/json;q=0.2, */*;q=0"),
        ((b'application/json;x="a,b";q=1, text/html',), b"application/json, text/html"),
        ((b"garbage, \xff/x, application/json;q=2",), b"application/json"),
        ((b"",), b""),
        ((), b""),
    ],
)
def test_accept_names_types_and_weights_only(values: tuple[bytes, ...], ours: bytes) -> None:
    assert accepted_types(b",".join(values)) == ours


@given(st.lists(st.binary(max_size=80), max_size=4).map(tuple))
def test_no_accept_breaks_it_and_ours_is_stable(values: tuple[bytes, ...]) -> None:
    ours = accepted_types(b",".join(values))
    assert accepted_types(ours) == ours


@pytest.mark.parametrize(
    "name",
    [
        *("content-type", "Content-Type", "content_type", "host", "transfer-encoding", "x-original-url", "forwarded"),
        *(
            "authorization",
            "accept",
            "accredit-identity",
            "x-forwarded-for",
            "range",
            "location",
            "",
            "caf\u00e9",
            "a b",
        ),
    ],
)
def test_no_configuration_adds_a_header_by_which_a_message_is_read_or_sent(name: str) -> None:
    assert not can_be_added(name)
    with pytest.raises(ConfigurationError):
        GatewaySettings(HttpUpstream("http://u/mcp"), forward_headers=(name,))


@pytest.mark.parametrize("name", ["cookie", "Set-Cookie", "X-Api-Key", "baggage", "etag", "user-agent", "x_old"])
def test_others_may_be_added(name: str) -> None:
    assert can_be_added(name)
    assert GatewaySettings(HttpUpstream("http://u/mcp"), forward_headers=(name,))


@pytest.mark.parametrize("forwarding", BOTH)
def test_an_unread_message_keeps_its_words_but_not_those_about_where_it_goes(forwarding: Forwarding) -> None:
    read = [b"content-type", b"content-encoding", b"accept", b"range", b"if-none-match", b"user-agent"]
    elsewhere = [b"x-original-url", b"x_original_url", b"x-http-method-override", b"x-forwarded-for", b"content_type"]
    raw = [(name, b"x") for name in (*read, *elsewhere, b"host", b"content-length", b"accept-encoding", b"connection")]
    assert [name for name, _ in forwarding.unread_to_upstream(raw)] == read
    raw = [(name, b"x") for name in (b"content-type", b"content-range", b"content-length", b"x-accel-redirect")]
    assert [name for name, _ in forwarding.unread_to_client(raw)] == [b"content-type", b"content-range"]


def test_where_calls_are_guarded_no_session_is_named_on_a_path_that_is_not_mcps() -> None:
    raw = [(b"mcp-session-id", b"x"), (b"mcp-name", b"x"), (b"last-event-id", b"x")]
    assert LISTED.unread_to_upstream(raw) == []
    assert OPEN.unread_to_upstream(raw) == raw


@given(st.binary(max_size=30))
def test_every_name_has_a_fate(name: bytes) -> None:
    assert {TO_UPSTREAM.fate(name), TO_CLIENT.fate(name)} <= set(Fate)
