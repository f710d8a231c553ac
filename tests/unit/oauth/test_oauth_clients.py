"""What a client says of itself counts as far as anybody could check it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.stores import RING

from accredit.errors import OAuthError
from accredit.oauth.clients import (
    MAX_CLIENT_BYTES,
    MAX_NAME_CHARS,
    MAX_REDIRECTS,
    MAX_REGISTERED_CHARS,
    changes_of,
    read_document,
    read_registration,
    registration_answer,
)
from accredit.stores.door.rows import KeptClient, Kind, Place, Seals

URL = "https://claude.ai/oauth/mcp-oauth-client-metadata"
GIVEN = "accredit-client:" + "0a" * 16


def document(**changes: object) -> bytes:
    members: dict[str, object] = {
        "client_id": URL,
        "client_name": "Claude",
        "redirect_uris": ["https://claude.ai/cb"],
        "token_endpoint_auth_method": "none",
        "logo_uri": 7,
        **changes,
    }
    return json.dumps({name: value for name, value in members.items() if value is not None}).encode()


def refusal(body: bytes) -> OAuthError:
    with pytest.raises(OAuthError) as caught:
        read_document(body, URL)
    return caught.value


@pytest.mark.holds("oauth/clients", "document")
def test_a_document_is_its_client() -> None:
    client = read_document(document(grant_types=["authorization_code", "x"], response_types=["code"]), URL)
    assert (client.id, client.name, client.host, client.redirect_uris) == (
        URL,
        "Claude",
        "claude.ai",
        ("https://claude.ai/cb",),
    )


@pytest.mark.holds("oauth/clients", "document")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        document(redirect_uris="https://claude.ai/cb"),
        document(client_name=7),
    ],
)
def test_what_is_no_document_is_no_client(body: bytes) -> None:
    assert refusal(body).error == "invalid_client_metadata"


@pytest.mark.holds("oauth/clients", "document")
def test_a_document_is_not_read_past_its_bound() -> None:
    assert read_document(document().ljust(MAX_CLIENT_BYTES), URL)
    assert "bytes" in refusal(document().ljust(MAX_CLIENT_BYTES + 1)).detail


@pytest.mark.holds("oauth/clients", "own-id")
@pytest.mark.parametrize("name", [None, "", URL + "/", URL.upper(), "https://evil.example/c"])
def test_nobody_publishes_the_document_of_another(name: str | None) -> None:
    assert "client_id" in refusal(document(client_id=name)).detail


@pytest.mark.holds("oauth/clients", "redirects")
def test_a_client_has_a_redirect_that_can_be_used() -> None:
    for uris in ([], ["http://claude.ai/cb"], ["javascript:alert(1)"]):
        assert refusal(document(redirect_uris=uris)).error == "invalid_redirect_uri"
    assert (
        refusal(document(redirect_uris=["https://claude.ai/cb"] * (MAX_REDIRECTS + 1))).error
        == "invalid_client_metadata"
    )
    both = read_document(document(redirect_uris=["javascript:alert(1)", "https://claude.ai/cb"]), URL)
    assert both.redirect_uris == ("https://claude.ai/cb",)


@pytest.mark.holds("oauth/clients", "redirects")
def test_a_registration_with_a_bad_redirect_is_told_so() -> None:
    with pytest.raises(OAuthError) as caught:
        read_registration(document(redirect_uris=["https://claude.ai/cb", "javascript:alert(1)"]), GIVEN)
    assert caught.value.error == "invalid_redirect_uri"


@pytest.mark.holds("oauth/clients", "redirects")
def test_thousands_of_strangers_registrations_take_the_room_that_was_counted_with__and_not_five_times_that() -> None:
    def redirects(chars: int) -> list[str]:
        return ["https://claude.ai/".ljust(chars // 8, "a")] * 8

    longest = document(client_name="\x01a" * (MAX_NAME_CHARS // 2), redirect_uris=redirects(MAX_REGISTERED_CHARS))
    answer = msgspec.json.encode(registration_answer(read_registration(longest, GIVEN), 0))
    place = Place(Kind.CLIENT, bytes(32), bytes(32))
    assert len(Seals(RING).seal(place, KeptClient(answer, 1), bytes(12))) <= 12 * 1024
    with pytest.raises(OAuthError, match="too long to be kept"):
        read_registration(document(redirect_uris=redirects(MAX_REGISTERED_CHARS + 8)), GIVEN)


@pytest.mark.holds("oauth/clients", "public")
@pytest.mark.parametrize(
    "change", [{"client_secret": "s"}, {"client_secret": ""}, {"token_endpoint_auth_method": "private_key_jwt"}]
)
def test_a_client_that_would_have_to_be_authenticated_is_not_let_in_without(change: dict[str, str]) -> None:
    assert "public" in refusal(document(**change)).detail


@pytest.mark.holds("oauth/clients", "public")
def test_a_registered_client_is_a_public_one_under_the_id_it_is_given() -> None:
    client = read_registration(document(token_endpoint_auth_method="client_secret_post", client_secret="s"), GIVEN)
    answer = registration_answer(client, 1_790_000_000)
    assert (client.id, client.host) == (GIVEN, "")
    assert (answer["client_id"], answer["token_endpoint_auth_method"]) == (GIVEN, "none")
    assert "client_secret" not in answer


@pytest.mark.holds("oauth/clients", "flow")
@pytest.mark.parametrize("change", [{"grant_types": ["implicit"]}, {"response_types": ["token"]}])
def test_a_client_of_another_flow_is_refused(change: dict[str, list[str]]) -> None:
    assert refusal(document(**change)).error == "invalid_client_metadata"


@pytest.mark.holds("oauth/clients", "name")
def test_a_name_fills_no_page_and_is_not_empty() -> None:
    assert read_document(document(client_name="n" * MAX_NAME_CHARS), URL)
    refusal(document(client_name="n" * (MAX_NAME_CHARS + 1)))
    refusal(document(client_name="\u202e\u200b."))
    assert read_document(document(client_name=None), URL).name == "claude.ai"
    assert read_registration(document(client_name=" "), GIVEN).name == "a client without a name"


def test_a_changed_name_or_redirect_is_told() -> None:
    known = read_document(document(), URL)
    port = read_document(document(redirect_uris=["https://claude.ai/other"]), URL)
    renamed = read_document(document(client_name="Claude!"), URL)
    moved = read_document(document(redirect_uris=["https://claude.ai/cb", "https://evil.example/cb"]), URL)
    assert changes_of(port, known) == ()
    assert changes_of(known, moved) == ()
    assert changes_of(renamed, known) == ("name",)
    assert changes_of(moved, known) == ("redirect",)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NEAR = st.fixed_dictionaries(
    {"client_id": st.just(URL)},
    optional={
        "redirect_uris": st.lists(st.sampled_from(["https://a.example/cb", "javascript:a", ""]) | _JSON, max_size=3)
        | _JSON,
        "client_name": st.text(max_size=120) | _JSON,
        "grant_types": _JSON,
        "client_secret": _JSON,
    },
)


@given(st.binary(max_size=100) | _NEAR.map(lambda said: json.dumps(said).encode()))
def test_any_bytes_are_a_client_or_the_one_error(body: bytes) -> None:
    found, said = None, ""
    try:
        found = read_document(body, URL)
    except OAuthError as error:
        said = error.detail
    assert said.isascii()
    assert len(said) < 200
    assert found is None or (found.redirect_uris and found.name)


def test_no_name_looks_like_a_host_that_vouches_for_it() -> None:
    """What people are shown when an app's call waits for them begins with what is certain."""
    named = read_registration(document(client_id=None, client_name="claude.ai: Claude"), GIVEN)
    assert (read_document(document(), URL).title, named.title) == (
        "claude.ai: Claude",
        "an app without a host: claude.ai: Claude",
    )
