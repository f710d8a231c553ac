"""What goes with a request, and what a refusal leads to. The gateway is the real decision, in memory."""

import base64
import json
from typing import Any, Literal

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.world.authorization import CATALOG, GATEWAY, SCOPES, Trust
from tests.world.decisions import finished

from accredit.base.clock import unix_seconds
from accredit.base.steps import at_one_go
from accredit.base.values import items_of
from accredit.client import ProofPresenter
from accredit.client.pins import GATEWAY_CHANGED
from accredit.client.proving import Prover
from accredit.errors import ProofRefused
from accredit.jsonrpc.frames import Success, decode_frame
from accredit.keys import SigningKey
from accredit.limits import MAX_KNOWN_TARGETS
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decide import decide
from accredit.policy.decision import Policy, drive
from accredit.policy.guarded_call import guarded_call_from_values
from accredit.policy.lists import KINDS, ListView, rewrite_list
from accredit.policy.tasks import Owner, task_key
from accredit.ports import Task
from accredit.refusals import DENIED, MISSING
from accredit.stores import MemoryStore, RevocationLists, Tasks

Params = dict[str, Any]
SESSION = "5e551017"
PLACE = "http://gateway.example/mcp"


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust()


class Judge:
    """A gateway that decides, without the wire."""

    def __init__(self, trust: Trust, session: str = SESSION, **policy: Any) -> None:
        self.policy: Policy = trust.policy(**({"binding_required": True} | policy))
        self.session = session
        self._store = MemoryStore()
        self._tasks = Tasks()

    def knows(self, id: str, tool: str, trust: Trust) -> None:
        """A task that a call of the agent's has become."""
        task = Task(Owner(trust.owner.id, trust.agent.id).at(""), "tools/call", tool, b"{}", "flow")
        finished(self._tasks.keep(task_key("", id), task, keep_until=unix_seconds() + 60, now=unix_seconds()))

    def refusal(self, method: str, params: Params) -> ProofRefused | None:
        proof = params.get("_meta", {}).get("ratify_proof")
        raw = None if proof is None else Raw(json.dumps(proof).encode())
        now = unix_seconds()
        steps = decide(guarded_call_from_values(method, params, self.session, raw), self.policy, now)
        return finished(drive(steps, self._store, RevocationLists((), {}), now, self._tasks)).refusal


def prover(
    trust: Trust,
    *grants: tuple[str, ...],
    gateway_id: str = "",
    url: str = PLACE,
    binding: Literal["required", "none"] = "required",
    **options: Any,
) -> Prover:
    chains = [trust.chain(*scopes) for scopes in (grants or ((),))]
    key = SigningKey(trust.agent.public(), trust.agent.signer())
    presenter = ProofPresenter(key, chains, gateway_id=gateway_id, binding=binding)
    return Prover(presenter, url, lambda: SESSION, **options)


def sent(prover: Prover, judge: Judge, method: str, params: Params) -> tuple[list[bool], ProofRefused | None]:
    """For each time that a request went out, whether it had a proof; and how it ended."""
    attempt = prover.attempt(method, params)
    assert attempt is not None
    going, proofs = prover.proved(attempt), list[bool]()
    while True:
        proofs.append("ratify_proof" in going.get("_meta", {}))  # pyright: ignore[reportOperatorIssue]
        refusal = judge.refusal(method, going)
        again = None if refusal is None else prover.again(attempt, refusal.code, dict(refusal.data))
        if again is None:
            return proofs, refusal
        going = again


def call(name: str = "list_inbox", **arguments: object) -> Params:
    return {"name": name, "arguments": arguments}


# --- a gateway that is not known yet ----------------------------------------------------------------


@pytest.mark.holds("client/proving", "guarded")
def test_a_stranger_gets_no_proof_before_it_says_who_it_is__a_proof_for_nobody_is_good_anywhere(trust: Trust) -> None:
    assert sent(prover(trust), Judge(trust), "tools/call", call()) == ([False, True], None)


@pytest.mark.holds("client/proving", "guarded")
def test_after_that_each_call_is_proved_at_once(trust: Trust) -> None:
    agent, judge = prover(trust), Judge(trust)
    sent(agent, judge, "tools/call", call())
    assert sent(agent, judge, "tools/call", call()) == ([True], None)
    assert sent(agent, judge, "resources/read", {"uri": "file:///a"}) == ([True], None)
    assert sent(agent, judge, "prompts/get", {"name": "p"}) == ([True], None)


def test_a_url_that_says_no_id_gets_no_proof__it_would_be_good_at_any_gateway(trust: Trust) -> None:
    for agent in (prover(trust), prover(trust, binding="none")):
        attempt = agent.attempt("tools/call", call())
        assert attempt is not None
        with pytest.raises(ProofRefused, match="gateway_unknown"):
            agent.again(attempt, -31001, {"required_scope": "email:read", "_meta": {}})


@pytest.mark.parametrize("claimed", [{}, {"ratify_verifier": GATEWAY}])
def test_a_server_without_a_url_or_a_name_gets_no_proof__a_transport_may_lead_anywhere(
    claimed: Params, trust: Trust
) -> None:
    agent = prover(trust, url="")
    attempt = agent.attempt("tools/call", call())
    assert attempt is not None
    with pytest.raises(ProofRefused, match=r"gateway_unknown: .* gateway_id .* known_as"):
        agent.again(attempt, -31001, {"required_scope": "email:read", "_meta": claimed})
    with pytest.raises(ProofRefused, match="gateway_unknown"):
        sent(agent, Judge(trust), "tools/call", call("send_email"))
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    shown, again = agent.listed(attempt, listing(Judge(trust)))
    assert (names(shown), again) == (list(SCOPES), None)


def test_a_server_with_a_name_is_pinned_under_it(trust: Trust) -> None:
    agent = prover(trust, url="mail")
    assert sent(agent, Judge(trust), "tools/call", call()) == ([False, True], None)
    assert sent(agent, Judge(trust), "tools/call", call()) == ([True], None)


def test_who_wrote_that_nothing_need_be_bound_has_proofs_bound_to_nothing__but_for_who_says_who_it_is(
    trust: Trust,
) -> None:
    agent = prover(trust, url="", binding="none")
    assert sent(prover(trust, url="", binding="none"), Judge(trust), "tools/call", call()) == ([False, True], None)
    attempt = agent.attempt("tools/call", call())
    assert attempt is not None
    params = agent.again(attempt, -31001, {"required_scope": "email:read", "_meta": {}})
    assert params is not None
    assert Judge(trust, binding_required=False).refusal("tools/call", params) is None


def test_a_pinned_gateway_never_gets_a_proof_that_is_bound_to_nothing(trust: Trust) -> None:
    agent = prover(trust, gateway_id=GATEWAY)
    attempt = agent.attempt("tools/call", call())
    assert attempt is not None
    params = agent.again(attempt, -31001, {"required_scope": "email:read", "_meta": {}})
    assert params is not None
    assert Judge(trust).refusal("tools/call", params) is None


@pytest.mark.parametrize("name", ["list_inbox", "send_email"])
def test_for_another_gateway_than_the_pinned_one_nothing_is_signed(name: str, trust: Trust) -> None:
    agent = prover(trust, gateway_id="another")
    with pytest.raises(ProofRefused, match="was another, and now says that it is mail-gateway") as caught:
        sent(agent, Judge(trust), "tools/call", call(name))
    assert caught.value.code == GATEWAY_CHANGED


# --- servers that answer anything -------------------------------------------------------------------


@pytest.mark.holds("client/proving", "guarded")
def test_who_names_another_scope_for_a_call_gets_no_more_proofs__it_would_pick_among_the_delegations(
    trust: Trust,
) -> None:
    agent = prover(trust, ("email:read", "email:send"), ("email:read", "email:send"), gateway_id=GATEWAY)
    attempt = agent.attempt("tools/call", call())
    assert attempt is not None
    going: Params | None = agent.proved(attempt)
    told, proofs = -1, 0
    while going is not None:
        told += 1
        proofs += "ratify_proof" in going.get("_meta", {})
        scope = "email:read" if told % 4 < 2 else "email:send"
        if told % 2:
            going = agent.again(attempt, -31003, {"error": "ratify_constraint_denied", "required_scope": scope})
            continue
        asked = {
            "challenge": base64.b64encode(bytes(32)).decode(),
            "expires_at": unix_seconds() + 60,
            "verifier_id": GATEWAY,
        }
        data = {"required_scope": scope, "_meta": {"ratify_challenge": asked}}
        going = agent.again(attempt, -31002, data)
    assert proofs == 1


# --- sensitive targets ------------------------------------------------------------------------------


@pytest.mark.holds("client/proving", "challenge")
def test_a_challenge_is_answered_without_the_caller_seeing_it(trust: Trust) -> None:
    agent, judge = prover(trust), Judge(trust)
    assert sent(agent, judge, "tools/call", call("send_email", to="x")) == ([False, True], None)
    assert sent(agent, judge, "tools/call", call("send_email", to="y")) == ([False, True], None)


def test_a_gateway_that_asks_again_and_again_is_not_answered_for_ever(trust: Trust) -> None:
    class Insatiable(Judge):
        def refusal(self, method: str, params: Params) -> ProofRefused | None:
            return super().refusal(method, {**params, "_meta": {}})

    proofs, refusal = sent(prover(trust), Insatiable(trust), "tools/call", call("send_email"))
    assert proofs == [False, True]
    assert refusal is not None
    assert refusal.error == "ratify_challenge_required"


def test_a_tool_that_became_sensitive_is_still_called(trust: Trust) -> None:
    agent, judge = prover(trust), Judge(trust)
    sent(agent, judge, "tools/call", call())
    tools = {**CATALOG.tools, "list_inbox": Entry(scope="email:read", marked_sensitive=True)}
    judge.policy = trust.policy(binding_required=True, catalog=replace(CATALOG, tools=tools))
    assert sent(agent, judge, "tools/call", call()) == ([True, True], None)
    assert sent(agent, judge, "tools/call", call()) == ([False, True], None)


# --- scopes that are not what was assumed -----------------------------------------------------------


@pytest.mark.holds("client/proving", "other-scope")
def test_a_resource_whose_scope_is_another_is_asked_for_once_more(trust: Trust) -> None:
    agent = prover(trust, ("mcp:resource", "email:read"), gateway_id=GATEWAY)
    judge = Judge(trust, catalog=replace(CATALOG, resource_prefixes={"mail://": Entry(scope="email:read")}))
    assert sent(agent, judge, "resources/read", {"uri": "mail://1"}) == ([True, True], None)
    assert sent(agent, judge, "resources/read", {"uri": "mail://1"}) == ([True], None)


def test_what_no_delegation_covers_is_refused_and_not_tried_again(trust: Trust) -> None:
    agent = prover(trust, ("email:send",), gateway_id=GATEWAY)
    judge = Judge(trust)
    for proofs in ([False, True], [True]):
        tried, refusal = sent(agent, judge, "tools/call", call())
        assert tried == proofs
        assert refusal is not None
        assert refusal.error == "ratify_scope_denied"


def test_a_replayed_or_untrusted_proof_is_not_tried_again(trust: Trust) -> None:
    agent = prover(trust, gateway_id=GATEWAY)
    for code in (-31003, -31004, -31005, -31006, -31007, -32602, -32000):
        attempt = agent.attempt("resources/read", {"uri": "a"})
        assert attempt is not None
        agent.proved(attempt)
        assert agent.again(attempt, code, {"required_scope": "mcp:resource"}) is None
        assert agent.again(attempt, code, None) is None


@pytest.mark.parametrize(
    "data",
    [None, [], "x", {}, {"required_scope": 3}, {"_meta": 3, "required_scope": None}, {"required_scope": "a:\ud800"}],
)
def test_nonsense_from_a_gateway_leads_nowhere(data: object, trust: Trust) -> None:
    agent = prover(trust)
    attempt = agent.attempt("tools/call", call())
    assert attempt is not None
    assert agent.again(attempt, -31001, data) is None
    with pytest.raises(ProofRefused):
        agent.again(attempt, -31002, data)


def test_what_is_learned_is_bounded(trust: Trust) -> None:
    agent = prover(trust, gateway_id=GATEWAY)
    tools = [{"name": f"t{n}", "_meta": {"ratify_scope": "email:read"}} for n in range(MAX_KNOWN_TARGETS + 1)]
    lists = agent.attempt("tools/list", {})
    assert lists is not None
    agent.listed(lists, {"tools": tools})
    first, last = (agent.attempt("tools/call", call(f"t{n}")) for n in (0, MAX_KNOWN_TARGETS))
    assert first is not None
    assert last is not None
    assert "_meta" not in agent.proved(first)
    assert "_meta" in agent.proved(last)


# --- what is left as it is --------------------------------------------------------------------------


@pytest.mark.holds("client/proving", "unguarded")
@pytest.mark.parametrize("method", ["ping", "completion/complete", "logging/setLevel"])
def test_other_requests_carry_nothing(method: str, trust: Trust) -> None:
    assert prover(trust, gateway_id=GATEWAY).attempt(method, {}) is None


@pytest.mark.holds("client/proving", "beginning", "begin-again")
@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_a_beginning_shows_a_proof_to_a_gateway_that_is_known__once(method: str, trust: Trust) -> None:
    known, stranger = prover(trust, gateway_id=GATEWAY), prover(trust)
    begun, begins = known.attempt(method, {}), stranger.attempt(method, {})
    assert begun is not None
    assert begins is not None
    assert "_meta" in known.proved(begun)
    assert known.again(begun, MISSING, {"error": "missing_ratify_proof"}) is None
    assert "_meta" not in stranger.proved(begins)
    assert stranger.again(begins, DENIED, {}) is None


@pytest.mark.holds("client/proving", "unguarded")
def test_a_host_that_proves_itself_is_left_alone(trust: Trust) -> None:
    assert prover(trust).attempt("tools/call", {**call(), "_meta": {"ratify_proof": {}}}) is None


@pytest.mark.parametrize("params", [{}, {"name": 3}, {"name": "x", "arguments": {"n": 2**60}}, {"name": "\ud800"}])
def test_what_has_no_binding_goes_unproved__the_gateway_says_what_is_wrong(params: Params, trust: Trust) -> None:
    assert prover(trust).attempt("tools/call", params) is None


def test_the_metadata_of_a_request_stays(trust: Trust) -> None:
    agent = prover(trust, gateway_id=GATEWAY)
    attempt = agent.attempt("prompts/get", {"name": "p", "_meta": {"progressToken": 7}})
    assert attempt is not None
    meta: Any = agent.proved(attempt)["_meta"]
    assert meta["progressToken"] == 7
    assert set(meta) == {"progressToken", "ratify_proof"}


# --- lists ------------------------------------------------------------------------------------------


def listing(judge: Judge) -> Params:
    """The gateway's list of tools."""
    tools = [{"name": name, "inputSchema": {}} for name in (*CATALOG.tools, "unknown")]
    frame = decode_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode())
    assert isinstance(frame, Success)
    view = ListView(catalog=CATALOG, verifier_id=judge.policy.verifier_id, binding="required")
    return json.loads(at_one_go(rewrite_list(frame, view, KINDS["tools/list"])))["result"]


def names(shown: Any) -> list[str]:
    return [tool["name"] for tool in shown["tools"]]


def test_a_list_teaches_scopes_and_the_gateways_id(trust: Trust) -> None:
    agent, judge = prover(trust, ("email:read", "email:send")), Judge(trust)
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    assert agent.proved(attempt) == {}
    shown, again = agent.listed(attempt, listing(judge))
    assert names(shown) == ["list_inbox", "send_email"]
    assert again is not None
    assert judge.refusal("tools/list", again) is None
    assert sent(agent, judge, "tools/call", call()) == ([True], None)
    assert sent(agent, judge, "tools/call", call("send_email")) == ([False, True], None)


@pytest.mark.holds("client/proving", "list")
def test_a_known_gateway_gets_a_proof_with_the_list_and_filters_itself(trust: Trust) -> None:
    agent = prover(trust, ("comms:email:send",), gateway_id=GATEWAY)
    assert sent(agent, Judge(trust), "tools/list", {"cursor": "2"}) == ([True], None)
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    agent.proved(attempt)
    accepted: dict[str, object] = {
        **listing(Judge(trust)),
        "cacheScope": "private",
    }  # the tool accepts comms:email:send
    shown, again = agent.listed(attempt, accepted)
    assert "send_email" in names(shown)
    assert again is None


@pytest.mark.holds("client/proving", "list")
def test_with_two_delegations_no_proof_says_all__so_none_goes_with_a_list(trust: Trust) -> None:
    agent = prover(trust, ("email:read",), ("email:send",), gateway_id=GATEWAY)
    assert sent(agent, Judge(trust), "tools/list", {}) == ([False], None)


def test_whole_lists_are_asked_for_without_a_proof(trust: Trust) -> None:
    assert sent(prover(trust, gateway_id=GATEWAY, uncovered=dict), Judge(trust), "tools/list", {}) == ([False], None)


@pytest.mark.holds("client/proving", "list-retry")
def test_a_refused_list_is_asked_for_without_a_proof__calls_then_say_what_is_wrong(trust: Trust) -> None:
    judge = Judge(Trust())  # trusts another owner
    agent = prover(trust, gateway_id=GATEWAY)
    assert sent(agent, judge, "tools/list", {}) == ([True, False], None)


def test_a_list_is_asked_for_once_more_and_no_oftener(trust: Trust) -> None:
    agent, judge = prover(trust, ("email:read",)), Judge(Trust())  # trusts another owner
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    agent.proved(attempt)
    _, again = agent.listed(attempt, listing(judge))
    assert again is not None
    refusal = judge.refusal("tools/list", again)
    assert refusal is not None
    assert agent.again(attempt, refusal.code, dict(refusal.data)) == {}
    assert agent.listed(attempt, listing(judge))[1] is None


def test_a_list_of_another_gateway_is_refused(trust: Trust) -> None:
    agent = prover(trust, gateway_id="another")
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    with pytest.raises(ProofRefused):
        agent.listed(attempt, listing(Judge(trust)))


SHELVES = Catalog(
    resource=Entry(scope="mcp:resource"),
    resource_prefixes={"file:///etc": Entry(scope="email:send", marked_sensitive=True)},
    prompt=Entry(scope="mcp:prompt"),
)
ITEMS: dict[str, list[dict[str, object]]] = {
    "resources/list": [{"uri": "mail://inbox"}, {"uri": "file:///etc/hosts"}],
    "resources/templates/list": [{"uriTemplate": "mail://{box}"}, {"uriTemplate": "file:///etc/{name}"}],
    "prompts/list": [{"name": "greet"}],
}


def shelf(judge: Judge, method: str) -> Params:
    """The gateway's list of what is no tool."""
    kind = KINDS[method]
    frame = decode_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {kind.items: ITEMS[method]}}).encode())
    assert isinstance(frame, Success)
    view = ListView(catalog=SHELVES, verifier_id=judge.policy.verifier_id, binding="required")
    return json.loads(at_one_go(rewrite_list(frame, view, kind)))["result"]


@pytest.mark.parametrize(
    ("method", "scope", "covered"),
    [
        ("resources/list", "mcp:resource", 1),
        ("resources/templates/list", "mcp:resource", 1),
        ("prompts/list", "mcp:prompt", 1),
        ("resources/list", "email:read", 0),
        ("prompts/list", "email:read", 0),
    ],
)
def test_what_no_delegation_covers_is_told_apart_in_every_list(
    method: str, scope: str, covered: int, trust: Trust
) -> None:
    agent, judge = prover(trust, (scope,)), Judge(trust)
    attempt = agent.attempt(method, {})
    assert attempt is not None
    agent.proved(attempt)
    shown, again = agent.listed(attempt, shelf(judge, method))
    assert len(items_of(shown[KINDS[method].items])) == covered
    assert (again is not None) is (covered < len(ITEMS[method]))
    if again is not None:
        assert judge.refusal(method, again) is None


def test_a_list_of_resources_teaches_which_of_them_are_sensitive(trust: Trust) -> None:
    agent, judge = prover(trust, ("email:send",)), Judge(trust)
    attempt = agent.attempt("resources/list", {})
    assert attempt is not None
    agent.listed(attempt, shelf(judge, "resources/list"))
    read = agent.attempt("resources/read", {"uri": "file:///etc/hosts"})
    assert read is not None
    assert "_meta" not in agent.proved(read)  # its challenge comes first


@pytest.mark.parametrize("tools", [None, 3, [3], [{}], [{"name": 3, "_meta": {"ratify_scope": "a:b"}}]])
def test_a_list_that_is_none_breaks_nothing(tools: object, trust: Trust) -> None:
    agent = prover(trust)
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    shown = {"tools": tools if isinstance(tools, list) else []}
    assert agent.listed(attempt, {"tools": tools}) == (shown, None)


# --- tasks --------------------------------------------------------------------------------------------


@pytest.mark.holds("client/proving", "task")
@pytest.mark.parametrize("tool", ["list_inbox", "send_email"])
@pytest.mark.parametrize("modern", [True, False])
def test_what_is_asked_about_a_task_is_proved_for_the_tool_that_made_it(tool: str, modern: bool, trust: Trust) -> None:
    scopes = (("mcp:prompt", "mcp:resource", "mcp:tool"), (SCOPES[tool],))
    agent, judge = prover(trust, *scopes, gateway_id=GATEWAY), Judge(trust)
    made = agent.attempt("tools/call", call(tool))
    assert made is not None
    assert sent(agent, judge, "tools/call", call(tool))[1] is None
    agent.answered(made, {"resultType": "task", "taskId": "t"} if modern else {"task": {"taskId": "t"}})
    judge.knows("t", tool, trust)
    for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/result"):
        proofs, refused = sent(agent, judge, method, {"taskId": "t"})
        assert refused is None, (method, refused)
        changes = method in ("tasks/update", "tasks/cancel")
        assert proofs == ([True, True] if changes and tool == "send_email" else [True])
    assert sent(agent, judge, "tasks/list", {})[1] is None
    assert sent(agent, judge, "subscriptions/listen", {"notifications": {"taskIds": ["t"]}})[1] is None
    assert agent.attempt("subscriptions/listen", {"notifications": {}}) is None
    refused = sent(agent, judge, "tasks/get", {"taskId": "none"})[1]
    assert refused is not None
    assert refused.error == "unknown_task"


def test_a_task_that_was_made_before_is_proved_for_what_the_gateway_says(trust: Trust) -> None:
    agent, judge = prover(trust), Judge(trust)
    judge.knows("t", "list_inbox", trust)
    assert sent(agent, judge, "tasks/update", {"taskId": "t"}) == ([False, True, True], None)


# --- a token among the arguments ---------------------------------------------------------------------


class TokenJudge(Judge):
    """A gateway that takes tokens, and so takes an argument `_token` off that the tool does not declare."""

    def refusal(self, method: str, params: Params) -> ProofRefused | None:
        kept = {name: value for name, value in params["arguments"].items() if name != "_token"}
        return super().refusal(method, {**params, "arguments": kept})


@pytest.mark.holds("client/proving", "token-argument")
@pytest.mark.parametrize("tool", ["list_inbox", "send_email"])
def test_the_proof_of_a_call_with_a_token_is_of_what_the_gateway_forwards(trust: Trust, tool: str) -> None:
    agent = prover(trust)
    with_token = call(tool, _token="t")
    for judge, proofs in ((TokenJudge(trust), 1), (Judge(trust), 2)):  # the second one has no tokens
        for _ in range(2):
            tries, refusal = sent(agent, judge, "tools/call", with_token)
            assert refusal is None
            assert sum(tries) == proofs


@pytest.mark.holds("client/proving", "token-argument")
def test_an_argument_that_the_tool_declares_is_the_tools__whatever_its_name(trust: Trust) -> None:
    agent = prover(trust)
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    schema = {"type": "object", "properties": {"_token": {"type": "string"}}}
    agent.listed(attempt, {"tools": [{"name": "list_inbox", "inputSchema": schema}]})
    tries, refusal = sent(agent, Judge(trust), "tools/call", call(_token="t"))
    assert (sum(tries), refusal) == (1, None)


# --- a gateway that only observes ----------------------------------------------------------------------


def test_where_calls_are_only_observed_nothing_is_hidden__and_each_call_says_who_makes_it(trust: Trust) -> None:
    agent, judge = prover(trust, ("identity:prove",)), Judge(trust, observes=True)
    attempt = agent.attempt("tools/list", {})
    assert attempt is not None
    every = [*CATALOG.tools, "unnamed"]
    items = [{"name": name, "inputSchema": {}, "_meta": {"ratify_sensitive": True}} for name in every]
    response = decode_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": items}}).encode())
    assert isinstance(response, Success)
    view = ListView(catalog=CATALOG, verifier_id=GATEWAY, binding="required", observed=True)
    said = json.loads(at_one_go(rewrite_list(response, view, KINDS["tools/list"])))["result"]
    shown, again = agent.listed(attempt, said)
    assert (names(shown), again) == (every, None)
    for name in every:  # sensitive ones too: nobody asks them for anything
        asked = agent.attempt("tools/call", call(name))
        assert asked is not None
        proof = agent.proved(asked).get("_meta", {})
        assert "ratify_proof" in proof  # pyright: ignore[reportOperatorIssue]
        refusal = judge.refusal("tools/call", agent.proved(asked))
        assert refusal is not None
        assert refusal.error == ("unknown_tool" if name == "unnamed" else "ratify_scope_denied")


def test_a_servers_own_word_that_calls_are_only_observed_is_taken_off(trust: Trust) -> None:
    items = [{"name": "list_inbox", "inputSchema": {}, "_meta": {"dev.accredit/observed": True, "color": "red"}}]
    response = decode_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": items}}).encode())
    assert isinstance(response, Success)
    view = ListView(catalog=CATALOG, verifier_id=GATEWAY, binding="required")
    said = json.loads(at_one_go(rewrite_list(response, view, KINDS["tools/list"])))["result"]["tools"][0]["_meta"]
    assert set(said) == {"ratify_scope", "ratify_verifier", "ratify_binding", "color"}
