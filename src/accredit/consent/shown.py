"""Shows a call to a person before they allow it. No I/O.

- [completeness] Everything that the call's digest covers is shown: method, target, and each value in its params with
  its place (the path to it). Two calls with different digests are never shown as the same text. [invisible] and [marks]
  are for texts that differ but look the same. Of a request to an HTTP API, the path and the body are shown: the body as
  values if it is JSON that can be read in only one way, else as text. The body's digest is shown too, unless the body
  is shown as text.
- [invisible] Some characters are written as code points, by the rules of `pins.shown`: invisible ones, those that look
  like another form, and the brackets of such codes. So are blanks at the end of a line. In a value's place, so are `/`,
  `[`, and characters that could pass for the place's end or for a row of its own. Only a line's end begins a new line.
- [folding] A long text, and what comes after many values, is folded. It counts as seen only once it was unfolded.
- [marks] What a person may overlook is marked:
  - letters of several scripts in one word, and words of one script that look like words of another;
  - letters in unusual forms, and signs other than ASCII's in what looks like an address or a path;
  - domain names in punycode, text that runs from right to left, and wide gaps;
  - names that look like those of other tools, and commands that are known to do harm.

Marks are hints: no mark does not mean harmless. A page has to keep blanks and line ends as they are.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast

from msgspec import UNSET, Struct

from accredit.canonical import canonical
from accredit.consent.asks import Ask, is_of_http
from accredit.consent.offers import what_runs
from accredit.jsonrpc.methods import AGENT_MESSAGES, TARGET_MEMBER
from accredit.limits import MAX_UNFOLDED_CHARS, MAX_UNFOLDED_LINES, MAX_URI_LENGTH
from accredit.pins.lookalikes import LookAlikes, mixes_scripts, twins_in
from accredit.pins.shown import hides, visible_text, with_code_points

MAX_UNFOLDED_FIELDS = 100
"""How many values of a call are shown unfolded: 64 KiB can hold 30,000."""
MAX_TOLD_MARKS = 3
"""How many marks of one kind are shown for one value: the first few show what kind of text it is."""


Kind = Literal["text", "number", "yes or no", "nothing", "list", "object"]

_EMPTY = "⟨empty⟩"
_BLANK = "⟨U+0020⟩"
_QUOTES = {ord(each): f"⟨U+{ord(each):04X}⟩" for each in "“”❝❞〝〞\U0001f676\U0001f677"}
"""The quotation marks that we put around others' texts, and those that look like them."""
_ROWS = (" ", "|", "!")
"""How rows in a terminal begin that don't start with a name: further lines of a text, and marks."""
_PUNYCODE = re.compile(r"(?i)\bxn--[a-z0-9-]+")
_ADDRESS = re.compile(r"\w[@/\\.:]+\w")
_LETTERS_AND_DIGITS = frozenset(["Lu", "Ll", "Lt", "Lo", "Nd", "Nl"])
_GAP, _WIDE_GAP = " " * 8, " " * 40
_COMMANDS = (
    (re.compile(r"(?is)\b(?:curl|wget|fetch)\b.{0,500}\|\s{0,9}(?:sudo\s{1,9})?(?:\w{0,9}sh|python\d?|perl|ruby|node)\b"),
     "It downloads and runs a program."),
    (re.compile(r"(?i)\bsudo\b|\bdoas\b|\bsu\s{1,9}-"), "It takes the rights of another user."),
    (re.compile(r"\brm\s{1,9}-\w{0,9}[rf]|\bmkfs|\bdd\s{1,9}if=|(?i:\bdrop\s{1,9}(?:table|database)\b|\bdelete\s{1,9}from\b)"),
     "It deletes."),
)  # fmt: skip


class Field(Struct, frozen=True):
    """A value of a call. `label` is its name, or its number in a list. It is part of the nearest value before it that
    has a lower `level` (0 for arguments). `lines` are its text; a list or object has none. `chars` counts the
    characters as written.

    If it is `folded`, the call may be allowed only after it was unfolded. `marks` say what may be overlooked in it.
    """

    level: int
    label: str
    kind: Kind
    lines: tuple[str, ...]
    chars: int
    folded: bool
    marks: tuple[str, ...]


class ShownCall(Struct, frozen=True):
    """A call as it is shown. `fields` are its values, in the signed order; `marks` are about the call as a whole."""

    method: str
    target: str
    fields: tuple[Field, ...]
    marks: tuple[str, ...]

    @property
    def folded(self) -> bool:
        """Whether anything must be unfolded before the call may be allowed."""
        return any(each.folded for each in self.fields)


def shown_call(ask: Ask, known_tools: Iterable[str] = ()) -> ShownCall:
    """Return an ask's call as it is shown. `known_tools` are the names of tools that the call's tool might be taken
    for."""
    target = ask.request.target if ask.is_request else ask.target
    marks = [] if ask.method in ("resources/read", "prompts/get") else _marks(target)
    if ask.method == "tools/call":
        marks += look_alikes(target, known_tools)
    fields: list[Field] = []
    for each in _values(ask):
        fields.append(_field(each, folded=len(fields) >= MAX_UNFOLDED_FIELDS))
    return ShownCall(ask.method, one_word(target), tuple(fields), (*marks, *_command_marks(ask)))


def look_alikes(name: str, known: Iterable[str]) -> list[str]:
    """Return a line for each known name that looks like this one, but differs."""
    others = LookAlikes(known).of(name)[:MAX_TOLD_MARKS]
    return [
        f"“{with_code_points(name)}” looks like “{with_code_points(other)}”, and is another tool." for other in others
    ]


def one_word(text: str) -> str:
    """Return a text without blanks, so that it can't be read together with the words around it."""
    return visible_text(text).replace(" ", _BLANK)


def in_one_line(method: str, target: str, params: Mapping[str, Any], most_chars: int = MAX_URI_LENGTH) -> str:
    """Return what a call is about, in a few words: its target, or the method and the path of a request to an HTTP API.
    Of longer names, only the beginning is given."""
    if is_of_http(method):
        return f"{method} {one_word(str(params.get('target'))[:most_chars])}"
    name = one_word(target[:most_chars])
    return f"a message for {name or 'any skill'}" if method in AGENT_MESSAGES else name


def in_quotes(text: str) -> str:
    """Return a text that can't end the quotation marks that are put around it."""
    return visible_text(text).translate(_QUOTES)


class _Value(NamedTuple):
    level: int
    name: str
    label: str
    value: Any


def _values(ask: Ask) -> Iterator[_Value]:
    """Yield each value. The labels of values that are not arguments begin with a slash."""
    if ask.is_request:
        yield from _of_request(ask)
        return
    named = TARGET_MEMBER.get(ask.method)
    for name in _in_order(ask.params):
        if name == "arguments" and ask.arguments:
            yield from _inside(0, ask.arguments)
        elif name != named:  # the target is in the title
            yield from _leaves(_Value(0, name, f"/{_step(name)}", ask.params[name]))


def _of_request(ask: Ask) -> Iterator[_Value]:
    request = ask.request
    if request.body is UNSET:
        yield _Value(0, "", "/body_size", request.body_size)
    elif ask.body is not None:
        yield from _inside(0, ask.body)
    elif request.body:
        yield _Value(0, "", "/body", request.body)
    if request.body is UNSET or ask.body is not None:
        yield _Value(0, "", "/body_sha256", request.body_sha256)


def _leaves(value: _Value) -> Iterator[_Value]:
    yield value
    if isinstance(value.value, dict | list):
        yield from _inside(value.level + 1, cast("dict[str, Any] | list[Any]", value.value))


def _inside(level: int, value: dict[str, Any] | list[Any]) -> Iterator[_Value]:
    if isinstance(value, dict):
        for name in _in_order(value):
            yield from _leaves(_Value(level, name, _step(name), value[name]))
    else:
        for index, each in enumerate(value):
            yield from _leaves(_Value(level, "", f"[{index}]", each))


def _in_order(members: dict[str, Any]) -> list[str]:
    return sorted(members, key=lambda name: name.encode("utf-16-be"))


def _step(name: str) -> str:
    text = _line(name).replace("/", "⟨U+002F⟩").replace("[", "⟨U+005B⟩").replace(": ", "⟨U+003A⟩ ")
    return f"⟨U+{ord(text[0]):04X}⟩{text[1:]}" if text.startswith(_ROWS) else text or _EMPTY


def _line(text: str) -> str:
    line = visible_text(text)
    return line.rstrip(" ") + _BLANK * (len(line) - len(line.rstrip(" ")))


def _field(found: _Value, *, folded: bool) -> Field:
    value = found.value
    text = value if isinstance(value, str) else "" if isinstance(value, dict | list) else canonical(value).decode()
    lines = () if isinstance(value, dict | list) else tuple(map(_line, text.split("\n")))
    long = len(text) + len(found.name) > MAX_UNFOLDED_CHARS or len(lines) > MAX_UNFOLDED_LINES
    marks = (*_marks(found.name), *_marks(text))
    return Field(found.level, found.label, _kind(value), lines, len(text), folded or long, marks)


def _kind(value: Any) -> Kind:
    match value:
        case str():
            return "text"
        case bool():
            return "yes or no"
        case int() | float():
            return "number"
        case None:
            return "nothing"
        case list():
            return "list"
        case _:
            return "object"


def _marks(text: str) -> list[str]:
    """Return the marks of a text ([marks]). Takes time linear in its length."""
    marks = [
        f"{visible_text(each)} is a domain name in punycode: other letters are shown for it." for each in _few(text)
    ]
    if any(_GAP in line.strip() or _WIDE_GAP in line.rstrip() for line in text.split("\n")):
        marks.append("It has a wide gap: look for what stands behind it.")
    if text.isascii():
        return marks
    mixed = [word for word in text.split() if not word.isascii() and mixes_scripts(word)][:MAX_TOLD_MARKS]
    marks += [f"“{with_code_points(word[:MAX_UNFOLDED_CHARS])}” mixes letters of several scripts." for word in mixed]
    for word, latin in twins_in(text)[:MAX_TOLD_MARKS]:
        twin = f"“{with_code_points(latin)}”"
        if word == latin:
            marks.append(f"{twin} is in Latin letters, and looks like a word in those around it.")
        else:
            marks.append(f"“{with_code_points(word[:MAX_UNFOLDED_CHARS])}” looks like {twin} in other letters.")
    odd = [word for word in text.split() if not word.isascii() and _has_odd_signs(word)][:MAX_TOLD_MARKS]
    marks += [f"“{with_code_points(word[:MAX_UNFOLDED_CHARS])}” has signs that pass for others." for word in odd]
    if any(unicodedata.bidirectional(char) in ("R", "AL") for char in text):
        marks.append("A part of it runs from right to left, and changes places with what stands beside it.")
    hidden = sum(hides(char) for char in text) - text.count("\n")
    if hidden:
        marks.append(f"It holds {_characters(hidden)} that would not show.")
    other_forms = visible_text(text).count("⟨U+") - hidden - sum(map(text.count, "\n⟨⟩")) + _unusual(text)
    if other_forms:
        marks.append(f"It holds {_characters(other_forms)} in another form than usual: it looks like another text.")
    return marks


def _has_odd_signs(word: str) -> bool:
    """Return whether a word that looks like an address or a path has non-ASCII signs inside."""
    inside = word.strip("".join(char for char in set(word) if not char.isalnum()))
    signs = [char for char in inside if not char.isascii() and unicodedata.category(char)[0] in "PS"]
    usual = unicodedata.normalize("NFKC", word[:MAX_UNFOLDED_CHARS]) if signs else ""
    return _ADDRESS.search(usual) is not None


def _unusual(text: str) -> int:
    """Count a text's letters and digits that are unusual forms of ASCII characters, such as mathematical bold.
    Full-width ones count, too, unless the text is East Asian."""
    forms = [char for char in text if char > "\xff" and unicodedata.category(char) in _LETTERS_AND_DIGITS
             and (form := unicodedata.normalize("NFKC", char)).isascii() and form.isalnum()]  # fmt: skip
    full = sum(unicodedata.east_asian_width(char) == "F" for char in forms)
    is_eastern = full and any(unicodedata.east_asian_width(char) == "W" for char in text)
    return len(forms) - (full if is_eastern else 0)


def _characters(number: int) -> str:
    return f"{number} character{'s' if number > 1 else ''}"


def _few(text: str) -> list[str]:
    return [match[0] for match, _ in zip(_PUNYCODE.finditer(text), range(MAX_TOLD_MARKS), strict=False)]


def _command_marks(ask: Ask) -> list[str]:
    commands = [value if isinstance(value, str) else canonical(value).decode() for value in what_runs(ask)]
    if not commands:
        return []
    found = [told for pattern, told in _COMMANDS if any(pattern.search(command) for command in commands)]
    return [*found, "It can do whatever that server's account can."]
