"""Names that look alike and are not the same: what a person would take for another tool. No I/O.

Two names look alike when, read as below, they are the same:

1. characters that don't show are left out (`shown.hides`), and compatibility forms (full width, mathematical,
   ligatures) are taken for their letters, without accents;
2. letters of Cyrillic and Greek are taken for the Latin ones that they look like;
3. case does not count; `I`, `l`, `1` and `|` are one, and so are `O` and `0`;
4. `rn` is `m`, `vv` is `w`; blanks, dots, dashes and underscores of all kinds are one, and count only once in a row.

A name also stands out when it mixes scripts. This is a part of what UTS 39 (confusables) has: not covered are other
scripts (Armenian, Cherokee, ...), symbols, and names that mean the same (`send_mail` and `send_email`).
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import partial

from accredit.limits import MAX_LOOK_ALIKE_CHARS
from accredit.pins.shown import hides

# By their glyphs in common fonts: capitals as capitals, small letters as small ones.
_CYRILLIC = {
    "\u0410": "A", "\u0412": "B", "\u0421": "C", "\u0415": "E", "\u041d": "H", "\u0406": "I", "\u0408": "J",
    "\u041a": "K", "\u041c": "M", "\u041e": "O", "\u0420": "P", "\u0405": "S", "\u0422": "T", "\u0423": "Y",
    "\u0425": "X", "\u0430": "a", "\u0501": "d", "\u0435": "e", "\u0456": "i", "\u0458": "j", "\u043a": "k",
    "\u043e": "o", "\u0440": "p", "\u0441": "c", "\u051b": "q", "\u0455": "s", "\u0443": "y", "\u0445": "x",
    "\u0475": "v", "\u051d": "w", "\u04bb": "h", "\u04cf": "l", "\u04c0": "l",
}  # fmt: skip
_GREEK = {
    "\u0391": "A", "\u0392": "B", "\u0395": "E", "\u0396": "Z", "\u0397": "H", "\u0399": "I", "\u039a": "K",
    "\u039c": "M", "\u039d": "N", "\u039f": "O", "\u03a1": "P", "\u03a4": "T", "\u03a5": "Y", "\u03a7": "X",
    "\u03b1": "a", "\u03b3": "y", "\u03b9": "i", "\u03ba": "k", "\u03bd": "v", "\u03bf": "o", "\u03c1": "p",
    "\u03c4": "t", "\u03c5": "u", "\u03c7": "x",
}  # fmt: skip
_OTHERS = {
    "\u0131": "i", "\u0251": "a", "\u0261": "g", "\u0192": "f", "\u0578": "n", "\u01c0": "l", "\u2223": "l",
}  # fmt: skip
_LETTERS = str.maketrans(_CYRILLIC | _GREEK | _OTHERS)
_STROKES = str.maketrans("I1|O", "lll0")
_SEPARATORS = re.compile(r"[\s._\-\u2010-\u2015\u2212\u00b7\u30fb]+")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "HEBREW", "ARABIC")


class LookAlikes:
    """Finds the look-alikes of many names among many, in linear time."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_reading: dict[tuple[int, str], list[str]] = {}
        for name in sorted(names):
            for reading in enumerate(_readings(name)):
                self._by_reading.setdefault(reading, []).append(name)

    def of(self, name: str) -> list[str]:
        """Return the names that look like this one, and are not it."""
        found = {each for reading in enumerate(_readings(name)) for each in self._by_reading.get(reading, ())}
        return sorted(found - {name})


def mixes_scripts(name: str) -> bool:
    """Return whether a name has letters of more than one of the scripts that are taken for each other."""
    named = {unicodedata.name(char, "").partition(" ")[0] for char in name[:MAX_LOOK_ALIKE_CHARS] if char.isalpha()}
    return len(named.intersection(_SCRIPTS)) > 1


def _readings(name: str) -> tuple[str, str]:
    """Return a name without regard to case, with its strokes as they are and as they look (rule 3)."""
    visible = "".join(char for char in name[:MAX_LOOK_ALIKE_CHARS] if not hides(char))
    # One by one, in linear time: to normalise the whole would sort its marks.
    plain = "".join(map(partial(unicodedata.normalize, "NFKD"), visible))
    letters = "".join(char for char in plain if not unicodedata.combining(char)).translate(_LETTERS)
    separated = _SEPARATORS.sub("_", letters)
    return _joined(separated.casefold()), _joined(separated.translate(_STROKES).casefold())


def _joined(name: str) -> str:
    return name.replace("rn", "m").replace("vv", "w")
