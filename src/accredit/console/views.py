"""An ask in words, for the page and the terminal alike. No I/O.

- [order] Certain facts come first: who asks, for which call, and where. Keys have the names that the person gave them;
  a name that a key gives itself is quoted. The server's statements about its tool come last, and can only make a person
  more cautious.
- [safe-text] Every text is safe to show: invisible characters are written as their code points (`pins.shown`).
- [preview] The preview is made from the same grant that would be signed.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct

from accredit.base.text import date_time
from accredit.base.values import decodable
from accredit.consent.asks import Ask
from accredit.consent.offers import Offer, offers_for
from accredit.consent.shown import Field, in_quotes, look_alikes, one_word, shown_call
from accredit.errors import NotOffered
from accredit.limits import MAX_LIKE_CALLS, SHORT_ID_CHARS
from accredit.pins.shown import visible_text
from accredit.policy.constraint_words import constraint

_VERBS = {
    "tools/call": "call",
    "resources/read": "read",
    "prompts/get": "get the prompt",
    "SendMessage": "send a message for",
    "SendStreamingMessage": "send a message, answered bit by bit, for",
}
_CAUTIONS = {
    "destructiveHint": "says that it can destroy things",
    "openWorldHint": "says that it reaches other systems",
}
_ANY_SKILL = "any skill"
_MINUTE = 60
_NO_CERT = "0" * 32
_LONG_ID = re.compile(r"\b([0-9a-f]{32}|[0-9a-f]{64})\b(/[a-z0-9][a-z0-9-]{0,31})?")
_SHOWN_DIGITS = 8


@decodable
class Circumstances(Struct, frozen=True, kw_only=True):
    """The desk's own knowledge about an ask, which is not part of the ask. `names` are those that the person gave, by
    the ids of keys and gateways. `known_tools` are tools allowed at this gateway before. Times are unix seconds."""

    person: str
    person_id: str
    names: Mapping[str, str] = {}
    is_new: bool = True
    is_first: bool = True
    first_values: tuple[str, ...] = ()
    met_at: int | None = None
    started_by: str = ""
    known_tools: tuple[str, ...] = ()
    until: int = 0


class Caution(Struct, frozen=True):
    """A warning to read before allowing a call. `lead` is its first words. `code` are the names in the text that the
    page shows as code."""

    lead: str
    text: str
    code: tuple[str, ...] = ()


class Fact(Struct, frozen=True):
    """A fact about who asks. `note` says where it comes from. `code` are the names in the text that the page shows as
    code."""

    label: str
    text: str
    note: str = ""
    code: tuple[str, ...] = ()


class Described(Struct, frozen=True, kw_only=True):
    """An ask in words. `agent` and `gateway` are names; they are marked if the person did not give them."""

    code: str
    agent: str
    agent_is_named: bool
    verb: str
    target: str
    gateway: str
    gateway_is_named: bool
    fields: tuple[Field, ...]
    folded: bool
    warnings: tuple[Caution, ...]
    who: tuple[Fact, ...]
    server_says: str
    asked_at: int
    until: int
    refused: str = ""

    @property
    def title(self) -> str:
        """One line that says who asks for what."""
        agent = self.agent if self.agent_is_named else f"An agent that calls itself “{self.agent}”"
        where = f"“{self.gateway}”" if self.gateway_is_named else f"the gateway at {self.gateway}"
        return f"{agent} asks to {self.verb} {self.target} on {where}"


def describe(ask: Ask, known: Circumstances) -> Described:
    """Describe an ask in words."""
    agent, gateway = known.names.get(ask.agent_id), known.names.get(ask.gateway.id)
    call = shown_call(ask, known.known_tools)
    marks = [Caution("Look closely:", each) for each in call.marks]
    return Described(
        code=ask.code,
        agent=visible_text(agent) if agent else in_quotes(ask.agent.name or short(ask.agent_id)),
        agent_is_named=agent is not None,
        verb=_VERBS.get(ask.method, ask.method),
        target=call.target or _ANY_SKILL,
        gateway=visible_text(gateway) if gateway else one_word(ask.gateway.url or ask.gateway.id),
        gateway_is_named=gateway is not None,
        fields=call.fields,
        folded=call.folded,
        warnings=(*_firsts(ask, known), *_impostors(ask, known), *_unseen(ask), *marks),
        who=_who(ask, known, agent, gateway),
        server_says=_server_says(ask),
        asked_at=ask.asked_at,
        until=known.until,
        refused=_not_offered(ask, known),
    )


def preview(
    offer: Offer, ask: Ask, known: Circumstances, now: int, calls: int = 0, seconds: int = 0
) -> list[tuple[str, str]]:
    """Return the lines that `accredit inspect` would print about the certificate for a choice with these numbers (0: as
    proposed). Raises `NotOffered`."""
    grant = offer.grant(ask, _NO_CERT, now, max_calls=calls, seconds=seconds)
    named = known.names.get(ask.agent_id)
    agent = visible_text(named) if named else f"“{in_quotes(ask.agent.name)}”"
    minutes = max(0, grant.expires_at - now) // _MINUTE
    length = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    return [
        ("from", f"{visible_text(known.person)} ({known.person_id})"),
        ("to", f"{agent} ({ask.agent_id})"),
        ("scopes", ", ".join(map(visible_text, grant.scope))),
        ("constraints", visible_text("; ".join(map(constraint, grant.constraints)))),
        ("ends", f"in {length} ({date_time(grant.expires_at)})"),
    ]


def page_offer(offer: Offer, ask: Ask, known: Circumstances, now: int) -> dict[str, Any]:
    """Return a choice in the page's JSON form."""
    return {
        "key": offer.key,
        "button": offer.button,
        "words": offer.words,
        "calls": offer.max_calls,
        "most_calls": MAX_LIKE_CALLS,
        "seconds": offer.seconds,
        "signs": preview(offer, ask, known, now),
    }


def short(holder_id: str) -> str:
    """Return a shortened id for people."""
    text = visible_text(holder_id[:SHORT_ID_CHARS])
    return f"{text}…" if len(holder_id) > SHORT_ID_CHARS else text


def fold_ids(text: str, names: Mapping[str, str]) -> str:
    """Return a text for people, in which a known id is replaced by its name, and any other id or digest is
    shortened."""

    def shorten(found: re.Match[str]) -> str:
        holder, server = found[1], found[2] or ""
        if holder + server in names:
            return f"“{visible_text(names[holder + server])}”"
        return (f"“{visible_text(names[holder])}”" if holder in names else f"{holder[:_SHOWN_DIGITS]}…") + server

    return _LONG_ID.sub(shorten, text)


def _firsts(ask: Ask, known: Circumstances) -> list[Caution]:
    if known.is_new:
        text = (
            "nothing was allowed at this desk yet to this agent at this gateway; what was signed elsewhere"
            " (`accredit grant`) is not known here. Only this one call can be allowed."
        )
        return [Caution("New:", text, ("`accredit grant`",))]
    route = ask.target.removeprefix(f"{ask.method} ") if ask.is_request else ask.target
    target = one_word(route) or _ANY_SKILL
    what = f"this agent was not allowed at this desk to {_VERBS.get(ask.method, ask.method)} {target}"
    if known.is_first:
        return [Caution("First time:", f"{what} before.", (target,))]
    if known.first_values:
        names = " and ".join(f"“{in_quotes(each)}”" for each in known.first_values)
        return [Caution("First time:", f"{what} with this {names} before.", (target,))]
    return []


def _unseen(ask: Ask) -> list[Caution]:
    """Warn if the body of a request is not shown."""
    if not ask.is_request or ask.request.body_size is UNSET:
        return []
    size = f"{ask.request.body_size:,} bytes, as the agent says"
    return [Caution("Not shown:", f"the body is no text ({size}). What is allowed is the body with this SHA-256.")]


def _impostors(ask: Ask, known: Circumstances) -> list[Caution]:
    """Warn if the name of an agent that the person has not named resembles one of the person's own names."""
    if ask.agent_id in known.names:
        return []
    own = list(known.names.values())
    if ask.agent.name in own:
        return [Caution("Look closely:", f"“{in_quotes(ask.agent.name)}” is your name for another key.")]
    found = look_alikes(ask.agent.name, own)
    return [Caution("Look closely:", each.replace("is another tool", "is your name for another key")) for each in found]


def _who(ask: Ask, known: Circumstances, agent: str | None, gateway: str | None) -> tuple[Fact, ...]:
    key = f"your name for key {short(ask.agent_id)}" if agent else f"so it calls itself; key {short(ask.agent_id)}"
    met = f", met {date_time(known.met_at)[:10]}" if known.met_at is not None else ""
    place = one_word(ask.gateway.url) or "no address"
    owner, slash, server = ask.gateway.id.partition("/")
    id = f"{short(owner)}{slash}{one_word(server)}"
    where = (
        Fact("gateway", visible_text(gateway), f"your name for {id}, {place}")
        if gateway
        else Fact("gateway", place, f"so the agent says; {id}, which has no name yet")
    )
    facts = [Fact("agent", visible_text(agent) if agent else f"“{in_quotes(ask.agent.name)}”", f"{key}{met}")]
    if known.started_by:
        facts.append(Fact("started by", visible_text(known.started_by), "so that program calls itself"))
    refusal = ask.refusal
    has = ", ".join(map(one_word, refusal.granted_scope))
    shown = f"what the agent has shown allows {has}" if has else "the agent has shown nothing that allows it"
    # What else the agent holds, it did not show: the gateway's words are about the delegation that came with the call.
    needed = [*map(one_word, refusal.scopes)]
    text = f"it needs {' and '.join(needed)}, and {shown} (so the agent says)"
    reason = f"“{in_quotes(refusal.reason)}”" if refusal.reason else ""
    code = (*needed, *map(one_word, refusal.granted_scope))
    return (*facts, where, Fact("refused because", text, reason, code))


def _server_says(ask: Ask) -> str:
    if ask.server_says is UNSET:
        return ""
    says = ask.server_says
    texts = [f"“{in_quotes(text)}”" for text in (says.title, says.description) if text]
    cautions = [words for hint, words in _CAUTIONS.items() if says.annotations.get(hint)]
    return " · ".join([*texts, *cautions])


def _not_offered(ask: Ask, known: Circumstances) -> str:
    try:
        offers_for(ask, is_new=known.is_new)
    except NotOffered as error:
        return visible_text(str(error))
    return ""
