"""What a person is shown of a definition is what a model reads."""

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.tool_lists import HOSTILE_TEXTS

from accredit.pins.shown import MAX_MARKS_IN_A_ROW, diff, hides, visible_text, with_code_points

HIDDEN = (
    "\x00\x1b\x7f\x9b\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200e\u2028\u202e\u2066\u2800"
    "\u3000\u3164\ufe0f\ufeff\uffa0\ufff9\U000e0041\U000e0100\U0001d173\ue000\ud800\uffff"
)
TEXTS = st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE_TEXTS) | st.text(HIDDEN + "aé⟨⟩U+0", max_size=9)


@pytest.mark.holds("pins/shown", "invisible")
@pytest.mark.parametrize("char", HIDDEN, ids=lambda char: f"U+{ord(char):04X}")
def test_each_kind_of_character_that_does_not_show_is_told_by_its_code(char: str) -> None:
    assert hides(char)
    assert visible_text(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


@pytest.mark.holds("pins/shown", "invisible")
@given(TEXTS)
def test_nothing_that_does_not_show_is_left_in_what_is_shown(text: str) -> None:
    told = visible_text(text)
    assert told.isprintable()
    assert not any(hides(char) for char in told)
    assert re.fullmatch(r"(?:[^⟨⟩]|⟨U\+[0-9A-F]{4,6}⟩)*", told)
    assert re.sub(r"⟨U\+([0-9A-F]+)⟩", lambda match: chr(int(match[1], 16)), told) == text


def test_letters_of_the_world_are_shown_as_they_are() -> None:
    for text in ("naïve café", "Việt Nam", "メールを送る", "отправить", "שלח", "😀"):
        assert visible_text(text) == text


@given(st.integers(0, 50))
def test_marks_that_are_piled_up_are_told__they_could_cover_a_line(marks: int) -> None:
    told = visible_text("a" + "\u0336" * marks + "b")
    assert sum(unicodedata.combining(char) > 0 for char in told) == min(marks, MAX_MARKS_IN_A_ROW)


FORMS = st.text(
    "ae\u0301\u0308\u0323\u0336é\u0344ậÅ\u212b\u1100\u1161\u11a8가각\u09c7\u09be\u0958\u093c⟨⟩\n\u302e", max_size=12
)


@pytest.mark.holds("pins/shown", "look-alike")
@given(FORMS | TEXTS, FORMS | TEXTS)
def test_no_two_texts_are_shown_so_that_they_differ_by_their_composition_alone(one: str, other: str) -> None:
    for text in (one, other):
        assert unicodedata.normalize("NFC", visible_text(text)) == visible_text(text)
    composed, decomposed = (unicodedata.normalize(form, one) for form in ("NFC", "NFD"))
    assert (visible_text(composed) == visible_text(decomposed)) is (composed == decomposed)


@pytest.mark.holds("pins/shown", "look-alike")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Cafe\u0301", "Cafe⟨U+0301⟩"),
        ("\u212bngstro\u0308m", "⟨U+212B⟩ngstro⟨U+0308⟩m"),
        ("\u1112\u1161\u11ab", "\u1112⟨U+1161⟩\u11ab"),
        ("\u0301a", "⟨U+0301⟩a"),
        ("a\n\u0301", "a⟨U+000A⟩⟨U+0301⟩"),
        ("a\u0308\u0323", "a⟨U+0308⟩⟨U+0323⟩"),
    ],
)
def test_what_has_another_form_is_told_by_its_code(text: str, told: str) -> None:
    assert visible_text(text) == told


@pytest.mark.holds("pins/shown", "invisible", "look-alike")
@pytest.mark.parametrize("char", ["\u0301", "\u302e", "e\u0301", "\u1161", "가", "\U0001d165"])
def test_texts_made_to_be_slow_are_shown_at_once(char: str) -> None:
    assert visible_text(char * 30_000)


@pytest.mark.holds("pins/shown", "diff")
def test_a_diff_has_a_line_for_each_value_that_is_gone_new_or_different() -> None:
    old = {
        "name": "a",
        "inputSchema": {"properties": {"x/y": {"type": "string"}}, "required": ["x/y"]},
        "_meta": {"v": 1},
    }
    new: dict[str, Any] = {"name": "a", "inputSchema": {"properties": {}, "required": ["x/y", "z"]}, "_meta": {"v": 2}}
    assert diff(json.dumps(old).encode(), json.dumps(new).encode()) == [
        "+ /inputSchema/properties: {}",
        '- /inputSchema/properties/x~1y/type: "string"',
        '+ /inputSchema/required/1: "z"',
    ]
    assert diff(json.dumps(old).encode(), json.dumps({**old, "_meta": 7}).encode()) == []
    assert diff(None, b'{"name":"a\\u202e"}') == ['+ /name: "a⟨U+202E⟩"']


def test_members_of_one_name_are_all_shown__readers_take_different_ones() -> None:
    lines = diff(None, b'{"name":"a","description":"good","description":"bad"}')
    assert [line for line in lines if "description" in line] == [
        '+ /description: "good"',
        '+ /description ⟨U+27E8⟩2⟨U+27E9⟩: "bad"',
    ]


@pytest.mark.slow
@given(st.dictionaries(TEXTS, TEXTS), st.dictionaries(TEXTS, TEXTS))
def test_a_diff_is_empty_only_where_nothing_differs(old: dict[str, str], new: dict[str, str]) -> None:
    lines = diff(json.dumps(old).encode(), json.dumps(new).encode())
    same = {name: value for name, value in old.items() if name != "_meta"} == {
        name: value for name, value in new.items() if name != "_meta"
    }
    assert (lines == []) is same
    assert all(line.isprintable() for line in lines)


def test_a_name_is_spelled_out() -> None:
    assert with_code_points("r\u0435ad") == "r⟨U+0435⟩ad"


BLANKS = "\ufffc\u2d7f\u303f\U0001107f\U00013441\U00013442\U00016fe4\U0001bc9d\U0001d159"
SHOWS = re.compile(
    "EMPTY (SET|CENTRE|NOTE|DOCUMENT|PAGE|NEST)|SYMBOL FOR|BLANK SYMBOL|GAP FILLER|PLACEHOLDER|LINE FILLER|VOID"
    "|WALLPLANE|FLOORPLANE|^REPLACEMENT"
)
"""Names of characters that show something, though they are about blanks."""


@pytest.mark.holds("pins/shown", "invisible")
@pytest.mark.parametrize("char", BLANKS, ids=lambda char: f"U+{ord(char):04X}")
def test_what_shows_nothing_in_some_fonts_is_told_by_its_code(char: str) -> None:
    assert visible_text(f"ada{char}@example.org") == f"ada⟨U+{ord(char):04X}⟩@example.org"


@pytest.mark.slow
@pytest.mark.holds("pins/shown", "invisible")
def test_no_character_that_unicode_calls_a_blank_or_filler_shows_nothing() -> None:
    words = re.compile(r"\b(FILLER|BLANK|NULL|EMPTY|INVISIBLE|PLACEHOLDER|REPLACEMENT|SPACE|JOINER|SELECTOR|VOID)\b")
    for code in range(0x80, 0x110000):
        name = unicodedata.name(chr(code), "")
        assert not words.search(name) or SHOWS.search(name) or hides(chr(code)), f"{code:04X} {name}"


@pytest.mark.holds("pins/shown", "look-alike")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ada@example.org\u2024evil.com", "ada@example.org⟨U+2024⟩evil.com"),
        ("/srv\u2215secret\u2044x", "/srv⟨U+2215⟩secret⟨U+2044⟩x"),
        ("http\ua789//x", "http⟨U+A789⟩//x"),
        ("all\u2011customers", "all⟨U+2011⟩customers"),
        ("a\ufe68b\ufe6bc", "a⟨U+FE68⟩b⟨U+FE6B⟩c"),
        ("a\u17d2b", "a⟨U+17D2⟩b"),
        ("e\u064b", "e⟨U+064B⟩"),
        ("a\u01c3\u01c0", "a⟨U+01C3⟩⟨U+01C0⟩"),
    ],
)
def test_signs_that_pass_for_those_of_ascii_are_told_by_their_codes(text: str, told: str) -> None:
    assert visible_text(text) == told


@pytest.mark.slow
@pytest.mark.holds("pins/shown", "look-alike")
def test_every_sign_whose_usual_form_is_one_of_ascii_is_told_by_its_code__but_wide_ones() -> None:
    for code in range(0x80, 0x110000):
        char = chr(code)
        form = unicodedata.normalize("NFKC", char)
        is_sign = unicodedata.category(char)[0] in "PS" and form in tuple("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
        assert not is_sign or unicodedata.east_asian_width(char) == "F" or visible_text(char) != char, f"{code:04X}"


def test_the_signs_of_prose_are_shown_as_they_are() -> None:
    for text in (
        "“Hello” \u2013 don\u2019t… \u2018a\u2019",
        "a—b",
        "「メール」\uff08写\uff09",
        "ไม่ได้",
        "हिन्दी",
        "ខ្មែរ",
        "l·l",
        "→ ✓ ├── │",
        "¿qué?",
        "№ 5 §",
    ):
        assert visible_text(text) == text
