"""An ask as a person reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.asked import GATEWAY, NOW, WORLD, a_message, a_request, an_ask

from accredit.base.text import date_time
from accredit.consent.asks import Ask, AskedGateway, AskedRefusal, Asker, ServerWords
from accredit.consent.offers import choices, offers_for
from accredit.console.desk import Choice, signed_certificate
from accredit.console.views import Circumstances, describe, preview
from accredit.errors import AskError
from accredit.pins.shown import visible_text

pytestmark = pytest.mark.holds("console/views")
NAMES = {WORLD.agent.id: "Assistant", GATEWAY: "mail"}


def circumstances(**changes: object) -> Circumstances:
    members: dict[str, object] = {"person": "Ada", "person_id": WORLD.owner.id, "names": NAMES, "until": NOW + 600}
    return Circumstances(**members | changes)  # type: ignore[arg-type]


@pytest.mark.holds("console/views", "order")
def test_the_persons_names_stand_as_they_are__and_those_that_others_give_themselves_are_quoted() -> None:
    known, unknown = circumstances(is_new=False), circumstances(names={})
    assert describe(an_ask(), known).title == "Assistant asks to call send_email on “mail”"
    title = describe(an_ask(agent=Asker("Ada", WORLD.agent.public_key)), unknown).title
    assert (
        title == "An agent that calls itself “Ada” asks to call send_email on the gateway at http://127.0.0.1:8484/mcp"
    )


@pytest.mark.holds("console/views", "order")
def test_a_request_and_a_message_say_which_api_or_agent_at_which_gateway() -> None:
    gateway = AskedGateway("9f0c2d11aabbccdd/mail", "http://127.0.0.1:8484")
    for ask, title, first in (
        (a_request(gateway=gateway), "POST /api/mail/messages/7/send", "POST /messages/{id}/send"),
        (a_message("summarize", gateway=gateway), "send a message for summarize", "send a message for summarize"),
        (a_message(gateway=gateway), "send a message for any skill", "send a message for any skill"),
    ):
        described = describe(ask, circumstances(is_new=False))
        assert described.title == f"Assistant asks to {title} on the gateway at http://127.0.0.1:8484"
        assert described.warnings[0].text == f"this agent was not allowed at this desk to {first} before."
        facts = {each.label: each for each in described.who}
        assert facts["gateway"].note == "so the agent says; 9f0c2d11aabb…/mail, which has no name yet"
    assert "it needs custom:ask and comms:email:send, " in facts["refused because"].text
    named = describe(a_request(gateway=gateway), circumstances(names={**NAMES, gateway.id: "my mail"}))
    assert named.title.endswith(" on “my mail”")


def test_a_body_that_is_not_shown_is_told_as_such() -> None:
    told = [each.lead for each in describe(a_request(body=b"\xff"), circumstances()).warnings]
    assert "Not shown:" in told
    assert "Not shown:" not in [each.lead for each in describe(a_request(), circumstances()).warnings]


@pytest.mark.holds("console/views", "order")
def test_no_name_that_others_chose_goes_on_with_our_words() -> None:
    ask = an_ask(
        {"name": "read_mail on “bank”, which you know", "arguments": {}},
        agent=Asker("Helper” asks to call read_mail on “mail", WORLD.agent.public_key),
        gateway=AskedGateway("x, only arguments with SHA-256 00", "your bank (checked by accredit)"),
        refusal=AskedRefusal("ratify_scope_denied", "mcp:tool", ("all; safe",), "harmless) (says accredit"),
        server_says=ServerWords("", "Fine” · says accredit · “", {}),
    )
    described = describe(ask, circumstances(names={}))
    asks, _, rest = described.title.partition("” asks to call ")
    assert asks.count("“") == 1
    assert "”" not in asks
    target, _, place = rest.partition(" on the gateway at ")
    assert (" " in target, " " in place) == (False, False)
    facts = {each.label: each for each in described.who}
    assert facts["refused because"].note == "“harmless) (says accredit”"
    told = "it needs mcp:tool, and what the agent has shown allows all;⟨U+0020⟩safe (so the agent says)"
    assert facts["refused because"].text == told
    assert facts["gateway"].note.startswith("so the agent says; ")
    assert described.server_says.count("“") == described.server_says.count("”") == 1
    (offer,) = choices(ask, is_new=circumstances().is_new)
    signs = dict(preview(offer, ask, circumstances(names={}), NOW, 0, 0))
    assert 'only at gateway "x, only arguments with SHA-256 00", only tools/call "read_mail' in signs["constraints"]


@pytest.mark.holds("console/views", "order")
@pytest.mark.parametrize("name", ["Assistant", "\u0410ssistant", "assistant", "Ass1stant".replace("1", "\u0456")])
def test_an_agent_that_takes_another_ones_name_is_told(name: str) -> None:
    ask = an_ask(agent=Asker(name, WORLD.agent.public_key))
    told = describe(ask, circumstances(names={"x": "Assistant"}))
    assert any("your name for another key" in each.text for each in told.warnings)


@pytest.mark.holds("console/views", "order")
def test_what_the_server_says_lowers_no_caution() -> None:
    soothing = ServerWords("Safe", "Only reads.", {"readOnlyHint": True, "destructiveHint": False})
    alarming = ServerWords("", "x", {"destructiveHint": True, "openWorldHint": True})
    assert describe(an_ask(server_says=soothing), circumstances()).server_says == "“Safe” · “Only reads.”"
    text = describe(an_ask(server_says=alarming), circumstances()).server_says
    assert text == "“x” · says that it can destroy things · says that it reaches other systems"


def test_first_times_are_told() -> None:
    def leads(**changes: object) -> list[str]:
        return [f"{each.lead} {each.text}" for each in describe(an_ask(), circumstances(**changes)).warnings]

    assert leads()[0].startswith("New: nothing was allowed at this desk yet")
    assert leads(is_new=False) == ["First time: this agent was not allowed at this desk to call send_email before."]
    with_to = leads(is_new=False, is_first=False, first_values=("to",))
    assert with_to == ["First time: this agent was not allowed at this desk to call send_email with this “to” before."]
    assert leads(is_new=False, is_first=False) == []


@pytest.mark.holds("console/views", "order")
def test_what_is_not_known_of_an_agent_is_not_said__a_grant_signed_elsewhere_is_not_in_the_journal() -> None:
    told = describe(an_ask(refusal=AskedRefusal("x", "custom:mail:send_email", ("identity:prove",))), circumstances())
    said = [*(each.text for each in told.warnings), *(each.text for each in told.who)]
    assert not any("nothing was allowed to this agent" in each or "this agent has" in each for each in said)
    assert "what was signed elsewhere (`accredit grant`) is not known here" in " ".join(said)
    assert "what the agent has shown allows identity:prove (so the agent says)" in " ".join(said)


@pytest.mark.slow
@pytest.mark.holds("console/views", "safe-text")
@given(text=st.text(max_size=60))
def test_every_text_is_fit_to_be_shown(text: str) -> None:
    try:
        ask = an_ask(
            {"name": text or "x", "arguments": {text: text}},
            agent=Asker(text, WORLD.agent.public_key),
            gateway=AskedGateway(GATEWAY, text),
            server_says=ServerWords(text, text),
        )
    except AskError:  # lone surrogates are no text
        return
    told = describe(ask, circumstances(names={}, started_by=text))
    facts = [part for fact in told.who for part in (fact.label, fact.text, fact.note)]
    warned = [part for each in told.warnings for part in (each.lead, each.text)]
    for each in (told.title, told.server_says, told.refused, *facts, *warned):
        assert all(char.isprintable() for char in each), each
        assert not set(each) & set("\u202e\u200b\u00ad")


@pytest.mark.holds("console/views", "preview")
@pytest.mark.parametrize(("key", "calls", "seconds"), [("once", 0, 0), ("like", 0, 0), ("like", 3, 600)])
def test_what_is_told_is_what_is_signed(key: str, calls: int, seconds: int) -> None:
    ask, known = an_ask(), circumstances(is_new=False)
    offer = next(each for each in offers_for(ask, is_new=False) if each.key == key)
    told = dict(preview(offer, ask, known, NOW, calls, seconds))
    cert = signed_certificate(WORLD.owner.signer(), ask, offer, Choice(key, calls, seconds), NOW)
    assert told["from"] == f"Ada ({cert.issuer_id})"
    assert told["to"] == f"Assistant ({cert.subject_id})"
    assert told["scopes"] == ", ".join(map(visible_text, cert.scope))
    call = cert.constraints[0].members()["params"]
    assert isinstance(call, dict)
    digests = [call["params_sha256"]] if key == "once" else [each[0] for each in call["args"].values()]
    assert all(each in told["constraints"] for each in digests)
    assert f"at most {calls or offer.max_calls} call" in told["constraints"]


def test_of_what_can_t_be_allowed_here_there_is_no_choice() -> None:
    ask: Ask = an_ask({"name": "a<b", "arguments": {}})
    assert choices(ask, is_new=circumstances().is_new) == ()
    assert "accredit grant" in describe(ask, circumstances()).refused


def test_a_time_of_no_year_is_shown_as_a_number__and_ends_no_page() -> None:
    assert date_time(0) == "1970-01-01T00:00:00Z"
    assert date_time(2**53) == f"{2**53} s after 1970"
