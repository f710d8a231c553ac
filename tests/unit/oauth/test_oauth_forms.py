"""The parameters of a request: one reading, bounded, that quotes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import OAuthError
from accredit.oauth.forms import MAX_FORM_BYTES, MAX_PARAMETERS, read_parameters


def refusal(text: bytes) -> str:
    with pytest.raises(OAuthError) as caught:
        read_parameters(text)
    assert caught.value.error == "invalid_request"
    return caught.value.detail


@pytest.mark.holds("oauth/forms", "spelling")
def test_values_are_decoded_once() -> None:
    found = read_parameters(b"a=one+two&b=%C3%A4%2Bc&c=%2561&d=&&e")
    assert [found.get(name) for name in "abcdex"] == ["one two", "ä+c", "%61", "", "", ""]


@pytest.mark.holds("oauth/forms", "size")
def test_a_flood_of_bytes_or_of_parameters_is_not_read() -> None:
    assert read_parameters(b"&".join(b"a%d=1" % number for number in range(MAX_PARAMETERS))).get("a0") == "1"
    assert "parameters" in refusal(b"&".join(b"a%d=1" % number for number in range(MAX_PARAMETERS + 1)))
    assert read_parameters(b"a=" + b"b" * (MAX_FORM_BYTES - 2)).get("a")
    assert "bytes" in refusal(b"a=" + b"b" * (MAX_FORM_BYTES - 1))


@pytest.mark.holds("oauth/forms", "once")
@pytest.mark.parametrize("text", [b"resource=a&resource=b", b"a=1&%61=1", b"state&state=", b"x=1&y=2&x=1"])
def test_two_readers_of_a_doubled_parameter_can_not_see_two_requests(text: bytes) -> None:
    assert "twice" in refusal(text)


@pytest.mark.holds("oauth/forms", "spelling")
@pytest.mark.parametrize(
    "text", [b"a=%zz", b"a=%4", b"a=%", b"a=\xc3\xa4", b"a=b c", b"a=%ff", b"a=%0a", b"a=%00", b"a=%C2%85"]
)
def test_what_readers_would_decode_in_two_ways_is_refused(text: bytes) -> None:
    refusal(text)


def test_what_is_secret_is_not_shown() -> None:
    found = read_parameters(b"code=hidden")
    assert "hidden" not in repr(found)
    assert list(found.__rich_repr__()) == []


def test_what_is_missing_is_named() -> None:
    found = read_parameters(b"code=")
    with pytest.raises(OAuthError, match=r"^invalid_target: resource is missing$"):
        found.require("resource", "invalid_target")
    with pytest.raises(OAuthError, match=r"^invalid_request: code is missing$"):
        found.require("code")


@given(st.binary(max_size=200) | st.text("a=&%+1cZ\x00ä", max_size=40).map(str.encode))
def test_any_bytes_are_parameters_or_the_one_error(text: bytes) -> None:
    said = ""
    try:
        read_parameters(text)
    except OAuthError as error:
        said = error.detail
    assert said.isascii()
