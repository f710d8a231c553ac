"""The engine of checks: runs looks concurrently, and prints their findings. A look is a function that gathers the facts
about one subject. I/O: threads, stdout.

- A look that takes longer than its time is abandoned, and its result is unknown. Its thread ends with the process
  (`is_looking`).
- The result of a look that fails, or gets no thread, is unknown. The others continue.
- The exit code is 0 if no result is bad, failed or unknown. Checks that the user has left out don't count.
- Texts may come from others' files and gateways: their length is bounded, and they are escaped when shown. Commands are
  meant to be pasted into a shell, so their words are quoted. A command that can't be shown unchanged is left out.
"""

import queue
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct

from accredit.errors import AccreditError, ConfigurationError
from accredit.limits import MAX_FINDING_CHARS
from accredit.terminal.output import BAD, GOOD, QUIET, print_result, say, say_whole

FAILURES = (AccreditError, OSError, ValueError, RuntimeError, MemoryError)
"""The exceptions after which a look counts as failed."""
MIGRATE = "as the database's administrator: accredit store migrate --store postgresql://ADMIN@HOST/DATABASE"
"""The remedy that creates the tables. It names the administrator, since the gateway's own database user may lack that
right."""

Subject = Literal["keys", "configuration", "store", "login", "gateway", "clock", "desk", "hosts", "versions"]
"""The subjects that a finding may be about, in the order in which findings are printed."""
_Name = TypeVar("_Name", bound=str)
T = TypeVar("T")

_LEFT_OUT = "left out"
_THREAD = "accredit-look"
_SHOWN = {
    "good": ("ok  ", GOOD, "good"),
    "note": ("note", "", "to know"),
    "bad": ("BAD ", BAD, "bad"),
    "ok": ("ok  ", GOOD, "ok"),
    "no": ("NO  ", BAD, "not"),
    "unknown": ("?   ", "", "can't be told from here"),
    _LEFT_OUT: ("--  ", QUIET, "left out on your word"),
}
"""For each state: its mark, its style, and the words that follow the number of results in this state."""


class Unknown(NamedTuple):
    """Why something could not be found out. If a look failed or took too long, `remedy` says what to do about that."""

    why: str
    remedy: str = ""


Found = T | Unknown


class NotKnown(Exception):
    """A check's fact is unknown; the text says why."""


def need(found: Found[T]) -> T:
    """Return a fact. Raises `NotKnown`."""
    if isinstance(found, Unknown):
        raise NotKnown(found.why)
    return found


class Result(Struct, frozen=True):
    """The result of a check: what it found `about` its subject, what to do about it, and a command that does it, or
    ""."""

    state: Literal["good", "note", "bad", "ok", "no", "unknown"]
    about: str
    what: str
    remedy: str = ""
    command: str = ""

    def fit(self, about: str, bound: Callable[[str], str]) -> "Result":
        """Return a copy of the result, with its texts bounded, and with this subject."""
        return Result(self.state, about, bound(self.what), bound(self.remedy), self.command)


good, note, bad = (partial(Result, state) for state in ("good", "note", "bad"))
ok, no, unknown = (partial(Result, state, "") for state in ("ok", "no", "unknown"))


def faulty(subject: Subject, error: ConfigurationError) -> Result:
    """Return an error as a finding."""
    return bad(subject, error.what, error.remedy)


def print_results(
    results: Sequence[Result],
    name: str,
    members: Callable[[Result], object],
    counted: Sequence[str],
    left_out: Collection[str] = (),
) -> int:
    """Print all results, and how many there are in each of the `counted` states. As JSON, print one object instead,
    with the results' `members` under `name`. Return the exit code."""
    states = [_LEFT_OUT if each.about in left_out else each.state for each in results]
    counts = Counter(states)
    is_well = not counts.keys() & {"bad", "no", "unknown"}
    print_result({"ok": is_well, name: [*map(members, results)]})
    for each, state in zip(results, states, strict=True):
        mark, style, _ = _SHOWN[state]
        say(f"{mark}  {each.about}: {each.what}", style)
        if each.remedy:
            say(f"      {each.remedy}")
        if each.command:
            say_whole(f"      {each.command}")
    say("")
    counted = [*counted, *([_LEFT_OUT] if _LEFT_OUT in counts else [])]
    say(", ".join(f"{counts[each]} {_SHOWN[each][2]}" for each in counted), QUIET if is_well else BAD)
    return 0 if is_well else 1


def run_looks(looks: Mapping[_Name, Callable[[], Any]], seconds: float) -> dict[_Name, Any]:
    """Run the looks, for `seconds` at most. Return what each has found, or `Unknown`."""
    told: queue.SimpleQueue[tuple[_Name, Any]] = queue.SimpleQueue()
    for name, look in looks.items():
        thread = threading.Thread(target=_run, name=_THREAD, args=(name, look, told), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # there is no room for a thread
            told.put((name, explain_failure(error)))
    found = dict[_Name, Any].fromkeys(
        looks, Unknown(f"this look took more than {seconds:g} s", "see what it waits for")
    )
    late_at, waiting = time.monotonic() + seconds, len(looks)
    while waiting:
        try:
            name, value = told.get(timeout=max(0.0, late_at - time.monotonic()))
        except queue.Empty:
            break
        found[name], waiting = value, waiting - 1
    return found


def is_looking() -> bool:
    """Return whether a look is still at work, though it was abandoned."""
    return any(each.name == _THREAD for each in threading.enumerate())


def _run(name: _Name, look: Callable[[], Any], told: "queue.SimpleQueue[tuple[_Name, Any]]") -> None:
    try:
        value = look()
    except FAILURES as error:
        value = explain_failure(error)
    told.put((name, value))


def explain_failure(error: Exception) -> Unknown:
    """Return why a look has failed, as its result. Errors of our own say that themselves."""
    if isinstance(error, ConfigurationError):
        return Unknown(error.what, error.remedy)
    if isinstance(error, AccreditError):
        return Unknown(str(error), "see what is there")
    what = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Unknown(f"this look has failed: {what}", "see what is there")


def command_line(*words: str) -> str:
    """Return words as a shell line; "" if it can't be shown safely."""
    line = shlex.join(words)
    return line if line.isascii() and line.isprintable() and len(line) <= MAX_FINDING_CHARS else ""


def into_file(file: str, *words: str) -> str:
    """Return `WORDS > FILE` as a shell line; "" if it can't be shown safely."""
    line, name = command_line(*words), command_line(file)
    return f"{line} > {name}" if line and name else ""
