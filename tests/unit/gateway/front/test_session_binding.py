"""Tags of sessions: nobody makes one without the key, nor moves one to another session or subject."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.errors import RequestError
from accredit.gateway.front.session_binding import SessionTags, without_tag

TAGS = SessionTags(b"k" * 32)
TEXTS = st.text(max_size=20)


@given(id=st.binary(max_size=40), issuer=TEXTS, subject=TEXTS)
@settings(max_examples=60)
def test_what_was_tagged_is_found_again(id: bytes, issuer: str, subject: str) -> None:
    value = TAGS.tagged(id, (issuer, subject))
    assert TAGS.untagged(value, (issuer, subject)) == without_tag(value) == id


@given(one=st.tuples(st.binary(max_size=9), TEXTS, TEXTS), two=st.tuples(st.binary(max_size=9), TEXTS, TEXTS))
@settings(max_examples=60)
def test_a_tag_is_good_for_one_session_and_one_subject(
    one: tuple[bytes, str, str], two: tuple[bytes, str, str]
) -> None:
    tag = TAGS.tagged(one[0], one[1:]).rpartition(b".")[2]
    if one != two:
        with pytest.raises(RequestError) as refused:
            TAGS.untagged(two[0] + b"." + tag, two[1:])
        assert refused.value.status == 404


@pytest.mark.parametrize("value", [b"", b".", b"abc", b"abc.", b"abc." + b"A" * 22, b"a\0b.c"])
def test_what_has_no_tag_of_ours_is_no_session(value: bytes) -> None:
    with pytest.raises(RequestError):
        TAGS.untagged(value, ("", ""))


def test_another_key_makes_other_tags() -> None:
    with pytest.raises(RequestError):
        SessionTags(b"o" * 32).untagged(TAGS.tagged(b"id", ("a", "b")), ("a", "b"))


def test_parts_do_not_run_into_one_another() -> None:
    with pytest.raises(RequestError):
        TAGS.untagged(TAGS.tagged(b"id", ("ab", "c")), ("a", "bc"))
