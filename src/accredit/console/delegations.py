"""Delegations as trees: one tree for each person who grants. No I/O.

- [parents] In a chain, each certificate is placed below the one that lets its issuer delegate. A certificate with two
  parents appears twice.
- [validity] If a certificate is revoked, expired or not yet valid, so is everything below it.
- [revocation] The issuer chooses a certificate's id. Revoking an id ends every certificate with that id, wherever it
  is, and all below these.

Nothing is verified here, so somebody who can write to a gateway's store, or to this person's files, can make
delegations appear. The signatures of one delegation are checked when it is opened (`people`).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from accredit.base.values import items_of
from accredit.errors import WireError
from accredit.limits import MAX_DELEGATION_CHAIN_DEPTH, MAX_PROOF_BUNDLE_BYTES
from accredit.policy.constraint_words import constraint
from accredit.ratify import DelegationCert
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import read_constraint

Source = Literal["log", "journal", "file"]
State = Literal["now", "early", "ended", "taken back"]

HOLDS: tuple[State, ...] = ("now", "early")
"""The states in which a certificate can be revoked."""
_HANDLE_CHARS = 32


class Link(Struct, frozen=True):
    """The content of a certificate. Times are unix seconds; `constraints` is their JSON text."""

    cert_id: str
    issuer_id: str
    subject_id: str
    scope: tuple[str, ...]
    constraints: bytes
    issued_at: int
    expires_at: int

    @property
    def handle(self) -> str:
        """The certificate's name in URLs: a digest of its id, issuer and subject. The id alone need not be unique."""
        named = json.dumps([self.cert_id, self.issuer_id, self.subject_id])
        return hashlib.sha256(named.encode()).hexdigest()[:_HANDLE_CHARS]

    def words(self) -> str:
        """Return the constraints in words; "" if there are none."""
        try:
            return "; ".join(constraint(read_constraint(each)) for each in json.loads(self.constraints))
        except (WireError, ValueError, TypeError, OverflowError, RecursionError):  # a journal may hold anything
            return "conditions that can't be read here"


class _Read(Struct):
    """The members of a recorded certificate that are used here, from a fast, partial decoding. It takes a tenth of the
    time of `DelegationCert`."""

    cert_id: str
    issuer_id: str
    subject_id: str
    scope: tuple[str, ...]
    issued_at: int
    expires_at: int
    constraints: list[dict[str, Any]] = []


_decode = msgspec.json.Decoder(list[_Read]).decode


def links_in(chain: bytes) -> tuple[Link, ...] | None:
    """Decode the certificates of a recorded chain, root first. Return None for a chain that no gateway would accept."""
    if len(chain) > MAX_PROOF_BUNDLE_BYTES:
        return None
    try:
        certificates = _decode(chain)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not 0 < len(certificates) <= MAX_DELEGATION_CHAIN_DEPTH:
        return None
    return tuple(_link(each) for each in reversed(certificates))


def links_of(chain: Sequence[DelegationCert]) -> tuple[Link, ...]:
    """Return the content of a chain's certificates (given leaf first), root first."""
    return tuple(
        Link(each.cert_id, each.issuer_id, each.subject_id, each.scope,
             _text(json.loads(canonical([one.members() for one in each.constraints]))), each.issued_at, each.expires_at)
        for each in reversed(chain)
    )  # fmt: skip


def _link(cert: _Read) -> Link:
    text = _text(cert.constraints)
    return Link(cert.cert_id, cert.issuer_id, cert.subject_id, cert.scope, text, cert.issued_at, cert.expires_at)


def _text(constraints: object) -> bytes:
    return json.dumps(constraints, sort_keys=True).encode() if constraints else b"[]"


def _link_from_entry(person_id: str, entry: Mapping[str, Any]) -> Link | None:
    cert_id, agent, at, ends_at = (entry.get(name) for name in ("cert", "agent", "at", "ends_at"))
    if not (isinstance(cert_id, str) and isinstance(agent, str) and type(at) is int and type(ends_at) is int):
        return None
    names = tuple(map(str, items_of(entry.get("scope"))))
    return Link(cert_id, person_id, agent, names, _text(entry.get("constraints")), at, ends_at)


class Node(Struct, eq=False):
    """A certificate at one place in the tree. `calls` counts the calls that used it; the last was at `last` (RFC 3339).
    `asked_for` is the call for which it was signed at the desk. `found_in` says where a chain with it is: its SHA-256
    in the log, or a file ("" for neither)."""

    link: Link
    found_in: str | Path = ""
    calls: int = 0
    last: str = ""
    asked_for: str = ""
    sources: set[Source] = field(default_factory=set[Source])
    under: "dict[Link, Node]" = field(default_factory=dict[Link, "Node"])

    def all(self) -> "Iterator[Node]":
        """Yield this node and all below it."""
        yield self
        for each in self.under.values():
            yield from each.all()


class TreeEntry(Struct, frozen=True):
    """A certificate with its depth in the tree, the id of the person at its root, and its state. Its expiry is its own,
    or that of one above it if that is earlier."""

    node: Node
    level: int
    person: str
    state: State
    ends_at: int


class DelegationTree:
    """All known delegations. `by_person` holds the topmost certificates, by the id of the person who issued them."""

    def __init__(self) -> None:
        self.by_person: dict[str, dict[Link, Node]] = {}

    def add(
        self, chain: Iterable[Link], source: Source, calls: int = 0, last: str = "", found_in: str | Path = ""
    ) -> None:
        """Add a chain, given root first."""
        level: dict[Link, Node] | None = None
        for link in chain:
            level = self.by_person.setdefault(link.issuer_id, {}) if level is None else level
            node = level.get(link)
            if node is None:
                node = level[link] = Node(link)
            node.sources.add(source)
            node.found_in = node.found_in or found_in
            node.calls += calls
            node.last = max(node.last, last)
            level = node.under

    def add_signed(self, person_id: str, entries: Iterable[Mapping[str, Any]]) -> None:
        """Add the journal's entries about signed certificates. If the log has a certificate as well, the log's data
        stays."""
        level = self.by_person.setdefault(person_id, {})
        known = {link.cert_id: node for link, node in level.items()}
        for entry in entries:
            link = _link_from_entry(person_id, entry)
            if link is None:
                continue
            node = known.get(link.cert_id)
            if node is None:
                node = known[link.cert_id] = level[link] = Node(link)
            node.sources.add("journal")
            node.asked_for = str(entry.get("target", ""))

    def placed(self, now: int, revoked: frozenset[str]) -> Iterator[TreeEntry]:
        """Yield every certificate with its state, parents before children."""
        for person, level in self.by_person.items():
            for each in level.values():
                yield from _walk_tree(TreeEntry(each, 0, person, "now", each.link.expires_at), now, revoked)

    def ends_with(self, cert_id: str, now: int, revoked: frozenset[str]) -> list[TreeEntry]:
        """Return the valid certificates that would end if this id were revoked: all with the id, and all below them."""
        ending = {id(each) for found in self.placed(now, revoked) if found.node.link.cert_id == cert_id
                  for each in found.node.all()}  # fmt: skip
        return [each for each in self.placed(now, revoked) if id(each.node) in ending and each.state in HOLDS]


def _walk_tree(place: TreeEntry, now: int, revoked: frozenset[str]) -> Iterator[TreeEntry]:
    """Yield a certificate and all below it. On input, `place.state` is the state of its parent."""
    node, ends_at = place.node, min(place.ends_at, place.node.link.expires_at)
    state = _state(node.link, place.state, now, revoked)
    yield TreeEntry(node, place.level, place.person, state, ends_at)
    for each in node.under.values():
        yield from _walk_tree(TreeEntry(each, place.level + 1, place.person, state, ends_at), now, revoked)


def _state(link: Link, above: State, now: int, revoked: frozenset[str]) -> State:
    if above in ("taken back", "ended"):
        return above
    if link.cert_id in revoked:
        return "taken back"
    if link.expires_at < now:
        return "ended"
    return "early" if link.issued_at > now or above == "early" else "now"


def sorted_nodes(level: Mapping[Link, Node], state_of: Callable[[Node], State]) -> list[Node]:
    """Sort the certificates of one level: valid ones first; within these, the last used first."""
    order = {"now": 0, "early": 1, "taken back": 2, "ended": 3}
    by_use = sorted(level.values(), key=lambda each: (each.last, each.link.issued_at), reverse=True)
    return sorted(by_use, key=lambda each: order[state_of(each)])
