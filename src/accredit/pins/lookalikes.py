"""Names that look alike but differ, so that a person could take one tool for another. No I/O.

Two names look alike when they are equal after these steps:

- [invisible] Invisible characters are left out (`shown.hides`). Compatibility forms (full width, mathematical,
  ligatures) become ordinary letters, without accents.
- [other-scripts] Letters of other scripts become the Latin ones that they look like.
- [case] Upper and lower case count as the same. So do `I`, `l`, `1` and `|`, and also `O` and `0`.
- [pairs] `rn` becomes `m`, and `vv` becomes `w`. Blanks, dots, dashes and underscores of all kinds count as the same; a
  row of them counts as one.

A name also stands out if it mixes scripts, or consists only of letters of another script that look Latin. This is a
part of UTS 39 (confusables). Of Armenian, Cherokee, Coptic and Lisu it covers only the letters that look most alike.
Not covered are other scripts, symbols, and names that mean the same (`send_mail` and `send_email`).
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import partial

from accredit.limits import MAX_LOOK_ALIKE_CHARS
from accredit.pins.shown import hides, script_of

# By their glyphs in common fonts: capitals as capitals, small letters as small ones.
_CYRILLIC = {
    "\u0410": "A", "\u0412": "B", "\u0421": "C", "\u0415": "E", "\u041d": "H", "\u0406": "I", "\u0408": "J",
    "\u041a": "K", "\u041c": "M", "\u041e": "O", "\u0420": "P", "\u0405": "S", "\u0422": "T", "\u0423": "Y",
    "\u0425": "X", "\u0430": "a", "\u0501": "d", "\u0435": "e", "\u0456": "i", "\u0458": "j", "\u043a": "k",
    "\u043e": "o", "\u0440": "p", "\u0441": "c", "\u051b": "q", "\u0455": "s", "\u0443": "y", "\u0445": "x",
    "\u0475": "v", "\u051d": "w", "\u04bb": "h", "\u04cf": "l", "\u04c0": "l", "\u04ae": "Y", "\u04af": "y",
    "\u050c": "G", "\u051a": "Q", "\u051c": "W",
}  # fmt: skip
_GREEK = {
    "\u0391": "A", "\u0392": "B", "\u0395": "E", "\u0396": "Z", "\u0397": "H", "\u0399": "I", "\u039a": "K",
    "\u039c": "M", "\u039d": "N", "\u039f": "O", "\u03a1": "P", "\u03a4": "T", "\u03a5": "Y", "\u03a7": "X",
    "\u03b1": "a", "\u03b3": "y", "\u03b9": "i", "\u03ba": "k", "\u03bd": "v", "\u03bf": "o", "\u03c1": "p",
    "\u03c4": "t", "\u03c5": "u", "\u03c7": "x", "\u03f2": "c", "\u03f3": "j", "\u037f": "J", "\u03f9": "C",
}  # fmt: skip
_OTHERS = {
    "\u0131": "i", "\u0251": "a", "\u0261": "g", "\u0192": "f", "\u01c0": "l", "\u2223": "l",
}  # fmt: skip
_LISU = dict(zip(
    "\ua4d0\ua4d1\ua4d3\ua4d4\ua4d6\ua4d7\ua4d9\ua4da\ua4dc\ua4dd\ua4df\ua4e0\ua4e1"
    "\ua4e2\ua4e3\ua4e6\ua4e7\ua4ea\ua4eb\ua4ec\ua4ee\ua4f0\ua4f2\ua4f3\ua4f4",
    "BPDTGKJCZFMNLSRVHWXYAEIOU", strict=True,
))  # fmt: skip
_CHEROKEE = dict(zip(
    "\u13a0\u13a1\u13a2\u13a9\u13aa\u13ab\u13ac\u13b3\u13b7\u13bb\u13c0\u13c3\u13cf\u13d2\u13d4\u13d5\u13d9"
    "\u13da\u13de\u13df\u13e2\u13e6\u13f4",
    "DRTYAJEWMHGZbRWSVSLCPKB", strict=True,
))  # fmt: skip
_ARMENIAN = dict(zip(
    "\u0561\u0563\u0566\u0570\u0578\u057d\u0581\u0585\u053c\u054d\u054f\u0555", "wqqhnugoLUSO", strict=True
))  # fmt: skip
_COPTIC = dict(zip(
    "\u2c82\u2c8e\u2c94\u2c98\u2c9a\u2c9e\u2c9f\u2ca2\u2ca3\u2ca4\u2ca5\u2ca6\u2ca8\u2cac", "BHKMNOoPpCcTYX",
    strict=True,
))  # fmt: skip
_TWINS = _CYRILLIC | _GREEK | _LISU | _CHEROKEE | _ARMENIAN | _COPTIC
_LETTERS = str.maketrans(_TWINS | _OTHERS)
_LATIN_TWINS = {
    "CYRILLIC": frozenset(_CYRILLIC.values()),
    "GREEK": frozenset(_GREEK.values()),
    "ARMENIAN": frozenset(_ARMENIAN.values()),
    "CHEROKEE": frozenset(_CHEROKEE.values()),
    "COPTIC": frozenset(_COPTIC.values()),
    "LISU": frozenset(_LISU.values()),
}
"""For each script, the Latin letters that look like one of its letters."""
_WORDS = re.compile(r"[^\W\d_]+")
_LONG_WORD = 4
"""From this length on, words that consist only of look-alikes are rare in their own language."""
_STROKES = str.maketrans("I1|O", "lll0")
_SEPARATORS = re.compile(r"[\s._\-\u2010-\u2015\u2212\u00b7\u30fb]+")
_SCRIPTS = (
    *("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "DESERET", "LISU", "MATHEMATICAL", "TIFINAGH"),
    *("HEBREW", "ARABIC"),
)


class LookAlikes:
    """Finds, among many names, those that look like each other, in linear time."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_reading: dict[tuple[int, str], list[str]] = {}
        for name in sorted(names):
            for reading in enumerate(_readings(name)):
                self._by_reading.setdefault(reading, []).append(name)

    def of(self, name: str) -> list[str]:
        """Return the other names that look like this one."""
        found = {each for reading in enumerate(_readings(name)) for each in self._by_reading.get(reading, ())}
        return sorted(found - {name})


def mixes_scripts(name: str) -> bool:
    """Return whether a name has letters of several scripts that are confused with each other."""
    named = {script_of(char) for char in name[:MAX_LOOK_ALIKE_CHARS] if char.isalpha()}
    return len(named.intersection(_SCRIPTS)) > 1


def twins_in(text: str) -> list[tuple[str, str]]:
    """Return the words of a text that consist only of letters that look like those of another script, each with its
    reading in Latin letters. Takes time linear in the text's length.

    If the text also has other letters of a script, it may be written in that script, in which short words of this kind
    are common. Then only the long ones are returned, and also Latin words that look like words of that script.
    """
    plain = {script_of(char) for char in text if char.isalpha() and not char.isascii() and char not in _TWINS}
    found: list[tuple[str, str]] = []
    for word in dict.fromkeys(_WORDS.findall(text)):
        scripts = {script_of(char) for char in word[:MAX_LOOK_ALIKE_CHARS]}
        if all(char in _TWINS for char in word):
            if not scripts & plain or len(word) >= _LONG_WORD:
                found.append((word, "".join(map(_TWINS.__getitem__, word))))
        elif any(_LATIN_TWINS[script].issuperset(word) for script in plain & _LATIN_TWINS.keys()):
            found.append((word, word))
    return found


def in_latin(name: str) -> str:
    """Return a name after the steps [invisible] and [other-scripts]. Takes time linear in its length."""
    visible = "".join(char for char in name if not hides(char))
    # One by one, in linear time: normalising the whole would sort its marks.
    plain = "".join(map(partial(unicodedata.normalize, "NFKD"), visible))
    return "".join(char for char in plain if not unicodedata.combining(char)).translate(_LETTERS)


def _readings(name: str) -> tuple[str, str]:
    """Return a name in lower case, in two readings: as it is, and with I, 1, | and O replaced by what they look like
    ([case])."""
    letters = in_latin(name[:MAX_LOOK_ALIKE_CHARS])
    separated = _SEPARATORS.sub("_", letters)
    return _merge_letters(separated.casefold()), _merge_letters(separated.translate(_STROKES).casefold())


def _merge_letters(name: str) -> str:
    return name.replace("rn", "m").replace("vv", "w")
