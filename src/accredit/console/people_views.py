"""Data of the page "Who may what": the list in the tree's order, and one delegation with those that end with it. No
I/O.

A holder who may delegate can make any number of delegations. So the list of all shows only some of those below each
one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from accredit.base.clock import unix_seconds
from accredit.console.delegations import HOLDS, Node, State, TreeEntry, sorted_nodes
from accredit.console.people import Known
from accredit.console.views import fold_ids
from accredit.errors import DeskError
from accredit.limits import SHORT_ID_CHARS
from accredit.pins.shown import visible_text
from accredit.policy.constraint_words import scopes
from accredit.ratify.structures import UNTIL_REVOKED

DELEGATIONS_A_PAGE = 200
"""How many delegations the page shows at once. More are loaded on request."""
DELEGATIONS_UNDER_ONE = 20
"""How many of the delegations below one are shown in the list of all. A holder who may delegate can make any number,
and others must stay in sight. The delegation's own page shows all."""
MAX_SHOWN_ENDS = 100
"""If a delegation is revoked, others end with it. This is how many of those the page names; it gives only the number of
the rest."""
MAX_SHOWN_SCOPE_CHARS = 300
"""How many characters of a delegation's scopes the list of all shows. The delegation's own page shows the rest."""
MAX_SHOWN_ID_CHARS = 600
"""How many characters of a certificate's id its own page shows. The issuer chooses the id, which may be as long as a
proof."""


_OWN_ID = re.compile(r"[0-9a-f]{32}")
"""The form of ids that accredit makes. Other ids may hold any text, and are not put into a command that a person might
run."""


class PeopleViews:
    """Makes the page's data from what is known at one moment, with names. `person_id` is the desk's owner ("" without a
    desk)."""

    def __init__(self, known: Known, names: Mapping[str, str], person_id: str = "") -> None:
        self._known = known
        self._names = names
        self._person_id = person_id
        self._holders = Counter(names.values())
        """How many ids share each name. If several do, the name alone is ambiguous."""
        self._now = unix_seconds()
        self._placed = {id(each.node): each for each in known.forest.placed(self._now, known.revoked)}

    def page(self, text: str, begin: int, *, all_states: bool) -> dict[str, Any]:
        """Return a page of the list from row `begin` on: valid delegations or, with `all_states`, all. If `text` is not
        empty, only those that match it are listed, and those above them."""
        kept = self._kept(text.casefold().strip(), all_states=all_states)
        rows = list(self._rows(kept, is_short=not text))
        end = begin + DELEGATIONS_A_PAGE
        over = sum(each.state not in HOLDS for each in self._placed.values())
        return {
            "rows": [self._person(each) if isinstance(each, str) else self._told(each) for each in rows[begin:end]],
            "next": end if end < len(rows) else None,
            "all": len(self._placed),
            "over": over,
            **self._unknown(),
        }

    def find(self, handle: str) -> TreeEntry:
        """Return the certificate with this handle. If it is at several places, prefer one that the person may revoke.
        Raises `DeskError`."""
        found = [each for each in self._placed.values() if each.node.link.handle == handle]
        if not found:
            raise DeskError("unknown", "this desk knows no such delegation")
        return max(found, key=lambda each: (each.person == self._person_id, each.state in HOLDS))

    def one(self, placed: TreeEntry) -> dict[str, Any]:
        """Return one delegation, the path to it, those below it, and those that end with it."""
        link = placed.node.link
        ends = self._known.forest.ends_with(link.cert_id, self._now, self._known.revoked)
        some = _nearest(placed.node, DELEGATIONS_A_PAGE)
        below = [each for each in self._tree(placed.node, 0, some) if each.level]
        return {
            **self._row(placed.node, is_short=False),
            "by": self._name(link.issuer_id),
            "by_key": visible_text(link.issuer_id),
            "key": visible_text(link.subject_id),
            "person": self._name(placed.person),
            "issued": link.issued_at,
            "under": [self._told(each) for each in below],
            "under_more": sum(1 for _ in placed.node.all()) - 1 - len(below),
            **self.rows(ends),
            "same_id": sum(each.node.link.cert_id == link.cert_id for each in ends),
            "others": self._others(placed, ends),
            **self._unknown(),
        }

    def rows(self, ends: Sequence[TreeEntry]) -> dict[str, Any]:
        """Return rows for the first of these delegations, which end, and how many more there are."""
        return {
            "ends_with": [self._row(each.node) for each in ends[:MAX_SHOWN_ENDS]],
            "ends_with_more": max(0, len(ends) - MAX_SHOWN_ENDS),
        }

    def _others(self, placed: TreeEntry, ends: Sequence[TreeEntry]) -> int:
        """Count the holder's other valid delegations that don't end with this one."""
        ending = {id(each.node) for each in ends}
        holder = placed.node.link.subject_id
        return sum(
            each.node.link.subject_id == holder and each.state in HOLDS and id(each.node) not in ending
            for each in self._placed.values()
            if each.node is not placed.node
        )

    def _unknown(self) -> dict[str, Any]:
        known = self._known
        return {
            "counted": known.counted,
            "counted_whole": known.is_counted_whole,
            "whole": known.is_whole,
            "odd": known.odd,
            "problem": visible_text(known.problem),
            "lists": [visible_text(f"{each.where}: {each.fault}") for each in known.lists if each.fault],
        }

    def _kept(self, text: str, *, all_states: bool) -> set[int]:
        """Return the nodes to show, by `id()`: those whose text matches, and those above them."""
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

    def _rows(self, kept: set[int], *, is_short: bool) -> "Iterator[str | _Told]":
        """Yield each person's id, followed by the delegations below that person."""
        people = self._known.forest.by_person
        for person in sorted(people, key=lambda each: (each != self._person_id, self._name(each), each)):
            shown_here = [each for each in self._sorted(people[person]) if id(each) in kept]
            if shown_here:
                yield person
            for each in shown_here:
                yield from self._tree(each, 1, _nearest(each, DELEGATIONS_UNDER_ONE, kept) if is_short else kept, kept)

    def _tree(self, node: Node, level: int, told: set[int], kept: set[int] | None = None) -> "Iterator[_Told]":
        """Yield a node, and those nodes of `told` that are below it. Each comes with the number of its children that
        are left out."""
        under = [each for each in self._sorted(node.under) if kept is None or id(each) in kept]
        yield _Told(node, level, sum(id(each) not in told for each in under))
        for each in under:
            if id(each) in told:
                yield from self._tree(each, level + 1, told, kept)

    def _person(self, person: str) -> dict[str, Any]:
        key = visible_text(person[:SHORT_ID_CHARS]) if person in self._names else ""
        return {"level": 0, "who": self._name(person), "key": key, "you": person == self._person_id}

    def _told(self, told: "_Told") -> dict[str, Any]:
        return {**self._row(told.node), "level": told.level, "more": told.more}

    def _sorted(self, level: Mapping[Any, Node]) -> list[Node]:
        return sorted_nodes(level, self._state)

    def _state(self, node: Node) -> State:
        return self._placed[id(node)].state

    def _row(self, node: Node, *, is_short: bool = True) -> dict[str, Any]:
        link, placed = node.link, self._placed[id(node)]
        may = scopes(map(visible_text, link.scope))
        whole = visible_text(link.words())
        words = fold_ids(whole, self._names)
        most = MAX_SHOWN_SCOPE_CHARS if is_short else len(may) + len(words)
        most_asked = MAX_SHOWN_SCOPE_CHARS if is_short else len(node.asked_for)
        return {
            "handle": link.handle,
            "cert": visible_text(link.cert_id[:SHORT_ID_CHARS])
            if is_short
            else _clip(visible_text(link.cert_id), MAX_SHOWN_ID_CHARS),
            "typed": link.cert_id if _OWN_ID.fullmatch(link.cert_id) else "",
            "who": self._name(link.subject_id),
            "yours": bool(self._person_id) and placed.person == self._person_id and placed.state in HOLDS,
            "may": _clip(may, most),
            "only": _clip(words, most),
            "only_whole": "" if is_short or whole == words else whole,
            "for": _clip(visible_text(node.asked_for), most_asked),
            "ends": None if placed.ends_at == UNTIL_REVOKED else placed.ends_at,
            "state": placed.state,
            "calls": node.calls,
            "last": node.last,
            "from": sorted(node.sources),
        }

    def name(self, placed: TreeEntry) -> str:
        """Return the holder's name."""
        return self._name(placed.node.link.subject_id)

    def _name(self, holder_id: str) -> str:
        name, short = self._names.get(holder_id), f"{visible_text(holder_id[:SHORT_ID_CHARS])}…"
        if name is None:
            return short
        return f"{visible_text(name)} ({short})" if self._holders[name] > 1 else visible_text(name)


class _Told(NamedTuple):
    """A row of the list: a node, its depth in the list, and how many of its children are left out."""

    node: Node
    level: int
    more: int


def _nearest(top: Node, most: int, kept: set[int] | None = None) -> set[int]:
    """Return the `most` nodes nearest below one, breadth first. A holder who may delegate can make any number, deep or
    wide, and must not fill the list with them."""
    found: list[Node] = []
    for each in chain([top], found):  # `found` grows meanwhile
        if len(found) == most:
            break
        under = (under for under in each.under.values() if kept is None or id(under) in kept)
        found += islice(under, most - len(found))
    return {id(each) for each in found}


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
