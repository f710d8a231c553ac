"""The gateway's own tools: who may call them may do nothing else, and no server's tool is reached by their names."""

import json
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.unit.policy.test_lists import JUDGED, OFF, names, seen, tools
from tests.unit.policy.test_suggesting import ALLOW, MERGED, ONE, record

from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.jsonrpc.frames import Request, decode_frame
from accredit.jsonrpc.methods import META_VERSION
from accredit.policy.catalog import OWN_TOOLS, Catalog, Entry, own_scope, scope_fault
from accredit.policy.drill import DRILL, DRILL_SCOPE, DRILLS, SENSITIVE_DRILL, is_drill
from accredit.policy.drill_answers import drill_answer
from accredit.policy.merging import MergedCatalog, merged_name
from accredit.policy.quotas import Quota, QuotaCaller, Quotas
from accredit.policy.suggesting import Suggester
from accredit.ratify.scopes import CANONICAL_SCOPES, WILDCARDS, expand
from accredit.setup.config_text import can_have_table, tool_table
from accredit.signing.suggest_scopes import Suggestion

pytestmark = pytest.mark.holds("policy/drill")
ANY = Entry(scope="mcp:tool")


@pytest.mark.holds("policy/drill", "scope")
def test_the_scope_of_a_drill_is_in_no_wildcard_and_no_catalog_may_ask_for_it() -> None:
    assert DRILL_SCOPE not in CANONICAL_SCOPES | set(WILDCARDS) | set(expand(WILDCARDS))
    assert scope_fault(DRILL_SCOPE) is not None
    assert {entry.scope for entry in OWN_TOOLS.values()} == {DRILL_SCOPE}
    assert [name for name, entry in OWN_TOOLS.items() if entry.sensitive] == [SENSITIVE_DRILL]
    assert all(scope_fault(entry.scope) is not None and not entry.accepts for entry in OWN_TOOLS.values())


@pytest.mark.holds("policy/drill", "scope")
@pytest.mark.parametrize(
    ("tool", "server"),
    [("accredit.drill", "mail"), ("drill", "accredit"), ("drill", ""), ("Accredit.drill", ""), ("a b", "accredit")],
)
def test_no_scope_that_is_made_for_a_tool_is_that_of_a_drill(tool: str, server: str) -> None:
    assert own_scope(tool, server) != DRILL_SCOPE


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[tools."accredit.drill"]\nscope = "email:send"\n', "tools.accredit.drill"),
        ('[tools."accredit.drill.sensitive"]\nscope = "email:send"\n', "tools.accredit.drill.sensitive"),
        ('[tools.pay]\nscope = "custom:accredit.drill"\n', "tools.pay.scope"),
        ('[tools.pay]\nscope = "mcp:tool"\naccepts = ["custom:accredit.drill"]\n', "tools.pay.accepts"),
        ('[proofs]\ndefault_tool_scope = "custom:accredit.drill"\n', "proofs.default_tool_scope"),
        ('[resources]\nscope = "custom:accredit.drill"\n', "resources.scope"),
    ],
)
def test_a_configuration_that_names_the_tool_or_asks_for_its_scope_is_refused(
    text: str, key: str, tmp_path: Path
) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as raised:
        load(file, {}, {})
    assert key in raised.value.what.replace('"', "")
    assert "gateway's own" in raised.value.what


@pytest.mark.holds("policy/drill", "no-server")
@pytest.mark.holds("policy/merging", "own-tools")
def test_at_the_endpoint_of_several_a_servers_own_tool_of_that_name_is_nobodys() -> None:
    merged = MergedCatalog(by_server={"mail": Catalog(default_tool=ANY)})
    for name in DRILLS:
        assert merged.tool(name) == OWN_TOOLS[name]
        assert merged.tool(merged_name("mail", name)) is None
        assert merged.tool(merged_name("mail", name.upper())) == ANY
    assert merged.find("prompts/get", merged_name("mail", DRILL)) is not None


@pytest.mark.holds("policy/drill", "no-server")
def test_neither_a_default_nor_a_table_makes_it_another_tool() -> None:
    catalog = Catalog(default_tool=ANY, tools={DRILL: ANY})
    assert catalog.tool(DRILL) == OWN_TOOLS[DRILL]
    assert not is_drill("prompts/get", DRILL)
    assert not is_drill("tools/call", "accredit.Drill")


@pytest.mark.holds("policy/drill", "no-server")
@pytest.mark.parametrize("view", [JUDGED, OFF, replace(JUDGED, observed=True)])
def test_a_servers_tool_of_that_name_is_not_listed(view: object) -> None:
    assert names(seen(tools("list_inbox", DRILL, SENSITIVE_DRILL), view)) == ["list_inbox"]  # type: ignore[arg-type]


@pytest.mark.holds("policy/drill", "no-list")
@pytest.mark.holds("policy/quotas", "subject")
def test_no_quota_counts_it() -> None:
    every = Quota(by="server", tools=frozenset({"*"}), window_s=60, window="1m", most=1)
    named = Quota(by="principal", tools=frozenset({DRILL}), window_s=60, window="1m", most=1)
    for quotas in (Quotas((every, named)), Quotas((every, named), merged=frozenset({"mail"}))):
        assert quotas.taken_by(DRILL, QuotaCaller("p", "a"), {}) == ()
    assert len(Quotas((every, named)).taken_by("pay", QuotaCaller("p", "a"), {})) == 1


@pytest.mark.parametrize("deployment", [ONE, MERGED])
def test_a_drill_on_record_leads_to_no_table_and_no_grant(deployment: object) -> None:
    suggester = Suggester(deployment)  # type: ignore[arg-type]
    server = "" if deployment is ONE else "mail"
    for target in DRILLS:
        suggester.add(record(target, ALLOW, server=server, scope=DRILL_SCOPE))
        suggester.add(record(target, server=server, scope="email:read"))
    found = suggester.suggestion()
    assert (found.tables, found.grants, found.refused) == ([], [], {})


def test_no_table_is_written_for_a_servers_tool_of_that_name() -> None:
    assert not can_have_table(DRILL)
    written = tool_table(Suggestion(DRILL, "mcp:tool", False, "", ""))
    assert all(line.startswith("#") for line in written.splitlines())


def _request(arguments: object, *, modern: bool = True) -> Request:
    meta = {"_meta": {META_VERSION: "2026-07-28"}} if modern else {}
    params = {"name": DRILL, "arguments": arguments, **meta}
    frame = decode_frame(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode())
    assert isinstance(frame, Request)
    return frame


@pytest.mark.holds("policy/drill", "answer")
@pytest.mark.parametrize("arguments", [{"asks": True}, {"asks": False}, {"asks": "true"}, {}, [], None, "true"])
def test_the_answer_asks_to_come_back_only_where_that_was_asked_for(arguments: object) -> None:
    for modern in (True, False):
        answer = drill_answer(_request(arguments, modern=modern), 0)
        found = json.loads(bytes(answer.result))
        asks = modern and arguments == {"asks": True}
        assert found.get("resultType") == ("input_required" if asks else "complete" if modern else None)
        assert ("requestState" in found) is asks
        assert json.loads(answer.text) == {"jsonrpc": "2.0", "id": 7, "result": found}
    again = json.loads(bytes(drill_answer(_request(arguments), 1).result))
    assert again["resultType"] == "complete"


@pytest.mark.holds("policy/drill", "answer")
def test_the_answer_quotes_nothing_of_the_call() -> None:
    answer = drill_answer(_request({"word": "MARK"}), 0)
    assert b"MARK" not in answer.text
    assert isinstance(answer.result, Raw)
