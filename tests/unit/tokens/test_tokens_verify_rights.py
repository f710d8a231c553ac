"""What a good token may do, and what a client is told."""

from typing import Any

import pytest
from tests.world.issuer import AUDIENCE

from accredit.errors import AmbiguousToken, InsufficientScope, InvalidToken, MissingToken, TokenError
from accredit.tokens.challenges import challenge, metadata, metadata_paths, metadata_url
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.verify import Issuer, check_policy, check_present, check_session, check_tool, may_use

pytestmark = [pytest.mark.holds("tokens/verify"), pytest.mark.holds("tokens/challenges")]
URL = "http://127.0.0.1:8484/.well-known/oauth-protected-resource/mcp"


def token(
    allowed: frozenset[str] | None = None,
    denied: frozenset[str] = frozenset(),
    scopes: frozenset[str] = frozenset(),
    policy: str | None = None,
    session: str | None = None,
) -> VerifiedToken:
    return VerifiedToken(
        "i",
        "s",
        7,
        "ab",
        allowed_tools=allowed,
        denied_tools=denied,
        scopes=scopes,
        policy_digest=policy,
        session=session,
    )


def words(refused: TokenError) -> tuple[str, str]:
    """What the log says, and what the client is told."""
    return refused.reason, refused.detail


@pytest.mark.parametrize(
    ("allowed", "denied", "may"),
    [
        (None, (), True),
        (None, ("send",), False),
        (None, ("list",), True),
        (("send",), (), True),
        (("list",), (), False),
        ((), (), False),
        (("send",), ("send",), False),
        (("SEND", "send ", "*"), (), False),
    ],
)
def test_lists_and_calls_agree_on_the_tools_of_a_token(
    allowed: tuple[str, ...] | None, denied: tuple[str, ...], may: bool
) -> None:
    found = token(None if allowed is None else frozenset(allowed), frozenset(denied))
    assert may_use(found, "send") is may
    if may:
        check_tool(found, "send")
        return
    with pytest.raises(InsufficientScope, match="the token may not use this tool") as refused:
        check_tool(found, "send")
    assert (refused.value.status, refused.value.scopes) == (403, ())
    assert refused.value.reason == "not one of the token's tools"


def test_a_tool_may_ask_for_a_scope_of_the_token() -> None:
    check_tool(token(scopes=frozenset({"mail:send"})), "send", "mail:send")
    with pytest.raises(InsufficientScope) as refused:
        check_tool(token(scopes=frozenset({"mail:read"})), "send", "mail:send")
    assert refused.value.scopes == ("mail:send",)
    assert words(refused.value) == ("lacks the tool's scope", "the token lacks the scope of this tool")
    assert may_use(token(), "send")  # it is listed, or nobody would learn which scope to ask for


def test_who_sends_no_token_calls_only_what_asks_for_none() -> None:
    check_tool(None, "send")
    with pytest.raises(MissingToken) as refused:
        check_tool(None, "send", "mail:send")
    assert words(refused.value) == ("no token for a tool that asks for its scope", "this tool needs a bearer token")
    check_present(token())
    with pytest.raises(MissingToken) as missing:
        check_present(None)
    assert words(missing.value) == ("no token", "a bearer token is required")


@pytest.mark.parametrize(("found", "what"), [(None, "NoneType"), (5, "int")])
def test_a_tool_that_was_not_found_is_no_tool_that_asks_for_no_scope(found: Any, what: str) -> None:
    with pytest.raises(TypeError, match=f"{what}, not a text"):
        check_tool(token(), "send", found)


def test_a_token_of_one_session_is_no_good_in_another() -> None:
    check_session(token(session="a"), "a")
    check_session(token(), "a")
    for other in ("b", ""):
        with pytest.raises(InvalidToken) as refused:
            check_session(token(session="a"), other)
        assert words(refused.value) == (
            "names another session",
            "the token is good in one session, and this is not it",
        )


def test_a_token_outlives_no_change_of_its_policy() -> None:
    check_policy(token(policy="ab"), "ab")
    check_policy(token(), "cd")
    with pytest.raises(InvalidToken, match="another configuration"):
        check_policy(token(policy="ab"), "cd")


def test_without_a_token_nothing_is_said_of_an_error() -> None:
    assert challenge(MissingToken("none"), URL) == f'Bearer resource_metadata="{URL}"'


def test_a_bad_token_is_called_so() -> None:
    assert challenge(InvalidToken("SECRET", "the token has expired"), URL) == (
        f'Bearer resource_metadata="{URL}", error="invalid_token", error_description="the token has expired"'
    )


def test_a_client_learns_which_scopes_it_lacks() -> None:
    value = challenge(InsufficientScope("r", "lacks", ("a", "b")), URL)
    assert (
        value == f'Bearer resource_metadata="{URL}", error="insufficient_scope", error_description="lacks", scope="a b"'
    )
    assert "scope=" not in challenge(InsufficientScope("r", "tool"), URL).replace("insufficient_scope", "")


def test_where_no_metadata_is_served_a_challenge_names_none() -> None:
    assert challenge(MissingToken("none"), "") == "Bearer"
    assert challenge(InvalidToken("r", "why"), "") == 'Bearer error="invalid_token", error_description="why"'


def test_what_is_in_a_challenge_can_not_leave_its_quotes() -> None:
    value = challenge(InvalidToken("r", 'a" b\\c\r\nd\xe9'), URL)
    assert 'error_description="a\\" b\\\\c??d?"' in value


def test_each_error_has_its_status_and_code() -> None:
    found = [(kind.status, kind.code, kind.error) for kind in (AmbiguousToken, MissingToken, InvalidToken)]
    assert found == [
        (400, -31010, "invalid_request"),
        (401, -31011, "missing_token"),
        (401, -31010, "invalid_token"),
    ]


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("/mcp", ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp")),
        ("/a/b/", ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/a/b")),
        ("/", ("/.well-known/oauth-protected-resource",)),
        ("", ("/.well-known/oauth-protected-resource",)),
    ],
)
def test_the_metadata_has_two_places(path: str, paths: tuple[str, ...]) -> None:
    assert metadata_paths(path) == paths
    assert metadata_url(f"https://gate.example:8443{path}") == f"https://gate.example:8443{paths[-1]}"


def test_the_metadata_names_the_authorization_servers_and_their_scopes() -> None:
    own = Issuer("accredit", "mail-gateway")
    one = Issuer("https://one.example", AUDIENCE, required_scopes=("a", "b"))
    two = Issuer("http://127.0.0.1:9000", AUDIENCE, required_scopes=("b", "c"))
    assert metadata(AUDIENCE, [own, one, two]) == {
        "resource": AUDIENCE,
        "authorization_servers": ["https://one.example", "http://127.0.0.1:9000"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["a", "b", "c"],
    }
    # RFC 9728 section 3.2: what there is none of is left out.
    assert metadata(AUDIENCE, [own]) == {"resource": AUDIENCE, "bearer_methods_supported": ["header"]}
