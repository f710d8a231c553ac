"""Who is signed in: links that work once, bearers that end."""

import pytest

from accredit.console.sessions import MAX_LOGIN_LINKS, MAX_PAGE_SESSIONS, PAGE_SESSION_SECONDS, Sessions
from accredit.limits import LOGIN_LINK_SECONDS

pytestmark = pytest.mark.holds("console/sessions")
NOW = 1_800_000_000


@pytest.mark.holds("console/sessions", "link")
def test_a_link_works_once__whoever_finds_it_later_gets_nothing() -> None:
    sessions = Sessions()
    link = sessions.new_link(NOW)
    assert len(link) >= 22  # 128 bits
    assert sessions.log_in(link, NOW) is not None
    assert sessions.log_in(link, NOW) is None


@pytest.mark.holds("console/sessions", "link")
def test_a_link_works_for_a_minute() -> None:
    sessions = Sessions()
    link = sessions.new_link(NOW)
    assert sessions.log_in(link, NOW + LOGIN_LINK_SECONDS) is None
    assert sessions.log_in(sessions.new_link(NOW), NOW + LOGIN_LINK_SECONDS - 1) is not None


@pytest.mark.parametrize("guess", ["", "a", "\ud800", "a" * 10_000])
def test_a_guess_signs_nobody_in(guess: str) -> None:
    sessions = Sessions()
    sessions.new_link(NOW)
    assert sessions.log_in(guess, NOW) is None
    assert not sessions.knows(guess, NOW)


@pytest.mark.holds("console/sessions", "bearer")
def test_a_bearer_is_good_for_twelve_hours_and_until_it_is_signed_out() -> None:
    sessions = Sessions()
    bearer = sessions.log_in(sessions.new_link(NOW), NOW)
    assert bearer is not None
    assert sessions.knows(bearer, NOW + PAGE_SESSION_SECONDS - 1)
    sessions.log_out(bearer, NOW)
    assert not sessions.knows(bearer, NOW)
    bearer = sessions.log_in(sessions.new_link(NOW), NOW)
    assert bearer is not None
    assert not sessions.knows(bearer, NOW + PAGE_SESSION_SECONDS)


def test_a_link_is_no_bearer_and_a_bearer_no_link() -> None:
    sessions = Sessions()
    link = sessions.new_link(NOW)
    assert not sessions.knows(link, NOW)
    bearer = sessions.log_in(link, NOW)
    assert bearer is not None
    assert sessions.log_in(bearer, NOW) is None


def test_links_and_sessions_are_bounded__the_oldest_go() -> None:
    sessions = Sessions()
    links = [sessions.new_link(NOW) for _ in range(MAX_LOGIN_LINKS + 1)]
    assert sessions.log_in(links[0], NOW) is None
    bearers = [sessions.log_in(sessions.new_link(NOW), NOW) for _ in range(MAX_PAGE_SESSIONS + 1)]
    known = [bearer is not None and sessions.knows(bearer, NOW) for bearer in bearers]
    assert known == [False] + [True] * MAX_PAGE_SESSIONS


@pytest.mark.holds("console/sessions", "digests")
def test_no_secret_is_kept_as_it_is() -> None:
    sessions = Sessions()
    link = sessions.new_link(NOW)
    bearer = sessions.log_in(sessions.new_link(NOW), NOW)
    held = repr([vars(each) for each in vars(sessions).values()])
    assert bearer is not None
    assert link not in held
    assert bearer not in held
