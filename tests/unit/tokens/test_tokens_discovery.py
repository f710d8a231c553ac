"""Where the keys of an issuer are, by what it says of itself."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import KeySetError
from accredit.tokens.discovery import (
    MAX_METADATA_BYTES,
    can_be_asked,
    is_elsewhere,
    metadata_urls_of,
    read_key_set_url,
)

ISSUER = "https://idp.example"


def metadata(**changes: object) -> bytes:
    return json.dumps({"issuer": ISSUER, "jwks_uri": "https://keys.example/jwks.json", **changes}).encode()


@pytest.mark.holds("tokens/discovery", "issuer")
@pytest.mark.parametrize("name", [ISSUER, "https://idp.example/realms/one", "http://127.0.0.1:9", "http://localhost"])
def test_an_issuer_that_is_a_url_can_be_asked(name: str) -> None:
    assert can_be_asked(name)


@pytest.mark.holds("tokens/discovery", "issuer")
@pytest.mark.parametrize(
    "name",
    [
        "accredit",
        "http://idp.example",
        "https://",
        "https://a@idp.example",
        "https://idp.example/?a",
        "ftp://idp.example",
        "https://idp.example#a",
        "https://idp.example:x",
        "https://idp.example/ü",
        "https://idp.example/ a",
        "https://[::1",
        "",
    ],
)
def test_any_other_name_can_not(name: str) -> None:
    assert not can_be_asked(name)


@pytest.mark.holds("tokens/discovery", "places")
@pytest.mark.parametrize(
    ("name", "places"),
    [
        (ISSUER, ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")),
        (f"{ISSUER}/", ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")),
        (f"{ISSUER}/a/b", ("/a/b/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/a/b")),
    ],
)
def test_metadata_is_where_the_specifications_say(name: str, places: tuple[str, ...]) -> None:
    assert metadata_urls_of(name) == tuple(ISSUER + place for place in places)


@pytest.mark.holds("tokens/discovery", "key-set")
def test_a_key_set_may_be_at_another_host__but_never_in_the_clear() -> None:
    assert read_key_set_url(metadata(), ISSUER) == "https://keys.example/jwks.json"
    for url in (
        "http://keys.example/k",
        "http://127.0.0.1/k",
        "ftp://keys.example",
        "/k",
        "https://a:b@keys.example/k",
    ):
        with pytest.raises(KeySetError, match="no https URL") as refused:
            read_key_set_url(metadata(jwks_uri=url), ISSUER)
        assert url not in str(refused.value)
    here = "http://127.0.0.1:9100"
    assert read_key_set_url(metadata(issuer=here, jwks_uri=f"{here}/k"), here) == f"{here}/k"


@pytest.mark.holds("tokens/discovery", "same-issuer")
@pytest.mark.parametrize("name", ["https://idp.example/", "https://IDP.example", "https://other.example", "", None, 1])
def test_metadata_names_the_issuer_that_was_asked(name: object) -> None:
    with pytest.raises(KeySetError):
        read_key_set_url(metadata(issuer=name), ISSUER)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"issuer": "https://idp.example"}', b"\xff", b"[" * 100_000])
def test_what_is_no_metadata_is_refused(body: bytes) -> None:
    with pytest.raises(KeySetError):
        read_key_set_url(body, ISSUER)


def test_metadata_has_a_bound() -> None:
    with pytest.raises(KeySetError, match="at most"):
        read_key_set_url(metadata(more="x" * MAX_METADATA_BYTES), ISSUER)


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: metadata(jwks_uri=text)))
def test_whatever_comes_is_a_url_of_https_or_an_error(body: bytes) -> None:
    try:
        found = read_key_set_url(body, ISSUER)
    except KeySetError:
        return
    assert found.startswith("https://")


def test_this_machine_is_one_host_by_all_its_names() -> None:
    assert not is_elsewhere("http://localhost:1/a", "http://127.0.0.1:2")
    assert not is_elsewhere("https://idp.example/a", "https://idp.example:8443/b")
    assert is_elsewhere("https://keys.example", "https://idp.example")
    assert is_elsewhere("https://127.0.0.1", "https://idp.example")
