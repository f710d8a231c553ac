"""A client finds on the card the way through the gateway and no other, and only skills that it may use."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.a2a import CATALOG

from accredit.a2a.cards import EXTENSION, SCHEME, CardTerms, read_card, shown_card
from accredit.errors import AnswerError

URL = "https://gate.example/agents/helper"
TERMS = CardTerms(URL, "mail-gateway/helper", CATALOG.routes, pushes=False)


def card(**more: object) -> bytes:
    skills = [{"id": id, "name": id, "description": "", "tags": ["mail"]} for id in ("summarize", "wipe", "chat")]
    return msgspec.json.encode(
        {
            "name": "Helper",
            "description": "Helps",
            "version": "1",
            "supportedInterfaces": [
                {"url": "http://10.0.0.5:9000", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "acme"}
            ],
            "capabilities": {"streaming": True, "pushNotifications": True, "extensions": [{"uri": "urn:other"}]},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": skills,
            "signatures": [{"protected": "a", "signature": "b"}],
            "url": "http://10.0.0.5:9000",
            "additionalInterfaces": [{"url": "http://10.0.0.5:9001", "transport": "GRPC"}],
            **more,
        }
    )


def shown(body: bytes, terms: CardTerms = TERMS, granted: Any = None) -> Any:
    return msgspec.json.decode(msgspec.json.encode(shown_card(read_card(body), terms, granted)))


@pytest.mark.holds("a2a/cards", "here", "unsigned", "read-again", "pushes")
def test_a_card_names_the_gateway_alone() -> None:
    found = shown(card())
    assert found["supportedInterfaces"] == [{"url": URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    assert "10.0.0.5" not in str(found)
    assert {"signatures", "url", "additionalInterfaces"}.isdisjoint(found)
    assert "pushNotifications" not in found["capabilities"]
    assert shown(card(), TERMS._replace(pushes=True))["capabilities"]["pushNotifications"] is True


@pytest.mark.holds("a2a/cards", "proof")
def test_a_card_says_that_a_proof_is_needed__and_what_it_is_made_for() -> None:
    found = shown(card())
    assert found["securitySchemes"][SCHEME]["apiKeySecurityScheme"]["name"] == "Ratify-Proof"
    assert found["securityRequirements"] == [{"schemes": {SCHEME: {}}}]
    (other, own) = found["capabilities"]["extensions"]
    assert other == {"uri": "urn:other"}
    assert own["uri"] == EXTENSION
    assert own["params"] == {
        "verifier_id": "mail-gateway/helper",
        "workspace_id": "accredit/a2a/v1",
        "scope": "email:read",
        "skills": {"summarize": ["email:send"], "wipe": ["comms:email:delete"]},
    }
    theirs = {
        "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X"}}, SCHEME: {"a": 1}},
        "securityRequirements": [{"schemes": {"key": {"list": ["a"]}}}, {"schemes": {}}],
    }
    both = shown(card(**theirs))
    assert sorted(both["securitySchemes"]) == ["key", SCHEME]
    assert both["securitySchemes"][SCHEME] == found["securitySchemes"][SCHEME]
    assert both["securityRequirements"] == [
        {"schemes": {"key": {"list": ["a"]}, SCHEME: {}}},
        {"schemes": {SCHEME: {}}},
    ]


@pytest.mark.holds("a2a/cards", "skills")
def test_a_proof_leaves_the_skills_that_it_covers() -> None:
    def skills(*granted: str) -> list[str]:
        return [skill["id"] for skill in shown(card(), granted=granted)["skills"]]

    assert [skill["id"] for skill in shown(card())["skills"]] == ["summarize", "wipe", "chat"]
    assert skills("email:read", "email:send") == ["summarize"]
    assert skills("email:read", "email:send", "comms:email:delete") == ["summarize", "wipe", "chat"]
    assert skills("email:send") == []


@given(st.binary(max_size=40), st.integers(0, 900), st.integers(0, 40))
def test_no_bytes_raise_anything_but_an_invalid_answer(noise: bytes, at: int, cut: int) -> None:
    good = card()
    for body in (noise, good[:at] + noise + good[at + cut :]):
        try:
            found = shown(body)
        except AnswerError:
            continue
        assert found["supportedInterfaces"][0]["url"] == URL
