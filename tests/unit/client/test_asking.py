"""What an ask says comes from the call and the refusal, and only where a person could help."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import GATEWAY, Trust

from accredit.client import ProofPresenter
from accredit.client.asking import Asking
from accredit.client.refusals import mark_uncovered
from accredit.consent.asks import Ask, check_ask
from accredit.console.client import desk_runs
from accredit.errors import ProofRefused
from accredit.keys import SigningKey
from accredit.limits import MAX_SERVER_WORDS_BYTES
from accredit.refusals import BY_WORD

pytestmark = pytest.mark.holds("client/asking", "when")

URL = "http://127.0.0.1:8484/mcp"
NOW = 1_800_000_000


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asking(trust: Trust, clock: Clock) -> Asking:
    key = SigningKey(trust.agent.public(), trust.agent.signer())
    presenter = ProofPresenter(key, [trust.chain("email:read")], gateway_id=GATEWAY, may_ask=True)
    return Asking(presenter, URL, [Path("/nowhere")], 50, clock=clock)


def request(params: dict[str, Any], method: str = "tools/call") -> tuple[str, dict[str, Any]]:
    return method, params


def refused(word: str = "ratify_scope_denied", **data: Any) -> ProofRefused:
    told = {"error": word, "required_scope": "email:send", "granted_scope": ["email:read"], "reason": "because"} | data
    return ProofRefused(told, "refused", BY_WORD[word].code)


def asked(found: Ask | str) -> Ask:
    assert isinstance(found, Ask), found
    return found


def test_an_ask_has_the_call_without_what_belongs_to_one_leg(trust: Trust, asking: Asking) -> None:
    call = {"name": "send_email", "arguments": {"to": "ada"}}
    leg = {"_meta": {"progressToken": 1}, "requestState": "s", "inputResponses": {}}
    ask = asked(asking.ask_for(*request(call | leg), refused()))
    check_ask(ask, NOW)
    assert (ask.params, ask.agent_id, ask.principals) == (call, trust.agent.id, (trust.owner.id,))
    assert (ask.gateway.id, ask.gateway.url) == (GATEWAY, URL)
    assert (ask.refusal.error, ask.refusal.required_scope) == ("ratify_scope_denied", "email:send")
    assert (ask.refusal.granted_scope, ask.refusal.reason) == (("email:read",), "because")


def test_the_same_call_has_the_same_ask_and_another_one_its_own(asking: Asking) -> None:
    first = asking.ask_for(*request({"name": "send_email", "arguments": {"a": 1, "b": 2}}), refused())
    assert asking.ask_for(*request({"arguments": {"b": 2.0, "a": 1}, "name": "send_email"}), refused()) is first
    assert asking.ask_for(*request({"name": "send_email", "arguments": {"a": 1}}), refused()) != first


def test_an_ask_is_used_again_though_its_end_is_past__the_person_may_have_kept_it_open(
    asking: Asking, clock: Clock
) -> None:
    first = asked(asking.ask_for(*request({"name": "send_email"}), refused()))
    clock.now = first.expires_at + 1
    assert asking.ask_for(*request({"name": "send_email"}), refused()) is first


@pytest.mark.parametrize("said", ["d" * 64, None, 7, "D" * 64, "d" * 63, ["d" * 64], "d" * 64 + "\n"])
def test_a_definition_is_taken_over_only_where_it_is_a_digest(said: object, asking: Asking) -> None:
    ask = asked(asking.ask_for(*request({"name": "x"}), refused(definition=said)))
    assert (ask.refusal.definition or None) == (said if said == "d" * 64 else None)
    check_ask(ask, NOW)


@pytest.mark.parametrize("change", [{"definition": "e" * 64}, {"definition": None}, {"required_scope": "email:read"}])
def test_an_ask_is_another_one_where_what_would_be_signed_is(change: dict[str, Any], asking: Asking) -> None:
    told = {"definition": "d" * 64}
    first = asked(asking.ask_for(*request({"name": "x"}), refused(**told)))
    assert asking.ask_for(*request({"name": "x"}), refused(**told)) is first
    assert asked(asking.ask_for(*request({"name": "x"}), refused(**told | change))).id != first.id


def test_a_message_that_turns_out_to_need_several_scopes_is_asked_about_anew(asking: Asking) -> None:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    first = asked(asking.ask_about("SendMessage", "", params, refused()))
    both = ("email:send", "email:read")
    assert asked(asking.ask_about("SendMessage", "", params, refused(), scopes=both)).refusal.scopes == both
    assert asked(asking.ask_about("SendMessage", "", params, refused())).id != first.id


@pytest.mark.parametrize("word", [word for word, row in BY_WORD.items() if not row.grant_helps])
def test_nobody_is_asked_for_what_no_delegation_would_allow(word: str, asking: Asking) -> None:
    assert asking.ask_for(*request({"name": "send_email"}), refused(word)) == ""


@pytest.mark.parametrize(
    ("method", "params", "data"),
    [
        ("tools/list", {}, {}),
        ("tasks/cancel", {"taskId": "t"}, {}),
        ("tools/call", {"name": "x"}, {"required_scope": None}),
        ("tools/call", {"name": "x"}, {"required_scope": "*"}),
        ("tools/call", {"name": "x"}, {"required_scope": ["email:send"]}),
    ],
)
def test_only_calls_with_a_scope_are_asked_for(method: str, params: Any, data: Any, asking: Asking) -> None:
    assert asking.ask_for(*request(params, method), refused(**data)) == ""


def test_a_person_whom_the_gateway_does_not_trust_is_not_asked(asking: Asking) -> None:
    assert asking.ask_for(*request({"name": "x"}), refused("ratify_untrusted_root")) == ""


@pytest.mark.parametrize("arguments", [{"x": 2**53}, {"a": 1, "A": 2}, {"x": "y" * 65_536}, {"x": "\ud800"}])
def test_what_can_t_be_signed_or_shown_says_so(arguments: Any, asking: Asking) -> None:
    told = asking.ask_for(*request({"name": "send_email", "arguments": arguments}), refused())
    assert isinstance(told, str)
    assert told.startswith("Nobody can be asked for this call: ")


@pytest.mark.parametrize(
    ("params", "largest"),
    [
        ({"name": "send_email", "arguments": {"to": "ada", "body": "y" * 70_000}}, "body, with 70,008 bytes"),
        ({"name": "send_email", "arguments": {"a": ["x" * 40_000], "b": "z" * 30_000}}, "a, with 40,007 bytes"),
        ({"name": "s" * 70_000}, "name, with 70,008 bytes"),
        ({"name": "send_email", "arguments": ["x" * 70_000]}, "arguments, with 70,015 bytes"),
        ({"name": "x", "arguments": {"\x1b[31m\n" + "k" * 70_000: 1}}, "kkk, with 70,0"),
    ],
)
def test_what_is_too_large_to_be_asked_about_is_named__with_what_to_do(
    params: Any, largest: str, asking: Asking
) -> None:
    told = asking.ask_for(*request(params), refused())
    assert isinstance(told, str)
    assert "and a person is asked about at most 65,536. The largest argument is " in told
    assert largest in told
    assert "send less of it, or in several calls" in told
    assert told.isprintable()
    assert len(told) < 500


@pytest.mark.parametrize("text", ["Sends a message.", "\x00" * 2_000, "\U0001f600" * 2_000, "\ud800", '"' * 2_000])
def test_the_server_s_words_are_repeated_within_their_bound(text: str, asking: Asking) -> None:
    tool: dict[str, Any] = {"name": "x", "title": text, "description": text, "_meta": {"ratify_scope": "a:b"}}
    hints = {"readOnlyHint": True, "destructiveHint": "yes", "own": True}
    asking.learn("tools/list", {"tools": [mark_uncovered(tool) | {"annotations": hints}, None, {"name": 7}]})
    words = json.loads(asked(asking.ask_for(*request({"name": "x"}), refused())).encode())["server_says"]
    assert len(json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode()) <= MAX_SERVER_WORDS_BYTES
    assert words["annotations"] == {"readOnlyHint": True}
    assert text.encode("utf-8", "replace").decode().startswith(words["description"])
    assert words["description"]


def test_a_path_without_a_desk_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not desk_runs([tmp_path / "file", tmp_path / "nothing", Path("/nowhere/at/all")])
