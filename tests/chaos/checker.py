"""Whether what clients saw of a store can have been: histories of challenges and of uses under a limit. No I/O.

An operation is what one client asked about one key, what it was told, from when to when. A key's history is sound if
its operations can be put into an order in which each takes effect at one moment between its begin and its end, and each
answer is the one that a single copy would have given (linearizability). Keys don't depend on each other, so each is
searched by itself: the search is that of Wing and Gong, with a memo of what was tried.

1. What was answered took effect once, after its begin and before its end.
2. What was not answered (`UNKNOWN`) took effect at any time after its begin, also after all else, or never; and what it
   wrote may be lost again with its machine, after others were refused for it. The same holds for a refusal that leaves
   it open whether something was written. A refusal is no promise; a yes is.
3. What changes nothing, or only leads to refusals, as what was not answered, is tried first and alone: no order that is
   good has it later and would not be good with it now.
4. Of operations that differ in nothing but their times, the one that ends first is tried first: each order that is good
   can be changed into one of these, as the two can be exchanged.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

UNKNOWN = None
"""The answer of an operation that was not answered."""
FIRST, SPENT = "first", "spent"
COUNTED, REFUSED = "counted", "refused"
_NEVER = float("inf")


class Operation(NamedTuple):
    """What a client asked about `key` at `begun` and was told at `ended`, in seconds of one clock.

    `at` is what the client took for the time, which counts in a window.
    """

    key: str
    begun: float
    ended: float
    answer: str | None
    client: str = ""
    at: int = 0

    @property
    def last(self) -> float:
        """The latest moment at which it took effect, if it did."""
        return _NEVER if self.answer is UNKNOWN else self.ended


class Model(Protocol):
    """What one copy of a key would do."""

    @property
    def initial(self) -> Hashable:
        """The state before everything."""
        ...

    def after(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the state after an operation; None if its answer would have been another one."""
        ...


class OneShot:
    """A challenge: the first who presents it spends it."""

    initial = "good"

    def after(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return whether it is good, in doubt or spent then."""
        if operation.answer is UNKNOWN:
            return "in doubt" if state == "good" else state
        if operation.answer == SPENT:
            return None if state == "good" else state
        return None if state == "spent" else "spent"


class Limited(NamedTuple):
    """A certificate that may be used `most` times in each `window_s` seconds. Windows are rounded up by `slack_s`: a
    store may count a use for longer than the window, and never for less."""

    most: int
    window_s: int
    slack_s: int = 0

    @property
    def initial(self) -> Hashable:
        """The times of no uses: of those that were counted, and of those that may have been."""
        return (), ()

    def after(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the times of the uses that were counted, and of those that may have been."""
        counted, doubtful = cast(tuple[tuple[int, ...], tuple[int, ...]], state)
        if operation.answer is UNKNOWN:
            return counted, _with(doubtful, operation.at)
        begin = operation.at - self.window_s
        if operation.answer == COUNTED:
            within = sum(at > begin for at in counted)
            return (_with(counted, operation.at), doubtful) if within < self.most else None
        late = sum(at > begin - self.slack_s for at in (*counted, *doubtful))
        return state if late >= self.most else None


def _with(times: tuple[int, ...], at: int) -> tuple[int, ...]:
    return tuple(sorted((*times, at)))


def is_sound(operations: Sequence[Operation], model: Model) -> bool:
    """Return whether a key's history can have been."""
    asked = sorted(operations, key=lambda each: (each.last, each.begun))
    answered = sum(1 << place for place, each in enumerate(asked) if each.answer is not UNKNOWN)
    states: list[tuple[int, Hashable]] = [((1 << len(asked)) - 1, model.initial)]
    tried: set[tuple[int, Hashable]] = set(states)
    while states:
        left, state = states.pop()
        if not left & answered:
            return True
        for found in _next(asked, left, model, state):
            if found not in tried:
                tried.add(found)
                states.append(found)
    return False


def _next(asked: Sequence[Operation], left: int, model: Model, state: Hashable) -> Sequence[tuple[int, Hashable]]:
    """Return what is left, and the state, after each operation that may be the next to take effect, one of each kind:
    those that began before any other of the rest has ended. `asked` is in the order of the ends."""
    kinds: dict[tuple[str | None, int], tuple[int, Hashable]] = {}
    first = asked[_lowest(left)].last
    rest = left
    while rest:
        place = _lowest(rest)
        rest &= rest - 1
        each = asked[place]
        if each.begun > first or (each.answer, each.at) in kinds:
            continue
        after = model.after(state, each)
        if after is not None:
            found = left & ~(1 << place), after
            if each.answer is UNKNOWN or after == state:
                return [found]
            kinds[each.answer, each.at] = found
    return list(kinds.values())


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def by_key(operations: Iterable[Operation]) -> Mapping[str, Sequence[Operation]]:
    """Return each key's operations."""
    found: dict[str, list[Operation]] = defaultdict(list)
    for each in operations:
        found[each.key].append(each)
    return found


def unsound(operations: Iterable[Operation], model: Callable[[str], Model] = lambda _: OneShot()) -> list[str]:
    """Return a sentence about each key whose history can't have been. `model` gives the one of a key."""
    return [_told(key, found) for key, found in sorted(by_key(operations).items()) if not is_sound(found, model(key))]


def _told(key: str, operations: Sequence[Operation]) -> str:
    shown = [
        f"{each.client or 'somebody'} was told {each.answer or 'nothing'} ({each.begun:.3f} to {each.ended:.3f})"
        for each in sorted(operations, key=lambda each: each.begun)
        if each.answer in (FIRST, COUNTED, UNKNOWN)
    ]
    more = len(operations) - len(shown)
    return f"{key}: {'; '.join(shown[:6])}{'; ...' if shown[6:] else ''}, and {more} were told no"


def most_within(times: Sequence[float], window_s: float) -> int:
    """Return the largest number of times that lie within less than a window."""
    most = begin = 0
    ordered = sorted(times)
    for end, at in enumerate(ordered):
        while at - ordered[begin] >= window_s:
            begin += 1
        most = max(most, end - begin + 1)
    return most
