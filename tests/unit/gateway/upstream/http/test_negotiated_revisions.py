"""The bounded memory of which revision a session negotiated."""

import pytest

from accredit.gateway.upstream.http import negotiated_revisions as sessions
from accredit.gateway.upstream.http.negotiated_revisions import Sessions


def test_a_session_is_remembered_until_it_ends() -> None:
    known = Sessions()
    known.remember("a", "2025-03-26")
    assert known.revision("a") == "2025-03-26"
    known.forget("a")
    known.forget("a")
    assert known.revision("a") is None


def test_what_was_never_announced_is_unknown() -> None:
    assert Sessions().revision("a") is None
    assert Sessions().revision(None) is None


def test_the_one_unused_for_longest_is_forgotten__an_upstream_could_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MAX_REMEMBERED_SESSIONS", 2)
    known = Sessions()
    known.remember("a", "1")
    known.remember("b", "2")
    known.revision("a")
    known.remember("c", "3")
    assert [known.revision(name) for name in "abc"] == ["1", None, "3"]
