"""The memory of verified tokens."""

from accredit.tokens.cache import VerifiedTokens
from accredit.tokens.claims import VerifiedToken


def token(subject: str) -> VerifiedToken:
    return VerifiedToken("issuer", subject, 7, "ab")


def test_the_least_recently_used_goes_first() -> None:
    tokens = VerifiedTokens(2)
    tokens.put(b"a", b"keys", token("a"))
    tokens.put(b"b", b"keys", token("b"))
    assert tokens.get(b"a", b"keys") == token("a")
    tokens.put(b"c", b"keys", token("c"))
    assert [tokens.get(name, b"keys") for name in (b"a", b"b", b"c")] == [token("a"), None, token("c")]
    assert len(tokens) == 2


def test_a_token_that_was_verified_with_other_keys_is_forgotten() -> None:
    tokens = VerifiedTokens()
    tokens.put(b"a", b"keys", token("a"))
    assert tokens.peek(b"a") == token("a")
    assert tokens.get(b"a", b"others") is None
    assert tokens.peek(b"a") is None
