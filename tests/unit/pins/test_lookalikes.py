"""Names that a person would take for another tool's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.tool_lists import HOSTILE_TEXTS

from accredit.pins.lookalikes import LookAlikes, mixes_scripts, twins_in

NAMES = st.sampled_from(HOSTILE_TEXTS) | st.text(st.characters(), max_size=20)


@pytest.mark.holds("pins/lookalikes", "invisible", "other-scripts", "case", "pairs")
@pytest.mark.parametrize(
    "name",
    [
        "send_emaiI", "send_emai1", "send_emai|", "SEND_EMAIL", "send-email", "send.email", "send__email",
        "send email", "send\u2011email", "s\u0435nd_email", "send_em\u0430il", "\uff53end_email", "send_email\u200b",
        "send\U000e0041_email", "s\u00e9nd_email", "send_ema\u0456l", "\U0001d42cend_email", "send_ernail",
    ],
)  # fmt: skip
def test_names_that_look_like_others_are_found(name: str) -> None:
    assert LookAlikes(["send_email", "pay"]).of(name) == ["send_email"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("0rder", "Order"), ("\u03a1\u0391\u03a5", "pay"), ("\u0420\u0410\u0423", "PAY"), ("savve", "sawe")],
)
def test_so_are_these(name: str, other: str) -> None:
    assert LookAlikes([other]).of(name) == [other]


def test_other_names_are_others() -> None:
    names = ["send_email", "send_mail", "sendemail2", "list_inbox", "list_inboxes", "pay", "play", "メール", "メイル"]
    for name in names:
        assert LookAlikes(names).of(name) == []


def test_a_name_with_letters_of_several_scripts_stands_out() -> None:
    assert mixes_scripts("r\u0435ad")
    assert mixes_scripts("p\u03b1y")
    for name in ("read_2", "отправить_2", "メールsend", "naïve", ""):
        assert not mixes_scripts(name)


@pytest.mark.holds("pins/lookalikes", "other-scripts")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\u0430\u0441\u0441\u0435\u0455\u0455", ["access"]),
        ("\u0430", ["a"]),
        ("\u0430da@\u0435", ["e"]),
        ("\ua4e2\ua4f0\ua4e0\ua4d3", ["SEND"]),
        ("\u13a2\u13be", []),
        ("\u13de\u13ac\u13a9", ["LEY"]),
        ("\u03c5\u03c1", ["up"]),
        ("Привет \u0430 \u0441", []),
        ("Привет \u0430\u0441\u0441\u0435\u0455\u0455", ["access"]),
        ("Привет a", ["a"]),
        ("Привет, send email", []),
        ("send it to \u0430\u0441\u0435", ["ace"]),
    ],
)
def test_a_word_wholly_of_look_alikes_is_found(text: str, found: list[str]) -> None:
    assert [latin for _, latin in twins_in(text)] == found


def test_other_words_of_the_world_look_like_none() -> None:
    for text in ("Привет, мир", "отправить", "καλημέρα", "բարեւ", "メール", "naïve café", "send_email", ""):
        assert twins_in(text) == []


@given(NAMES, st.lists(NAMES, max_size=5))
def test_whatever_a_name_is_it_never_looks_like_itself_and_likeness_goes_both_ways(
    name: str, others: list[str]
) -> None:
    for other in (found := LookAlikes(others).of(name)):
        assert other != name
        assert name in LookAlikes([name]).of(other)
    assert found == sorted(found)
    mixes_scripts(name)
    twins_in(name)
