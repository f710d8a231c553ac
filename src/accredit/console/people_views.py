"""Who may what on the page: a list of all in the order of the tree, and one delegation with what ends with it. No I/O.

Whoever may pass on can make any number of delegations: below one, the list of all shows only some.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from accredit.base.clock import unix_seconds
from accredit.console.delegations import HOLDS, Node, Placed, State, sorted_nodes
from accredit.console.people import Known
from accredit.errors import DeskError
from accredit.limits import (
    DELEGATIONS_A_PAGE,
    DELEGATIONS_UNDER_ONE,
    MAX_SHOWN_ENDS,
    MAX_SHOWN_SCOPE_CHARS,
    SHORT_ID_CHARS,
)
from accredit.pins.shown import shown
from accredit.policy.constraint_words import UNTIL_REVOKED, scopes


class PeopleViews:
    """What is known at one moment, with the names that are known. `person_id` is whose desk it is ("" for nobody's)."""

    def __init__(self, known: Known, names: Mapping[str, str], person_id: str = "") -> None:
        self._known = known
        self._names = names
        self._person_id = person_id
        self._now = unix_seconds()
        self._placed = {id(each.node): each for each in known.forest.placed(self._now, known.revoked)}

    def page(self, text: str, begin: int, *, all_states: bool) -> dict[str, Any]:
        """Return a page of the list from row `begin` on: what holds, or all; with a text, what it is in, and what
        stands above that."""
        rows = list(self._rows(self._kept(text.casefold().strip(), all_states=all_states), is_short=not text))
        end = begin + DELEGATIONS_A_PAGE
        over = sum(each.state not in HOLDS for each in self._placed.values())
        return {
            "rows": rows[begin:end],
            "next": end if end < len(rows) else None,
            "all": len(self._placed),
            "over": over,
            **self._unknown(),
        }

    def find(self, handle: str) -> Placed:
        """Return the certificate of a handle: of several with one id, one that the person may take back. Raises
        `DeskError`."""
        found = [each for each in self._placed.values() if each.node.link.handle == handle]
        if not found:
            raise DeskError("unknown", "this desk knows no such delegation")
        return next((each for each in found if each.person == self._person_id), found[0])

    def one(self, placed: Placed) -> dict[str, Any]:
        """Return one delegation, the way to it, what is below it, and what ends with it."""
        link = placed.node.link
        ends = self._known.forest.ends_with(link.cert_id, self._now, self._known.revoked)
        under = [row for each in self._sorted(placed.node.under) for row in self._tree(each, 1, set(self._placed))]
        return {
            **self._row(placed.node, is_short=False),
            "by": self._name(link.issuer_id),
            "by_key": shown(link.issuer_id),
            "key": shown(link.subject_id),
            "person": self._name(placed.person),
            "issued": link.issued_at,
            "under": under[:DELEGATIONS_A_PAGE],
            "under_more": max(0, len(under) - DELEGATIONS_A_PAGE),
            "ends_with": [self._row(each.node) for each in ends[:MAX_SHOWN_ENDS]],
            "ends_with_more": max(0, len(ends) - MAX_SHOWN_ENDS),
            **self._unknown(),
        }

    def _unknown(self) -> dict[str, Any]:
        known = self._known
        return {
            "counted": known.counted,
            "counted_whole": known.is_counted_whole,
            "whole": known.is_whole,
            "problem": shown(known.problem),
            "lists": [f"{each.where}: {each.fault}" for each in known.lists if each.fault],
        }

    def _kept(self, text: str, *, all_states: bool) -> set[int]:
        """Return the places to show: a place whose text matches, and those above it."""
        kept: set[int] = set()

        def look(node: Node) -> bool:
            is_kept = not text or text in self._text(node)
            for each in node.under.values():
                is_kept = look(each) or is_kept
            if is_kept and (all_states or self._placed[id(node)].state in HOLDS):
                kept.add(id(node))
                return True
            return False

        for level in self._known.forest.by_person.values():
            for each in level.values():
                look(each)
        return kept

    def _text(self, node: Node) -> str:
        link = node.link
        said = (link.cert_id, self._name(link.subject_id), link.subject_id, *link.scope, node.asked_for)
        return "\n".join((*said, self._name(link.issuer_id))).casefold()

    def _rows(self, kept: set[int], *, is_short: bool) -> Iterator[dict[str, Any]]:
        people = self._known.forest.by_person
        for person in sorted(people, key=lambda each: (each != self._person_id, self._name(each), each)):
            shown_here = [each for each in self._sorted(people[person]) if id(each) in kept]
            if shown_here:
                yield {"level": 0, "who": self._name(person),
                       "key": shown(person[:SHORT_ID_CHARS]) if person in self._names else "",
                       "you": person == self._person_id}  # fmt: skip
            for each in shown_here:
                yield from self._tree(each, 1, kept, is_short=is_short)

    def _tree(self, node: Node, level: int, kept: set[int], *, is_short: bool = False) -> Iterator[dict[str, Any]]:
        under = [each for each in self._sorted(node.under) if id(each) in kept]
        most = DELEGATIONS_UNDER_ONE if is_short else len(under)
        yield {**self._row(node), "level": level, "more": max(0, len(under) - most)}
        for each in under[:most]:
            yield from self._tree(each, level + 1, kept, is_short=is_short)

    def _sorted(self, level: Mapping[Any, Node]) -> list[Node]:
        return sorted_nodes(level, self._state)

    def _state(self, node: Node) -> State:
        return self._placed[id(node)].state

    def _row(self, node: Node, *, is_short: bool = True) -> dict[str, Any]:
        link, placed = node.link, self._placed[id(node)]
        may = scopes(map(shown, link.scope))
        words = shown(link.words())
        most = MAX_SHOWN_SCOPE_CHARS if is_short else len(may) + len(words)
        return {
            "handle": link.handle,
            "cert": shown(link.cert_id) if not is_short else shown(link.cert_id[:SHORT_ID_CHARS]),
            "who": self._name(link.subject_id),
            "yours": bool(self._person_id) and placed.person == self._person_id and placed.state in HOLDS,
            "may": _clipped(may, most),
            "only": _clipped(words, most),
            "for": shown(node.asked_for),
            "ends": None if placed.ends_at == UNTIL_REVOKED else placed.ends_at,
            "state": placed.state,
            "calls": node.calls,
            "last": node.last,
            "from": sorted(node.sources),
        }

    def name(self, placed: Placed) -> str:
        """Return whose delegation it is."""
        return self._name(placed.node.link.subject_id)

    def _name(self, holder_id: str) -> str:
        if holder_id in self._names:
            return shown(self._names[holder_id])
        return f"{shown(holder_id[:SHORT_ID_CHARS])}…"


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
