"""Each command of the README, tutorials, quickstarts and how-tos is run by a test, or its page says why not.

A block that no test can run has `<!-- not run: REASON -->` above it. For all others `RUN_BY` says which test runs them,
and how many they are: whoever adds one to a page adds it to its test, too.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]+) -->\n)?^ *```(?:console|sh|bash)\n(?P<body>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
FOLDERS = ("tutorial", "quickstart", "how-to")
PAGES = [
    "README.md",
    *sorted(f"docs/{name}/{each.name}" for name in FOLDERS for each in (ROOT / "docs" / name).iterdir()),
]
HOSTS, CLIENTS = ("test_quickstart_hosts.py", 5), ("test_quickstart_clients.py", 3)
RUN_BY: dict[str, dict[str, int]] = {
    "README.md": {"test_up_tutorial.py": 1, "test_tutorial.py": 1, "test_page_commands.py": 3},
    "docs/tutorial/a-tool-that-asks.md": {"test_rounds_tutorial.py": 7},
    "docs/tutorial/first-gateway.md": {"test_tutorial.py": 7},
    "docs/tutorial/let-your-assistant-ask-you.md": {"test_ask_tutorial.py": 8},
    "docs/tutorial/one-command.md": {"test_up_tutorial.py": 5},
    "docs/tutorial/protect-your-server.md": {"test_tutorial.py": 11},
    "docs/tutorial/three-hops.md": {"test_hops_tutorial.py": 7},
    **{f"docs/quickstart/{name}.md": dict([HOSTS]) for name in ("claude-code", "claude-desktop", "cursor", "vscode")},
    **{
        f"docs/quickstart/{name}.md": dict([CLIENTS])
        for name in ("fastmcp", "langchain", "openai-agents", "python-sdk")
    },
    "docs/how-to/a2a-agents.md": {"test_a2a_command.py": 4},
    "docs/how-to/agent-author.md": {"test_tutorial.py": 1},
    "docs/how-to/backup-and-restore.md": {"test_fleet_howtos.py": 3, "test_page_commands.py": 1},
    "docs/how-to/delegate.md": {"test_delegate_howto.py": 8},
    "docs/how-to/desk.md": {"test_desk_howto.py": 4},
    "docs/how-to/doctor.md": {"test_doctor.py": 1},
    "docs/how-to/drill-your-gateway.md": {"test_page_commands.py": 1},
    "docs/how-to/from-token-argument.md": {"test_tokens_howtos.py": 3},
    "docs/how-to/hosts.md": {"test_connect_howtos.py": 5},
    "docs/how-to/http-api.md": {"test_openapi_commands.py": 4},
    "docs/how-to/identity-provider.md": {"test_tokens_howtos.py": 5},
    "docs/how-to/install-from-a-file.md": {"test_page_commands.py": 1},
    "docs/how-to/keep-state-in-a-round.md": {"test_state_howto.py": 2},
    "docs/how-to/kubernetes.md": {"test_deployment.py": 1},
    "docs/how-to/many-servers.md": {"test_many_servers_howto.py": 7},
    "docs/how-to/metrics-and-traces.md": {"test_metrics_howto.py": 1},
    "docs/how-to/observe-first.md": {"test_observe_howto.py": 8},
    "docs/how-to/pin-definitions.md": {"test_page_commands.py": 1},
    "docs/how-to/reload.md": {"test_reload.py": 2},
    "docs/how-to/run-in-production.md": {"test_page_commands.py": 3},
    "docs/how-to/server-author.md": {"test_server_howto.py": 7},
    "docs/how-to/ship-the-log.md": {"test_page_commands.py": 2},
    "docs/how-to/show-an-auditor.md": {"test_cli_audit_howto.py": 7},
    "docs/how-to/sign-records.md": {"test_signing_howto.py": 2},
    "docs/how-to/systemd.md": {"test_deployment.py": 1},
    "docs/how-to/two-gateways.md": {"test_fleet_howtos.py": 7},
    "docs/how-to/verify-without-accredit.md": {"test_audit_howtos.py": 2, "test_page_commands.py": 2},
}


class Commands(NamedTuple):
    """A block of commands, and why no test runs it ("" if one does)."""

    body: str
    reason: str


def blocks(page: str) -> list[Commands]:
    """The blocks of commands of a page."""
    text = (ROOT / page).read_text("utf-8")
    return [Commands(textwrap.dedent(each["body"]), each["reason"] or "") for each in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_commands_is_run_by_a_test_or_says_why_not(page: str) -> None:
    run = [each for each in blocks(page) if not each.reason]
    assert len(run) == sum(RUN_BY.get(page, {}).values()), (
        "add the block to the page's test, or say why no test runs it"
    )


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, some in RUN_BY.items() for name in some])
def test_the_test_that_runs_a_page_s_commands_is_there_and_names_the_page(page: str, name: str) -> None:
    (test,) = (ROOT / "tests").rglob(name)
    text = test.read_text("utf-8")
    assert Path(page).name in text or f'"{Path(page).stem}"' in text


def test_every_reason_is_a_sentence__and_a_test_that_it_names_is_there() -> None:
    reasons = [each.reason for page in PAGES for each in blocks(page) if each.reason]
    assert reasons
    assert [each for each in reasons if len(each.split()) < 5] == []
    named = {name for each in reasons for name in re.findall(r"test_\w+\.py", each)}
    assert [name for name in named if not [*(ROOT / "tests").rglob(name)]] == []
