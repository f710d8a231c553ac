"""Shows a person the text of definitions that a model would read, and changes in them. No I/O.

- [invisible] Every invisible character is written as its code point, such as `⟨U+202E⟩`. These are controls,
  bidirectional controls, tags, variation selectors, fillers, and blanks of all kinds but the space. Marks piled on a
  letter are written like that, too. So are the two brackets themselves, so that a text can't imitate a code point.
- [look-alike] A character that makes a text look like another one is also written as its code point. So two texts that
  differ only in such characters are never shown alike. These characters are:
  - one that has another form in Unicode (NFC), such as a separate accent after a letter which also exists with that
    accent;
  - a separate accent that follows no letter;
  - a mark of one script on a letter of another;
  - a sign that passes for one of ASCII's (a dot leader, a division slash), except for East Asia's full-width ones.
- [diff] A diff names values by their JSON Pointers. It has a line for each value that is gone or new, and two lines for
  one that is different. Takes linear time.

Not covered: letters of right-to-left scripts reorder a line by themselves, as they should.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

MAX_MARKS_IN_A_ROW = 2
"""How many combining marks in a row are shown. Vietnamese stacks two; piles of them cover what is around them."""


_BRACKETS = "⟨⟩"
_FIRST_COMBINING = "\u0300"
"""Characters below this one neither combine nor have another form."""
_BLANK_LETTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    "\u2d7f\u303f\ufffc\U0001107f\U00013441\U00013442\U00016fe4\U0001bc9d\U0001d159"
)
"""Characters that Unicode counts as letters, marks or symbols, but that are invisible. They are those that are
Default_Ignorable; and blanks, fillers, joiners and selectors of single scripts, the null notehead, and the object
replacement character."""
_PASSES_FOR = {
    "-": "\u02d7\u058a\u1806\u2010\u2011\u2012\u2043\u2212\ufe58",
    "/": "\u1735\u2044\u2215\u27cb\u29f8",
    "\\": "\u2216\u27cd\u29f5\u29f9",
    ":": "\u02d0\u02f8\u16ec\u1803\u205a\u2236\ua789",
    ".": "\u0701\u0702\u2024\ua4f8\ua60e\U00010a50",
    ",": "\u02cf\ua4f9",
    "'": "\u02b9\u02c8\u02ca\u02f4\u144a\u16cc\u201b\ua78c",
    '"': "\u02ba\u02ee\u02f6\u201f",
    "`": "\u02bd\u02cb\u2035",
    "!": "\u01c3\u2d51",
    "|": "\u01c0\u2223\u23d0\u2758\u2d4f",
    "~": "\u02dc\u1fc0\u2053\u223c",
    "*": "\u066d\u204e\u2217\U0001031f",
    "+": "\u16ed\U0001029b",
    "=": "\u1400\u2e40\ua78a",
    "<": "\u02c2\u1438\u16b2",
    ">": "\u02c3\u1433",
    "^": "\u02c4\u02c6",
    "_": "\u02cd\u07fa",
    "(": "\u2768\u2772",
    ")": "\u2769\u2773",
    "{": "\u2774",
    "}": "\u2775",
    "&": "\ua778",
    "%": "\u066a\u2052",
}
"""Signs and letters that pass for ASCII signs, by UTS 39 (confusables). Those of ordinary prose are left out: quotes,
dashes between words, dots in the middle, arrows, boxes."""
_LIKE_ASCII = {each: sign for sign, every in _PASSES_FOR.items() for each in every}
_OWN_OF_NO_SCRIPT = frozenset(["COMBINING", "IDEOGRAPHIC", "VEDIC"])
"""How the names of marks begin that may stand on letters of several scripts."""
_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


def hides(char: str) -> bool:
    """Return whether a character is invisible, though a model reads it."""
    if " " <= char <= "~":
        return False
    if not char.isprintable() or char in _BLANK_LETTERS:
        return True
    return any(ord(char) in selectors for selectors in _SELECTORS)


def visible_text(text: str) -> str:
    """Return a text in which characters of [invisible] and [look-alike] are written as code points. Takes time linear
    in its length."""
    if text.isascii() and text.isprintable():
        return text
    parts: list[str] = []
    marks, letter = 0, ""
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        piled = marks > MAX_MARKS_IN_A_ROW or len(letter) > MAX_MARKS_IN_A_ROW + 1
        code = hides(char) or char in _BRACKETS or piled or _has_another_form(letter, char)
        code = code or passes_for(char) != "" or (marks > 0 and _is_stray(letter, char))
        parts.append(f"⟨U+{ord(char):04X}⟩" if code else char)
        letter = "" if code else letter + char if unicodedata.combining(char) else char
    return "".join(parts)


def _has_another_form(letter: str, char: str) -> bool:
    """Return whether a character has another form in Unicode (NFC) after `letter`, which is a letter with its marks. If
    `letter` is "", return whether the character is a mark, which then follows no letter."""
    if char < _FIRST_COMBINING:
        return False
    return (not letter and unicodedata.combining(char) != 0) or not unicodedata.is_normalized("NFC", letter + char)


def passes_for(char: str) -> str:
    """Return the ASCII sign that a character passes for ([look-alike]); "" for none."""
    if char <= "~" or char in _LIKE_ASCII:
        return _LIKE_ASCII.get(char, "")
    form = unicodedata.normalize("NFKC", char) if unicodedata.category(char)[0] in "PS" else ""
    is_sign = len(form) == 1 and form.isascii() and not form.isalnum()
    return form if is_sign and unicodedata.east_asian_width(char) != "F" else ""


def script_of(char: str) -> str:
    """Return the first word of a character's Unicode name. For a letter, that is its script."""
    return unicodedata.name(char, "").partition(" ")[0]


def _is_stray(letter: str, char: str) -> bool:
    """Return whether a mark belongs to another script than its letter."""
    script = script_of(char)
    return letter != "" and script not in _OWN_OF_NO_SCRIPT and script != script_of(letter[0])


def with_code_points(name: str) -> str:
    """Return a name with each character that is not ASCII as its code point."""
    return "".join(char if " " <= char <= "~" else f"⟨U+{ord(char):04X}⟩" for char in name)


def diff(old: bytes | None, new: bytes | None) -> list[str]:
    """Return the difference between two definitions in lines ([diff]). Either may be missing. `_meta` is left out."""
    before, after = _leaves(old), _leaves(new)
    lines: list[str] = []
    for pointer in sorted(before.keys() | after.keys()):
        was, now = before.get(pointer), after.get(pointer)
        if was == now:
            continue
        lines += [f"- {pointer}: {was}"] if was is not None else []
        lines += [f"+ {pointer}: {now}"] if now is not None else []
    return lines


def _leaves(text: bytes | None) -> Mapping[str, str]:
    """Return the values of a definition as visible text, by their JSON Pointers. An empty object or array counts as a
    value."""
    if text is None:
        return {}
    tree = json.loads(text.decode(), object_pairs_hook=_number_duplicates)
    tree.pop("_meta", None)
    return dict(_walk(tree, ""))


def _number_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object's members. If names are repeated, all members are kept, with a suffix that makes the names
    unique."""
    found: dict[str, object] = {}
    for name, value in pairs:
        again = 1
        while name in found:
            again += 1
            name = f"{name.partition(' ⟨')[0]} ⟨{again}⟩"
        found[name] = value
    return found


def _walk(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, each in cast("dict[str, object]", value).items():
            yield from _walk(each, f"{pointer}/{_step(name)}")
    elif isinstance(value, list) and value:
        for index, each in enumerate(cast("list[object]", value)):
            yield from _walk(each, f"{pointer}/{index}")
    else:
        yield pointer, visible_text(json.dumps(value, ensure_ascii=False))


def _step(name: str) -> str:
    escaped = name.replace("~", "~0").replace("/", "~1")
    return visible_text(json.dumps(escaped, ensure_ascii=False)[1:-1])
