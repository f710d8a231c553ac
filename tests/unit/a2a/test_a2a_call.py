"""A proof for a request to an agent is good for that request alone, and a message needs what its skill needs."""

from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, NOW
from tests.world.a2a import CATALOG, SCOPE, a2a_call, message, send
from tests.world.decisions import Deployment, call, draw, finished, granted, prove, with_proof

from accredit.a2a.call import card_call
from accredit.http_api.call import HttpCall
from accredit.http_api.wire import encode_proof_header
from accredit.policy.agent_call import AgentCall
from accredit.policy.decide import decide
from accredit.policy.decision import Decision, drive
from accredit.policy.quotas import Quota, Quotas
from accredit.policy.tasks import Owner, TaskScope, encode_task_facts, task_key
from accredit.ports import Task
from accredit.ratify import encode_proof_bundle
from accredit.stores import Tasks

pytestmark = pytest.mark.holds("policy/agent_call")

VERIFIER = "mail-gateway/helper"
PLACE = TaskScope("helper|a2a", "helper")


class Agent(Deployment):
    """A deployment of one agent, with what is remembered of its tasks."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(verifier_id=VERIFIER, catalog=CATALOG, binding_required=True, server="helper", **changes)
        self.tasks = Tasks()

    def decides(self, call: AgentCall, now: int = NOW) -> Decision:  # pyright: ignore[reportIncompatibleMethodOverride]
        steps = decide(call, self.policy, now, place=PLACE)
        return finished(drive(steps, self.store, self.known, now, self.tasks))

    def has(self, id: str, skill: str = "", owner: Owner | None = None) -> None:
        who = owner or Owner(HUMAN.id, AGENT.id)
        made = Task(who.at("helper"), "SendMessage", skill, encode_task_facts({}, b"", None, ()), "")
        finished(self.tasks.keep(task_key(PLACE.name, id), made, keep_until=NOW + 100, now=NOW))


def scope_of(asked: AgentCall) -> str:
    return SCOPE if asked.sends or asked.changes_task else ""


def proven(asked: AgentCall, *scopes: str, challenge: bytes | None = None, **more: Any) -> AgentCall:
    chain = granted(*scopes) if scopes else None
    how: dict[str, Any] = {"scope": scope_of(asked), "verifier": VERIFIER, **more}
    found = with_proof(asked, prove(chain, to=asked, challenge=challenge, **how))
    assert isinstance(found, AgentCall)
    return found


def issued(agent: Agent, asked: AgentCall) -> bytes:
    expires_at = NOW + agent.policy.challenge_seconds
    hashed = agent.policy.server.encode()
    request = sha256(
        b"accredit server 1\0" + hashed + b"\0" + asked.request_hash(SCOPE if asked.sends else "")
    ).digest()
    return finished(agent.store.issue(request, expires_at=expires_at)).challenge


def test_a_proof_for_a_message_allows_it_once() -> None:
    agent = Agent()
    asked = proven(a2a_call(params=send(skill="summarize")))
    assert agent.error(asked) == ""
    assert agent.error(asked) == "ratify_replayed"


@pytest.mark.holds("a2a/call", "binding")
@pytest.mark.parametrize(
    "other",
    [
        a2a_call(params=send("bye", "summarize")),
        a2a_call("SendStreamingMessage", send(skill="summarize")),
        a2a_call(params=send(skill="summarize", contextId="c")),
        a2a_call(params=send(skill="summarize", metadata={"more": 1})),
    ],
)
def test_it_is_good_for_no_other_request(other: AgentCall) -> None:
    asked = proven(a2a_call(params=send(skill="summarize")))
    assert Agent().error(replace(other, proof=asked.proof)) == "ratify_invalid"


@pytest.mark.holds("a2a/call", "binding")
def test_it_is_good_at_no_other_agent__and_for_no_other_scope() -> None:
    asked = a2a_call(params=send(skill="summarize"))
    others: list[Any] = [{"verifier": "mail-gateway/other"}, {"verifier": "mail-gateway"}, {"scope": "email:send"}]
    for elsewhere in others:
        assert Agent().error(proven(asked, **elsewhere)) == "ratify_invalid"


@pytest.mark.holds("a2a/call", "label")
def test_a_proof_for_one_protocol_is_good_at_no_other__in_both_directions() -> None:
    asked = a2a_call(params=send(skill="summarize"))
    listing = call("list_inbox")
    twin = call("summarize", method="tools/call")
    http = HttpCall("SendMessage", "", "", asked.digest, {}, None, protocol="http", requested_path="/agents/helper")
    # MCP's (bound, unbound, and with the same members) and HTTP's at the agent
    same = replace(twin, method="SendMessage", digest=asked.digest)
    for to in (listing, twin, same, http, replace(http, protocol="authorize"), replace(http, requested_path="")):
        proof = prove(granted(), to=to, scope=SCOPE, verifier=VERIFIER)
        assert Agent().error(with_proof(asked, proof)) == "ratify_invalid"  # pyright: ignore[reportArgumentType]
    assert Agent().error(with_proof(asked, prove(granted()))) == "ratify_invalid"  # pyright: ignore[reportArgumentType]
    # the agent's at MCP and HTTP
    mcp = Deployment(verifier_id=VERIFIER)
    for to in (listing, same, http):
        proof = prove(granted(), to=asked, scope=SCOPE, verifier=VERIFIER)
        assert mcp.error(with_proof(to, proof)) in ("ratify_invalid", "unknown_route", "unknown_skill")
    assert mcp.error(with_proof(listing, prove(granted(), to=asked, scope="email:read", verifier=VERIFIER))) == (
        "ratify_invalid"
    )


@pytest.mark.holds("a2a/call", "one-proof")
def test_a_proof_is_in_the_header_or_in_the_metadata__and_two_that_differ_are_invalid() -> None:
    asked = a2a_call(params=send(skill="summarize"))
    texts = [
        encode_proof_header(encode_proof_bundle(prove(to=asked, scope=SCOPE, verifier=VERIFIER))) for _ in range(2)
    ]

    def with_metadata(text: object, *headers: bytes) -> AgentCall:
        params = send(skill="summarize", metadata={"com.ratifyprotocol/proof": text})
        return a2a_call(params=params, proofs=headers)

    def error(found: AgentCall) -> str:
        return Agent().error(found)

    assert error(with_metadata(texts[0].decode())) == ""
    assert error(a2a_call(params=send(skill="summarize"), proofs=texts[:1])) == ""
    assert error(with_metadata(texts[0].decode(), texts[0])) == ""
    assert error(with_metadata(texts[0].decode(), texts[1])) == "ratify_invalid"
    assert error(a2a_call(params=send(skill="summarize"), proofs=texts)) == "ratify_invalid"
    for none in ("", texts[0].decode() + "=", {"challenge": 1}, 5):
        assert error(with_metadata(none)) == "ratify_invalid"
    assert error(a2a_call(params=send(skill="summarize"))) == "missing_ratify_proof"


@pytest.mark.holds("a2a/call", "skill")
def test_a_message_needs_its_skill_s_scope__and_one_without_a_skill_needs_all() -> None:
    def error(skill: str, *scopes: str) -> str:
        agent = Agent()
        asked = a2a_call(params=send(skill=skill))
        entry = CATALOG.find("SendMessage", skill)
        challenge = issued(agent, asked) if entry is not None and entry.sensitive else None
        return agent.error(proven(asked, *scopes, challenge=challenge))

    assert error("summarize", "email:read", "email:send") == ""
    assert error("summarize", "email:read") == "ratify_scope_denied"
    assert error("summarize", "email:send") == "ratify_scope_denied"
    assert error("wipe", "email:read", "comms:email:delete") == ""
    assert error("wipe", "email:read", "email:send") == "ratify_scope_denied"
    assert error("", "email:read", "email:send", "comms:email:delete") == ""
    assert error("", "email:read", "email:send") == "ratify_scope_denied"
    assert error("unknown", "email:read", "email:send", "comms:email:delete") == "unknown_skill"


@pytest.mark.holds("a2a/call", "skill")
def test_a_sensitive_skill_needs_a_challenge_of_the_gateway__also_where_no_skill_is_named() -> None:
    assert Agent().error(proven(a2a_call(params=send(skill="wipe")))) == "ratify_challenge_required"
    assert Agent().error(proven(a2a_call())) == "ratify_challenge_required"
    assert Agent().error(proven(a2a_call(params=send(skill="summarize")))) == ""


@pytest.mark.holds("a2a/call", "own")
def test_a_task_is_its_owner_s__with_one_answer_for_every_cause() -> None:
    agent = Agent()
    agent.has("mine", "summarize")
    agent.has("theirs", "summarize", Owner(HUMAN.id, "somebody"))
    for method in ("GetTask", "SubscribeToTask", "CancelTask"):
        assert agent.error(proven(a2a_call(method, {"id": "mine"}))) == ""
        told = [agent.decides(proven(a2a_call(method, {"id": id}))).refusal for id in ("theirs", "nobody's")]
        assert [error and (error.error, str(error.data)) for error in told] == [
            ("unknown_task", str({"error": "unknown_task", "method": method, "_meta": {}}))
        ] * 2
    named: list[Any] = [{"taskId": "theirs"}, {"referenceTaskIds": ["mine", "theirs"]}]
    for more in named:
        assert agent.error(proven(a2a_call(params=send(skill="summarize", **more)))) == "unknown_task"
    assert agent.error(proven(a2a_call(params=send(skill="summarize", referenceTaskIds=["mine"])))) == ""
    push = {"url": "https://a.example", "taskId": "theirs"}
    configured = {**send(skill="summarize"), "configuration": {"taskPushNotificationConfig": push}}
    assert agent.error(proven(a2a_call(params=configured))) == "unknown_task"


@pytest.mark.holds("a2a/call", "continued")
def test_a_message_that_goes_on_with_a_task_needs_what_that_task_needed() -> None:
    agent = Agent()
    agent.has("t", "wipe")
    more = send(skill="summarize", taskId="t")
    assert agent.error(proven(a2a_call(params=more))) == "ratify_challenge_required"
    asked = a2a_call(params=more)
    less = proven(asked, "email:read", "email:send", challenge=issued(agent, asked))
    assert agent.error(less) == "ratify_scope_denied"
    assert agent.error(proven(asked, challenge=issued(agent, asked))) == ""
    cancel = a2a_call("CancelTask", {"id": "t"})
    assert agent.error(proven(cancel)) == "ratify_challenge_required"
    assert agent.error(proven(cancel, challenge=issued(agent, cancel))) == ""
    assert agent.error(proven(cancel, "email:read", challenge=issued(agent, cancel))) == "ratify_scope_denied"


def test_quotas_count_messages__and_nothing_else() -> None:
    quota = Quota(by="agent", tools=frozenset({"*"}), window_s=60, window="60s", most=1)
    agent = Agent(quotas=Quotas((quota,), "helper"))
    asked = a2a_call(params=send(skill="summarize"))
    listing = a2a_call("ListTasks", {})
    errors = [agent.error(proven(each)) for each in (listing, asked, listing, asked)]
    assert errors == ["", "", "", "quota_exceeded"]


def test_the_extended_card_needs_a_proof__and_the_public_one_does_not() -> None:
    assert Agent().error(a2a_call("GetExtendedAgentCard", {})) == "missing_ratify_proof"
    assert Agent().error(proven(a2a_call("GetExtendedAgentCard", {}))) == ""
    assert Agent().error(card_call(())) == ""
    assert Agent().error(proven(card_call(()))) == ""
    assert Agent().error(card_call((b"x",))) == "ratify_invalid"


def test_a_constraint_sees_the_message() -> None:
    found = a2a_call(params={"message": message("to all"), "metadata": {"dev.accredit/skill": "summarize"}})
    assert found.arguments == {"message": message("to all"), "metadata": {"dev.accredit/skill": "summarize"}}
    assert found.proof_place.startswith("the header Ratify-Proof")
    assert draw() != draw()
