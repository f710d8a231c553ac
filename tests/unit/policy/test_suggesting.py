"""What recorded calls lead to: the least that would have let them pass, and nothing that nobody signed for."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.records import NOW_MS, decided

from accredit.attest import CallRecord, Place, RecordedDecision, decision_payload, decode_statement, timestamp
from accredit.attest.statements import GENESIS
from accredit.consent.call import CallTerms
from accredit.limits import MAX_RECORDED_TARGET
from accredit.policy.catalog import Catalog, Entry, own_scope
from accredit.policy.suggesting import (
    MAX_GRANT_TARGET_CHARS,
    MAX_GRANT_TARGETS,
    MAX_SUGGESTED_OF_AGENT,
    MAX_SUGGESTED_TARGETS,
    MAX_TOLD_TARGETS,
    WHY,
    Deployment,
    Suggester,
    Suggestion,
)

ALLOW = RecordedDecision(verdict="allow", enforced=False)
PLACE = Place(writer="ab" * 16, sequence=1, previous=GENESIS)
CATALOG = Catalog(
    tools={"list_inbox": Entry(scope="email:read"), "search": Entry(scope="email:read")},
    resource_prefixes={"file:///etc/": Entry(scope="custom:etc")},
)
ONE = Deployment("mail-gateway", {"": CATALOG}, roots=["aa" * 16])
TWO = Deployment("mail-gateway", {"mail": CATALOG, "files": Catalog()}, roots=["aa" * 16])
MERGED = TWO._replace(merged=True)


def denied(error: str, verdict: Any = "deny", *, enforced: bool = False) -> RecordedDecision:
    return RecordedDecision(verdict=verdict, error=error, enforced=enforced)


def record(
    target: str = "list_inbox",
    decision: RecordedDecision | None = None,
    *,
    method: str = "tools/call",
    server: str = "",
    scope: str = "email:read",
    at: int = 0,
    agent: str = "bb" * 16,
    signed: bool = True,
    **more: Any,
) -> CallRecord:
    """A call as the log has it."""
    made = decided(target, decision or denied("ratify_scope_denied"), received_ms=NOW_MS + at, token=None, **more)
    call = replace(made.call, method=method, server=server or None)
    authority = replace(made.authority, scope=scope, agent_id=agent) if signed and made.authority is not None else None
    payload = decision_payload(replace(made, call=call, authority=authority), PLACE, NOW_MS)
    found = decode_statement(payload).predicate
    assert isinstance(found, CallRecord)
    return found


def suggested(*records: CallRecord, to: Deployment = ONE) -> Suggestion:
    suggester = Suggester(to)
    for each in records:
        suggester.add(each)
    return suggester.suggestion()


def refused(found: Suggestion) -> dict[str, int]:
    return {word: each.tally.calls for word, each in found.refused.items()}


@pytest.mark.holds("policy/suggesting", "allowed-calls")
def test_what_was_refused_leads_to_nothing__an_agent_would_write_its_own_grant_by_asking() -> None:
    asked_for = (
        record("pay", denied("unknown_tool", enforced=True)),
        record(decision=denied("ratify_scope_denied", enforced=True)),
    )
    found = suggested(*asked_for, record("pay", replace(denied("unknown_tool"), enforced=None)))
    assert (found.tables, found.grants, refused(found)) == ([], [], {"asked": 3})
    assert set(found.refused["asked"].targets) == {("", "pay"), ("", "list_inbox")}
    seen = suggested(*asked_for, record("pay", denied("unknown_tool"), scope=""))
    ((tool,), (grant,)) = seen.tables, seen.grants
    assert (tool.tool, tool.tally.calls, list(grant.targets)) == ("pay", 1, ["pay"])


@pytest.mark.holds("policy/suggesting", "allowed-calls", "own-scope", "grant")
def test_a_grant_names_the_very_targets__though_another_tool_needs_the_same_scope() -> None:
    found = suggested(record(at=9), record(at=3), record("list_inbox", at=5, agent="cc" * 16))
    assert (found.tables, refused(found)) == ([], {})
    assert [(each.agent_id, each.scopes, [*each.targets]) for each in found.grants] == [
        ("bb" * 16, ("email:read",), ["list_inbox"]),
        ("cc" * 16, ("email:read",), ["list_inbox"]),
    ]
    assert CallTerms.read(found.grants[0].constraint) == CallTerms(
        gateway="mail-gateway", method="tools/call", target=("list_inbox",)
    )
    tally = found.grants[0].tally
    assert (tally.calls, tally.first, tally.last) == (2, timestamp(NOW_MS + 3), timestamp(NOW_MS + 9))


@pytest.mark.holds("policy/suggesting", "sensitive")
def test_what_is_sensitive_has_a_grant_of_its_own() -> None:
    tools = {
        "ask": Entry(scope="email:send", marked_sensitive=True),
        "list_inbox": Entry(scope="email:send"),
        "wipe": Entry(scope="comms:email:delete"),
    }
    used = [record(name, scope="") for name in ("ask", "list_inbox", "wipe")]
    found = suggested(*used, to=ONE._replace(catalogs={"": Catalog(tools=tools)}))
    assert [([*each.targets], each.scopes, each.sensitive) for each in found.grants] == [
        (["list_inbox"], ("email:send",), False),
        (["ask", "wipe"], ("comms:email:delete", "email:send"), True),
    ]


@pytest.mark.holds("policy/suggesting", "own-scope")
def test_a_tool_that_the_catalog_does_not_name_gets_a_scope_of_its_own() -> None:
    calls = [record("drop", denied("unknown_tool"), scope="", at=n, server="mail") for n in range(3)]
    calls.append(record("drop", denied("unknown_tool"), scope="", server="files", agent="cc" * 16))
    found = suggested(*calls, to=TWO)
    assert [(each.server, each.tool, each.scope, each.tally.calls) for each in found.tables] == [
        ("files", "drop", "custom:files:drop", 1),
        ("mail", "drop", "custom:mail:drop", 3),
    ]
    assert [(each.gateway, each.agent_id, each.scopes) for each in found.grants] == [
        ("mail-gateway/mail", "bb" * 16, ("custom:mail:drop",)),
        ("mail-gateway/files", "cc" * 16, ("custom:files:drop",)),
    ]


@pytest.mark.holds("policy/suggesting", "signature")
@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (denied("missing_ratify_proof"), "unsigned"),
        (denied("ratify_challenge_required", "challenge"), "unsigned"),
        (denied("unknown_tool"), "unsigned"),
        (RecordedDecision(verdict="allow"), "unsigned"),
        *((denied(f"ratify_{word}"), "bad_proof") for word in ("invalid", "expired", "revoked", "replayed")),
        (denied("ratify_untrusted_root"), "bad_proof"),
        (denied("invalid_token", enforced=True), "other"),
    ],
)
def test_what_nobody_signed_leads_to_nothing(decision: RecordedDecision, why: str) -> None:
    found = suggested(record("drop", decision, signed=False))
    assert (found.tables, found.grants, refused(found)) == ([], [], {why: 1})


@pytest.mark.holds("policy/suggesting", "signature")
def test_a_principal_who_counts_no_more_leads_to_nothing() -> None:
    assert refused(suggested(record(), to=ONE._replace(roots=["dd" * 16]))) == {"no_root": 1}
    assert len(suggested(record(), to=ONE._replace(roots=None)).grants) == 1


@pytest.mark.holds("policy/suggesting", "allowed-calls")
@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("ratify_constraint_denied", "constraint"),
        ("ratify_constraint_unverifiable", "constraint"),
        ("definition_changed", "other"),
        ("invalid_request_state", "other"),
        ("insufficient_scope", "other"),
    ],
)
def test_what_somebody_decided_against_and_what_is_no_question_of_authority_stays_refused(error: str, why: str) -> None:
    found = suggested(record(decision=denied(error)))
    assert (found.grants, refused(found)) == ([], {why: 1})


@pytest.mark.holds("policy/suggesting", "existing-grant")
def test_what_is_allowed_already_needs_nothing__unless_its_target_needs_another_scope_now() -> None:
    found = suggested(record(decision=ALLOW))
    assert (found.grants, found.allowed.calls) == ([], 1)
    assert len(suggested(record(decision=ALLOW, scope="email:all")).grants) == 1
    gone = suggested(record("gone", ALLOW, scope="email:read"))
    assert ([each.tool for each in gone.tables], len(gone.grants)) == (["gone"], 1)


@pytest.mark.holds("policy/suggesting", "ambiguity")
def test_what_the_log_does_not_hold_whole_is_not_guessed() -> None:
    assert refused(suggested(record("x" * MAX_RECORDED_TARGET))) == {"cut": 1}
    assert refused(suggested(record(""))) == {"unwritable": 1}
    assert refused(suggested(record(agent="no id"))) == {"unwritable": 1}
    assert refused(suggested(record(server="calendar"), to=TWO)) == {"no_server": 1}
    assert refused(suggested(record(), to=TWO)) == {"no_server": 1}
    assert refused(suggested(record(gateway="another"))) == {"gateway": 1}
    read = record("file:///etc/../x", denied("unknown_resource"), method="resources/read", scope="")
    assert refused(suggested(read)) == {"uri": 1}


@pytest.mark.holds("policy/suggesting", "ambiguity")
def test_a_name_that_means_another_tool_at_the_merged_endpoint_is_not_guessed() -> None:
    merged = record("mail__list_inbox", server="mail")
    (grant,) = suggested(merged, to=MERGED).grants
    assert (grant.gateway, [*grant.targets], grant.scopes) == ("mail-gateway", ["mail__list_inbox"], ("email:read",))
    unknown = record("mail__drop", denied("unknown_tool"), server="mail", scope="")
    assert refused(suggested(unknown, to=MERGED)) == {"endpoint": 1}
    prompt = record("mail__greet", server="mail", method="prompts/get", scope="mcp:prompt")
    assert refused(suggested(prompt, to=MERGED)) == {"endpoint": 1}
    own = Catalog(tools={"mail__drop": Entry(scope="custom:own")})
    (grant,) = suggested(unknown, to=MERGED._replace(catalogs={"mail": own})).grants
    assert (grant.gateway, grant.scopes) == ("mail-gateway/mail", ("custom:own",))
    both = Catalog(tools={**own.tools, "drop": Entry(scope="custom:own")})
    assert refused(suggested(unknown, to=MERGED._replace(catalogs={"mail": both}))) == {"endpoint": 1}
    other = record("files__drop", denied("unknown_tool"), server="mail", scope="")
    assert [each.tool for each in suggested(other, to=MERGED).tables] == ["files__drop"]


@pytest.mark.slow
@pytest.mark.holds("policy/suggesting", "bounds")
def test_what_is_told_apart_is_bounded__and_what_is_beyond_it_is_said() -> None:
    calls = [record(f"tool_{n}", denied("unknown_tool"), scope="") for n in range(MAX_SUGGESTED_OF_AGENT + 3)]
    other = record("tool_0", denied("unknown_tool"), scope="", agent="cc" * 16)
    found = suggested(*calls, *calls[:2], other, *(record("drop", denied("unknown_tool"), signed=False),) * 2)
    assert refused(found) == {"too_many": 3, "unsigned": 2}
    assert len(found.tables) == MAX_SUGGESTED_OF_AGENT
    assert sum(each.tally.calls for each in found.grants) == MAX_SUGGESTED_OF_AGENT + 3
    assert max(len(each.targets) for each in found.grants) == MAX_GRANT_TARGETS
    assert "cc" * 16 in {each.agent_id for each in found.grants}, "who makes up names takes no room of others"
    agents = [f"{n:032x}" for n in range(MAX_SUGGESTED_TARGETS // MAX_SUGGESTED_OF_AGENT + 1)]
    one = record("tool", denied("unknown_tool"), scope="")
    assert one.authority is not None
    crowd = (
        replace(one, call=replace(one.call, target=f"t{n}"), authority=replace(one.authority, agent_id=agent))
        for agent in agents
        for n in range(MAX_SUGGESTED_OF_AGENT)
    )
    assert refused(suggested(*crowd)) == {"too_many": MAX_SUGGESTED_OF_AGENT}
    many = suggested(*(record(f"t{n}", signed=False) for n in range(MAX_TOLD_TARGETS + 9)))
    assert len(many.refused["bad_proof"].targets) == MAX_TOLD_TARGETS
    long = suggested(*(record(f"{n}".zfill(2_000), denied("unknown_tool"), scope="") for n in range(9)))
    assert all(sum(map(len, each.targets)) <= MAX_GRANT_TARGET_CHARS for each in long.grants)
    assert sum(len(each.targets) for each in long.grants) == 9


def test_a_request_about_a_task_goes_by_its_tool() -> None:
    found = suggested(record("task-1", denied("unknown_task"), method="tasks/get", scope=""))
    assert (found.grants, found.tasks.calls, refused(found)) == ([], 1, {})
    assert refused(suggested(record("task-1", denied("missing_ratify_proof"), method="tasks/get", signed=False))) == {
        "unsigned": 1
    }


def test_each_reason_has_words() -> None:
    assert {"unsigned", "bad_proof", "constraint", "other"} < WHY.keys()


@pytest.mark.parametrize("name", ["a b", "*", "", "mail:x", "ü", "x" * 300, "a\nb", "~"])
def test_a_tools_own_scope_is_no_wildcard_and_no_other_tools(name: str) -> None:
    scopes = {own_scope(each, "mail") for each in (name, f"{name}-", "a-b")}
    assert len(scopes) == 3
    assert not any("*" in each for each in scopes)


API = Catalog(routes={"GET /messages": Entry(scope="email:read"), "DELETE /messages/{id}": Entry(scope="custom:del")})
WITH_API = Deployment("mail-gateway", {"mail": API, "files": CATALOG}, merged=True, roots=["aa" * 16])


def request(target: str, *args: Any, **more: Any) -> CallRecord:
    """A request to an HTTP API, as the log has it."""
    found = record(target, *args, method=target.partition(" ")[0], server="mail", **more)
    return replace(found, call=replace(found.call, protocol="http"))


def test_a_request_to_an_api_leads_to_a_grant_for_its_route_alone() -> None:
    used = (request("GET /messages"), request("DELETE /messages/{id}", at=1), request("GET /messages", ALLOW))
    found = suggested(*used, to=WITH_API)
    assert [(each.gateway, each.method, each.scopes, list(each.targets)) for each in found.grants] == [
        ("mail-gateway/mail", "DELETE", ("custom:del",), ["DELETE /messages/{id}"]),
        ("mail-gateway/mail", "GET", ("email:read",), ["GET /messages"]),
    ]
    assert (found.allowed.calls, found.tables, found.refused) == (1, [], {})


@pytest.mark.holds("policy/suggesting", "route")
def test_a_request_that_was_of_no_route_is_reported__signed_or_not__and_so_is_one_whose_route_is_gone() -> None:
    unknown = denied("unknown_route")
    nowhere = request("GET", unknown, signed=False)
    nowhere = replace(nowhere, call=replace(nowhere.call, target=""))
    found = suggested(nowhere, request("GET", unknown), request("GET /old", ALLOW), to=WITH_API)
    assert (found.grants, refused(found)) == ([], {"route": 3})
    assert found.refused["route"].targets == {("mail", "GET"): 2, ("mail", "GET /old"): 1}
