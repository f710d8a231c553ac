"""An agent's card as its clients see it behind the gateway. No I/O.

- [read-again] It has only members of A2A 1.0: it is encoded again from what was read.
- [here] Its only interface is JSON-RPC at the gateway's URL, without a tenant.
- [proof] A security scheme for the proof is added, and every requirement asks for it as well. An extension says what a
  proof must be bound to, so that authors of clients find it.
- [unsigned] Its signatures are left out: they sign what the agent wrote.
- [skills] Where a proof comes with the request, the skills are those that it covers. A skill without a scope of its own
  needs what a message without a skill needs.
- [pushes] It declares push notifications only if the configuration names an address for them.
"""

import secrets
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from accredit.a2a import shapes
from accredit.a2a.shapes import VERSION
from accredit.attest.canonical import WORKSPACES
from accredit.errors import AnswerError, FrameError
from accredit.http_api.wire import PROOF_HEADER
from accredit.jsonrpc.encode import to_json
from accredit.jsonrpc.text import check_amount, check_text
from accredit.policy.catalog import Entry

CARD_PATH = "/.well-known/agent-card.json"
"""Where an agent's public card is, below its URL (specification section 8.2)."""
MAX_CARD_BYTES = 1_048_576
"""The largest card that is read. Real ones have some kilobytes."""
SCHEME = "ratifyProof"
"""The name of the security scheme for the proof."""
EXTENSION = "urn:accredit:a2a:proof:v1"
"""The extension whose `params` say what a proof is made for: `verifier_id`, `workspace_id`, the `scope` of messages and
those of `skills`."""


class CardTerms(NamedTuple):
    """The gateway's part of a card: the `url` of the agent on the gateway, and the verifier for which proofs are made.
    `entries` says what messages need, by skill. `pushes` says whether the agent may push."""

    url: str
    verifier_id: str
    entries: Mapping[str, Entry]
    pushes: bool


def read_card(body: bytes) -> shapes.Card:
    """Read an agent's card. Raises `AnswerError`."""
    try:
        check_amount(body)
        check_text(body)
        return msgspec.json.decode(body, type=shapes.Card)
    except (FrameError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise AnswerError("the card is not one of A2A 1.0") from None


def shown_card(card: shapes.Card, terms: CardTerms, granted: Collection[str] | None = None) -> shapes.Card:
    """Return a card as a client sees it. `granted` are the scopes of its proof, None without one."""
    skills = card.skills or []
    if granted is not None:
        skills = [each for each in skills if _covers(each.id, terms, granted)]
    capabilities = replace(
        card.capabilities,
        extensions=[*_other_extensions(card), _extension(terms)],
        push_notifications=card.capabilities.push_notifications if terms.pushes else UNSET,
    )
    return replace(
        card,
        capabilities=capabilities,
        supported_interfaces=[shapes.Interface(url=terms.url, protocol_binding="JSONRPC", protocol_version=VERSION)],
        security_schemes={**(card.security_schemes or {}), SCHEME: _scheme(terms)},
        security_requirements=_with_proof(card.security_requirements) or [_proof_alone()],
        skills=[replace(each, security_requirements=_with_proof(each.security_requirements)) for each in skills],
    )


class PublicCard:
    """An agent's public card, for requests without a proof. It is encoded only once, as anybody may ask for it. Its URL
    is put in for each request, since the gateway's host may have several names."""

    def __init__(self, card: shapes.Card, terms: CardTerms) -> None:
        """The `url` of `terms` does not matter."""
        place = secrets.token_hex(16)
        text = to_json(shown_card(card, terms._replace(url=place)))
        self._before, _, self._after = text.partition(to_json(place))

    def at(self, url: str) -> bytes:
        """Return the card's text, with this URL of the agent."""
        return self._before + to_json(url) + self._after


def _covers(skill: str, terms: CardTerms, granted: Collection[str]) -> bool:
    return terms.entries.get(skill, terms.entries[""]).allows(granted)


def _with_proof(requirements: "list[shapes.Schemes] | UnsetType") -> "list[shapes.Schemes] | UnsetType":
    """Add the proof to each of the alternative security requirements."""
    if not requirements:
        return UNSET
    return [replace(each, schemes={**each.schemes, SCHEME: Raw(b"{}")}) for each in requirements]


def _proof_alone() -> shapes.Schemes:
    return shapes.Schemes(schemes={SCHEME: Raw(b"{}")})


def _scheme(terms: CardTerms) -> Raw:
    told = f"A Ratify proof for {terms.verifier_id}, bound to each request"
    return Raw(to_json({"apiKeySecurityScheme": {"description": told, "location": "header", "name": PROOF_HEADER}}))


def _other_extensions(card: shapes.Card) -> list[shapes.Extension]:
    return [each for each in card.capabilities.extensions or () if each.uri != EXTENSION]


def _extension(terms: CardTerms) -> shapes.Extension:
    scopes = {name: [each.scope for each in entry.also] for name, entry in terms.entries.items() if name}
    said = {
        "verifier_id": terms.verifier_id,
        "workspace_id": WORKSPACES["a2a"],
        "scope": terms.entries[""].scope,
        "skills": scopes,
    }
    return shapes.Extension(
        uri=EXTENSION, description="What a proof is made for", required=False, params=Raw(to_json(said))
    )
