"""Proposes a scope for each skill on an agent's card, and compares the card with configured skills. No I/O.

- [own-scope] Every message needs `custom:SERVER:ask`. A message that names a skill also needs that skill's own scope,
  `custom:SERVER:SKILL`. No two skills have the same.
- [sensitive] A skill is sensitive if a word of its id or name stands for an action that can't be undone ("send").
- [left-out] A skill is left out, and so will be refused, if its id is on the card twice, can't be written to a file, or
  is that of a skill of the gateway's own; if its scope is taken; or if the card has too many skills.
- [one-way] The agent's URL is that of its first interface for JSON-RPC of A2A 1.0. Other interfaces are not used.

Not checked: whether the card says what the agent does; the operator decides.
"""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from accredit.a2a.shapes import VERSION, Card, Skill
from accredit.http_api.proposals import irreversible_word
from accredit.policy.catalog import own_scope
from accredit.policy.drill import DRILLS

MAX_PROPOSED_SKILLS = 500
"""The most skills for which tables are written. Real cards have up to some dozens; nobody reads more tables."""


class ProposedSkill(NamedTuple):
    """The proposed entry for a skill, and the reason."""

    skill: Skill
    scope: str
    sensitive: bool
    reason: str


class ProposedSkills(NamedTuple):
    """The proposals for an agent: the `skills` that have no table yet, and those `left_out`, each with the reason.
    `gone` are configured skills that the card lacks."""

    skills: list[ProposedSkill]
    left_out: list[tuple[str, str]]
    gone: list[str]


def ask_scope(server: str) -> str:
    """Return the scope that every message to an agent needs."""
    return own_scope("ask", server)


def agent_url(card: Card) -> str | None:
    """Return an agent's URL ([one-way]), or None if it has no interface that the gateway could use."""
    urls = (
        each.url
        for each in card.supported_interfaces
        if each.protocol_binding == "JSONRPC" and each.protocol_version == VERSION
    )
    return next(urls, None)


def propose_skills(
    card: Card, server: str, there: Collection[str] = (), scopes: Collection[str] = ()
) -> ProposedSkills:
    """Propose scopes for the skills that have no table. `there` are the ids of those that have one, and `scopes` are
    scopes that are taken."""
    skills = card.skills or []
    times = Counter(each.id for each in skills)
    taken = {ask_scope(server), *scopes}
    found, out = list[ProposedSkill](), dict[str, str]()
    for each in skills:
        if each.id in there:
            continue
        scope = own_scope(each.id, server)
        if times[each.id] > 1:
            out[each.id] = "the card has it more than once"
        elif each.id in DRILLS:
            out[each.id] = "it is a skill of the gateway's own"
        elif any("\ud800" <= char <= "\udfff" for char in each.id):
            out[each.id] = "no file can hold its id"
        elif scope in taken:
            out[each.id] = "something else has the scope that it would have"
        elif len(found) == MAX_PROPOSED_SKILLS:
            out[each.id] = f"the card has more than {MAX_PROPOSED_SKILLS}"
        else:
            taken.add(scope)
            word = irreversible_word(each.id, each.name)
            why = "a skill of its own" if word is None else f'by its name, "{word}", nobody takes it back'
            found.append(ProposedSkill(each, scope, word is not None, why))
    return ProposedSkills(found, [*out.items()], [id for id in there if id not in times])
