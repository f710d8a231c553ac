"""`accredit grant` with a configuration at hand: scopes of tools, and what the gateway would refuse anyway."""

import tomllib
from pathlib import Path

import pytest
from tests.world.in_process import Refused, Run

from accredit.keys import DelegationFile
from accredit.ratify.constraints import MaxAmount

pytestmark = pytest.mark.holds("signing/grant_lookup")

OWNER = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--out", "out.json")
HERE = ("--config", "accredit.toml")


@pytest.fixture(autouse=True)
def configuration(folder: Path) -> Path:
    file = folder / "accredit.toml"
    file.write_text(
        """
[tools.send_email]
scope = "email:send"
[tools.pay]
scope = "payments:send"
[tools."pay: twice"]
scope = "payments:send"
[tools.refund]
scope = "payments:refund"
facts = { amount = "/amount", currency = "EUR" }
[tools.read]
scope = "comms:email:read"
"""
    )
    return file


def signed(folder: Path) -> tuple[str, ...]:
    (cert,) = DelegationFile.decode((folder / "out.json").read_bytes()).delegations
    return cert.scope


def test_a_tool_is_granted_by_its_name(run: Run, folder: Path) -> None:
    done = run(*OWNER, "--tool", "send_email", "--tool", "read", "--scope", "identity:delegate", "--yes", *HERE)
    assert done.code == 0
    assert signed(folder) == ("identity:delegate", "email:send", "comms:email:read")
    assert "note: " not in done.err


def test_what_is_granted_along_with_a_tool_is_told(run: Run, folder: Path) -> None:
    done = run(*OWNER, "--tool", "pay", *HERE)
    assert signed(folder) == ("payments:send",)
    assert "note: payments:send lets the agent use pay: twice as well" in done.err


@pytest.mark.holds("signing/grant_lookup", "unknown-tool")
def test_a_tool_that_the_catalog_lacks_is_refused__also_with_force(refused: Refused) -> None:
    what, remedy = refused(*OWNER, "--tool", "send_mail", "--force", *HERE)
    assert "accredit.toml has no scope for it" in what
    assert "is send_email meant?" in remedy


@pytest.mark.holds("signing/grant_lookup", "unneeded-scope")
@pytest.mark.parametrize("scope", ["email:sent", "mcp:tool", "custom:pay", "comms:email:send", "comms:message:*"])
def test_a_scope_that_nothing_asks_for_is_refused_unless_it_is_meant(
    run: Run, refused: Refused, folder: Path, scope: str
) -> None:
    what, remedy = refused(*OWNER, "--scope", scope, *HERE)
    assert what == f"error: not signed: nothing in accredit.toml asks for {scope}"
    assert "--force" in remedy
    assert scope != "email:sent" or "did you mean --scope email:send? or name a tool" in remedy
    assert run(*OWNER, "--scope", scope, "--force", *HERE).code == 0
    assert signed(folder) == (scope,)


@pytest.mark.parametrize("scope", ["comms:*", "mcp:resource", "mcp:prompt", "payments:refund"])
def test_a_scope_that_something_asks_for_is_signed__also_by_a_wildcard(run: Run, scope: str) -> None:
    assert run(*OWNER, "--scope", scope, "--yes", *HERE).code == 0


@pytest.mark.holds("signing/grant_lookup", "constraint-facts")
def test_a_constraint_on_what_the_gateway_does_not_know_says_what_to_configure__and_that_works(
    run: Run, folder: Path, configuration: Path
) -> None:
    asked = ("--tool", "pay", "--tool", "refund", "--max-amount", "500EUR", *HERE)
    lines = run(*OWNER, *asked).err.splitlines()
    warnings = [line for line in lines if "will be refused" in line]
    assert [line.split(" will ")[0] for line in warnings] == [
        "warning: every call of pay", "warning: every call of pay: twice",
    ]  # fmt: skip
    text = configuration.read_text()
    for advice in (line for line in lines if line.startswith("  add to ")):
        table, _, facts = advice.removeprefix("  add to ").partition(" in accredit.toml: ")
        assert table in text
        text = text.replace(table, f"{table}\n{facts.partition(' (')[0]}")
    tomllib.loads(text)
    configuration.write_text(text)
    done = run(*OWNER, *asked, "--force")
    assert done.code == 0
    assert "will be refused" not in done.err
    (cert,) = DelegationFile.decode((folder / "out.json").read_bytes()).delegations
    assert cert.constraints == (MaxAmount(currency="EUR", max_amount=500),)


def test_without_a_catalog_it_is_told_what_a_constraint_needs(run: Run) -> None:
    done = run(*OWNER, "--scope", "email:send", "--max-amount", "500EUR")
    assert done.code == 0
    assert 'facts = { amount = "/amount", currency = "/currency" }' in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--scope"),
        (("--tool", "pay"), "is not known here"),
        (("--all-read-only",), "is not known here"),
        (("--tool", "pay", *HERE, "--url", "http://127.0.0.1:9/mcp"), "--config and --url"),
        (("--tool", "pay", "--url", "127.0.0.1"), "is not an http or https URL"),
        (("--tool", "pay", "--url", "http://[::1/mcp"), "is not an http or https URL"),
        (("--tool", "pay", "--config", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_what_does_not_say_where_to_look_is_wrong_use(refused: Refused, words: tuple[str, ...], says: str) -> None:
    assert says in refused(*OWNER, *words)[0]
