"""The matrix in short, with what is installed for the tests anyway; and what its comparison promises."""

import json
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.interop.__main__ import authorized, missing, played
from tests.interop.cells import PLAN, TRANSCRIPT, Cell, read
from tests.interop.clients import CLIENTS, Client
from tests.interop.compare import Difference, Transcript, Where, compare, joined, judge, uncalled, unneeded
from tests.interop.differences import DIFFERENCES
from tests.interop.environments import OWN, Environments
from tests.interop.one_gateway import WAY, OneGateway
from tests.interop.report import BEGIN, END, how_played, write_page
from tests.interop.servers import SERVERS, Server
from tests.interop.steps import Step, call, complete, merged, restarts, step, unmerged
from tests.interop.ways import DATA, baselines
from tests.world.recorded import records_of

pytestmark = pytest.mark.slow

HERE = Where("a-client", "a-server", "wrap", "call add")
META = Difference(name="marked", reason="it is signed for", steps=("call *",), members=("scope",))
GONE = Difference(name="gone", reason="it is not there", ways=("wrap",), direct='"result"', through="not allowed")


def result(**members: Any) -> dict[str, Any]:
    return {"result": members, "heard": {}}


def test_what_is_the_same_is_no_difference_and_what_a_client_cannot_do_is_no_success() -> None:
    assert judge(HERE, result(a=1), result(a=1), [META]).known == ()
    assert not judge(HERE, result(a=1), result(a=1), []).failed
    assert judge(HERE, {"cannot": True}, {"cannot": True}, []).cannot


@pytest.mark.parametrize(
    "through", [result(a=2), {"error": {"message": "x"}}, None, {"cannot": True}, result(a=2, scope="s")]
)
def test_a_difference_that_nobody_named_fails__also_beside_one_that_is_named(through: Any) -> None:
    assert judge(HERE, result(a=1), through, [META, GONE]).failed


def test_a_named_difference_counts_only_where_it_is_said_to_be() -> None:
    marked = result(a=1, scope="s")
    assert judge(HERE, result(a=1), marked, [META]).known == ("marked",)
    assert judge(Where("a-client", "a-server", "wrap", "tools"), result(a=1), marked, [META]).failed
    refused = {"error": {"message": "not allowed"}}
    assert judge(HERE, result(a=1), refused, [GONE]).known == ("gone",)
    assert judge(Where("a-client", "a-server", "connect", "call add"), result(a=1), refused, [GONE]).failed


def test_a_name_that_nothing_needs_any_more_is_reported() -> None:
    verdicts = [judge(HERE, result(a=1), result(a=1, scope="s"), [META, GONE])]
    assert unneeded(verdicts, [META, GONE]) == ["gone"]


def test_a_place_where_a_named_difference_does_not_occur_any_more_is_reported() -> None:
    wide = Difference(name="marked", reason="it is signed for", ways=("wrap", "serve *"), members=("scope",))
    verdicts = [judge(HERE, result(a=1), result(a=1, scope="s"), [wide])]
    assert unneeded(verdicts, [wide]) == ["marked (serve *)"]


def test_a_restart_is_compared_with_one_of_the_server_over_http__also_behind_the_gateway() -> None:
    works = "works after a restart of the"
    by_stdio = {"end": result(by="stdio")}
    by_http = {"call add": result(by="http"), f"{works} server": result(recovered=True), "end": result(by="http")}
    direct = joined(by_stdio, by_http)
    assert direct == {f"{works} server": result(recovered=True), "end": result(by="stdio")}
    through = {f"{works} server": result(recovered=True), f"{works} gateway": result(recovered=False), **by_stdio}
    verdicts = compare("c", "s", "serve -- COMMAND", direct, through, [])
    assert [verdict.where.step for verdict in verdicts if verdict.failed] == [f"{works} gateway"]


def test_a_restart_is_followed_by_a_call_as_it_was_made_before(tmp_path: Path) -> None:
    for server in SERVERS.values():
        before = next(step for step in server.steps(tmp_path) if step["name"] == server.recover)
        _, after = restarts("server", before)
        assert (after["do"], after["with"]) == ("recover", before["with"])


def test_a_pair_that_can_not_be_played_is_a_failure_and_the_others_go_on(tmp_path: Path) -> None:
    absent = Client("absent", lambda _: [str(tmp_path / "nothing")], OWN, ())
    (verdict,) = played(tmp_path, Environments(tmp_path), ["wrap"], Cell(absent, SERVERS["python-sdk-2"]))
    assert verdict.failed
    assert "nothing" in verdict.through


def test_what_was_not_played_is_named__also_where_only_its_direct_way_lacks__and_is_no_success(tmp_path: Path) -> None:
    cell = Cell(CLIENTS["fastmcp"], SERVERS["git"])
    for way in ("wrap", "connect"):
        (tmp_path / "fastmcp" / "git" / way).mkdir(parents=True)
        (tmp_path / "fastmcp" / "git" / way / TRANSCRIPT).touch()
    assert len(missing(tmp_path, [cell], ["serve URL", "wrap", "connect"])) == 2  # no git server speaks HTTP
    (tmp_path / "fastmcp" / "git" / "direct-stdio").mkdir()
    (tmp_path / "fastmcp" / "git" / "direct-stdio" / TRANSCRIPT).touch()
    absent = missing(tmp_path, [cell], ["serve -- COMMAND", "wrap", "connect"])
    assert absent == ["fastmcp -> git by serve -- COMMAND"]
    day = cell.day(tmp_path, "wrap")
    assert how_played({day, "2026-01-01"}, absent) == (
        f"Played on 2026-01-01 and {day}, in parts, each with the gateway as it was then. Not played: {absent[0]}."
    )
    assert how_played({day}, []) == f"Played on {day}. Nothing was left out."


def test_two_runs_on_two_days_in_two_folders_are_compared_without_what_only_that_makes_differ(tmp_path: Path) -> None:
    seen: list[Transcript] = []
    for when in ("Sunday, 2026-11-22T23:59:59Z", "Monday, 2026-11-23T00:00:01Z"):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        (folder / PLAN).write_text(json.dumps({"steps": [step("call")], "data": str(folder / DATA)}), "utf-8")
        said = {"step": "call", "result": f"{when} in {folder / DATA} at 127.0.0.1:{4000 + len(seen)}: 5"}
        (folder / TRANSCRIPT).write_text(json.dumps(said) + "\n", "utf-8")
        seen.append(read(folder))
    assert seen[0] == seen[1] == {"call": {"result": "<day>, <time> in <data> at 127.0.0.1:<port>: 5"}}


def test_a_tool_that_no_step_calls_is_a_failure() -> None:
    direct = {"tools": {"result": [{"name": "add"}, {"name": "burn"}]}, "call add": result()}
    assert [verdict.where.step for verdict in uncalled("c", "s", "direct-http", direct, [])] == ["call burn"]
    assert uncalled("c", "s", "direct-http", direct, ["burn"]) == []


def test_the_page_says_how_often_and_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    where = Where("fastmcp", "git", "wrap", "call add")
    write_page(page, [judge(where, result(a=1), result(a=1, scope="s"), [META])], [META, GONE])
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "1 steps of 1 pairs of a client and a server: 1 named." in text
    assert "| fastmcp | 1 named |" in text
    assert f"| client fastmcp | fastmcp {metadata.version('fastmcp')}, mcp {metadata.version('mcp')} |" in text
    assert "- **marked** (1 steps; `wrap`): it is signed for" in text
    assert "gone" not in text


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ways", [("connect",), pytest.param(("serve URL", "wrap", "connect"), marks=pytest.mark.long)])
def test_what_works_directly_works_through_serve_wrap_and_connect_with_proofs__and_after_restarts_of_either(
    ways: Sequence[str], tmp_path: Path
) -> None:
    environments, cell = Environments(tmp_path), Cell(CLIENTS["python-sdk-2"], SERVERS["python-sdk-2"])
    authorized(tmp_path, environments, cell.server.name)
    verdicts = played(tmp_path, environments, list(ways), cell)
    assert [f"{verdict.where}: {verdict.direct} {verdict.through}" for verdict in verdicts if verdict.failed] == []
    for way in ways:
        here = [verdict for verdict in verdicts if verdict.where.way == way]
        assert len(here) > 40
        assert sum(not (verdict.cannot or verdict.known) for verdict in here) > 30


def test_where_servers_are_one_a_step_asks_for_one_of_them__and_what_comes_is_compared_without_the_others() -> None:
    asked = merged([call("add", a=1), complete({"type": "ref/resource", "uri": "note://{id}"}, "id", "1")], "notes")
    assert [each["with"].get("tool") for each in asked] == ["notes__add", None]
    assert asked[1]["with"]["ref"] == {"type": "ref/resource", "uri": "accredit+notes:note://{id}"}
    listed = {"tools": [{"name": "notes__add", "see": "accredit+notes:note://1"}, {"name": "mail__add"}]}
    found = unmerged({"step": "tools", "result": listed}, "notes")
    assert found["result"] == {"tools": [{"name": "add", "see": "note://1"}]}
    other = unmerged({"step": "call add", "result": {"content": [{"text": "mail__add"}]}}, "notes")
    assert "mail__add" in json.dumps(other)  # only lists are expected to hold what is others'


@pytest.mark.timeout(300)
def test_servers_of_both_libraries_behind_one_gateway_work_as_directly__with_proofs_and_pins(tmp_path: Path) -> None:
    environments, client = Environments(tmp_path), CLIENTS["python-sdk-2"]
    slow = ("cancel", "wait", "big_image", "progress", "say", "ask", "count", "log", "sampling", "elicit")
    whole = (SERVERS["fastmcp"], SERVERS["python-sdk-2"])
    servers = [replace(each, steps=partial(without, each, slow), http=None) for each in whole]
    with OneGateway(tmp_path, environments, servers) as gateway:
        for cell in (Cell(client, server) for server in servers):
            direct = joined(*cell.play(tmp_path, environments, baselines("connect", cell.server)).values())
            verdicts = compare(client.name, cell.server.name, WAY, direct, gateway.play(cell), DIFFERENCES)
            assert [f"{each.where}: {each.direct} {each.through}" for each in verdicts if each.failed] == []
            assert sum(not (each.cannot or each.known) for each in verdicts) > 5
        assert gateway.faults() == []
    calls = [each.call for each in records_of(gateway.folder / "accredit.db") if each.decision is not None]
    assert {call.server for call in calls} == {"fastmcp", "python-sdk-2"}
    assert any(call.definition for call in calls)


def without(server: Server, slow: Sequence[str], folder: Path) -> list[Step]:
    """The steps that take no time."""
    return [each for each in server.steps(folder) if not any(word in each["name"] for word in slow)]
