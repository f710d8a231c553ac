"""The library in the hands of somebody in a hurry: misuse is refused, and the examples are the safe ones."""

import ast
import math
import operator
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.unit.ratify.world import AGENT, HUMAN, NOW, STRANGER, certificate, proof
from tests.unit.server.test_server_gate import start_refused
from tests.world.guarded import KINDS, Guarded
from tests.world.records import Chained, gateway

from accredit.attest import encode_envelope, examine, verify_log
from accredit.base.clock import unix_seconds
from accredit.client import ProofPresenter
from accredit.errors import ConfigurationError, FrameError
from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.policy import guarded_call_from_values
from accredit.ratify import (
    DelegationCert,
    IdentityStatus,
    VerifyResult,
    encode_proof_bundle,
    issue_revocation_list,
    present,
    verify_bundle,
    verify_chain,
)
from accredit.ratify.extras.transactions import ReceiptResult
from accredit.rounds import input_response
from accredit.server import ProofGuard, TokenRules, TrustedIssuer, require
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.verify import Issuer, UnverifiedToken, check_tool

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs/reference"
SCOPE = "comms:email:send"
MAIL = b"Dear Sir"
KEY = gateway()[1]


@pytest.mark.parametrize(
    "result",
    [
        verify_bundle(proof(), "files:read", now=NOW),
        verify_bundle(proof(), "files:write", now=NOW),
        verify_chain((), now=NOW),
        ReceiptResult(valid=False, error_reason="no_parties", party_results=()),
        verify_log([], [KEY]),
        verify_log([b"rubbish"], [KEY]),
        examine(b"rubbish", {}),
        UnverifiedToken(Issuer("https://issuer.example", "mail"), None, "forged"),
        IdentityStatus.EXPIRED,
        input_response({}, "sure"),
        input_response({"sure": {"action": "decline"}}, "sure"),
    ],
    ids=repr,
)
def test_a_result_is_never_taken_for_a_boolean__a_refused_one_would_be_true(
    result: object,
) -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(result)
    with pytest.raises(TypeError, match="neither true nor false"):
        operator.not_(result)


@pytest.mark.parametrize("scope", [None, 0, False, b"files:read", ["files:read"]])
def test_a_scope_that_a_lookup_did_not_find_is_refused__it_asked_for_nothing(scope: Any) -> None:
    with pytest.raises(TypeError, match="required_scope is "):
        verify_bundle(proof(), scope, now=NOW)
    with pytest.raises(TypeError, match="token_scope is "):
        check_tool(VerifiedToken("i", "s", NOW, "ab"), "pay", scope)
    with pytest.raises(TypeError, match="token_scope is "):
        check_tool(None, "pay", scope)


def test_a_vocabulary_of_one_text_is_refused__its_letters_are_no_scopes() -> None:
    with pytest.raises(TypeError, match="write vocabulary="):
        verify_bundle(proof(), "files:read", now=NOW, vocabulary="files:read")


def test_a_revocation_of_one_text_is_refused__it_would_revoke_its_letters() -> None:
    with pytest.raises(TypeError, match=r"write \[cert_id\]"):
        issue_revocation_list(HUMAN, "0123456789abcdef", NOW)


def test_an_empty_scope_or_context_is_refused__it_asked_for_nothing() -> None:
    with pytest.raises(ValueError, match="required_scope is empty"):
        verify_bundle(proof(), "", now=NOW)
    for context in (b"", "", 0, [], False):
        empty: Any = context
        with pytest.raises(ValueError, match="session_context is empty"):
            verify_bundle(proof(), "files:read", now=NOW, session_context=empty)


@pytest.mark.parametrize("now", [math.nan, float(NOW), True, str(NOW)])
def test_a_time_that_is_no_whole_number_is_refused__after_no_end_comes_a_nan(now: Any) -> None:
    with pytest.raises(TypeError, match="write now=int"):
        verify_bundle(proof(), "files:read", now=now)
    with pytest.raises(TypeError, match="write now=int"):
        verify_chain([certificate()], now=now)


def test_an_examiner_is_named__in_the_place_of_kept_checkpoints_it_would_be_taken_for_some() -> None:
    with pytest.raises(TypeError, match="positional"):
        verify_log([], [KEY], [], examine)  # pyright: ignore[reportCallIssue]


def test_one_text_in_the_place_of_a_list_is_refused__its_letters_name_nothing(tmp_path: Path) -> None:
    issuer = TrustedIssuer("https://issuer.example", "mail", jwks_url="https://issuer.example/keys")
    wrong: dict[str, Callable[[], object]] = {
        "revocation_files": lambda: ProofGuard([HUMAN.public_key], "mail", revocation_files="revoked.json"),
        "roots": lambda: ProofGuard("owner.key.pub", "mail"),
        "methods": lambda: ProofGuard([HUMAN.public_key], "mail", methods="vendor/run"),
        "algorithms": lambda: ProofGuard(None, "mail", tokens=TokenRules([replace(issuer, algorithms="ES256")])),
        "required_scopes": lambda: ProofGuard(None, "mail", tokens=TokenRules([replace(issuer, required_scopes="a")])),
        "delegations": lambda: ProofPresenter("agent.key", "delegation.json"),
    }
    for name, make in wrong.items():
        with pytest.raises(ConfigurationError, match=f"{name} is one"):
            make()


@pytest.mark.parametrize("name", ["allowed_hosts", "allowed_origins", "forward_headers", "methods", "passthrough"])
def test_settings_of_one_text_in_the_place_of_several_are_refused__its_letters_name_nothing(name: str) -> None:
    one_text: Any = {name: "mcp.example.org"}
    with pytest.raises(ConfigurationError, match=f"{name} is one text"):
        GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"), **one_text)


@pytest.mark.parametrize(
    "upstream",
    [[], (), [Path("python"), "server.py"], [b"python"], [GatewaySettings(StdioUpstream(("a",))), "b"], b"python"],
)
def test_an_upstream_that_is_half_a_command_is_refused__the_rest_of_it_would_run(upstream: Any) -> None:
    with pytest.raises(ConfigurationError, match="neither a command"):
        create_app(upstream)


@pytest.mark.parametrize("store", [None, Path("proofs.db")])
def test_a_store_that_is_none_is_refused__each_call_would_fail(store: Any) -> None:
    with pytest.raises(ConfigurationError, match="store is "):
        ProofGuard([HUMAN.public_key], "mail", store=store)


@pytest.mark.parametrize("method", ["ping", "", "tools/none"])
def test_a_call_of_a_method_that_nobody_proves_is_the_documented_error(method: str) -> None:
    with pytest.raises(FrameError, match="of this method"):
        guarded_call_from_values(method, {"name": "list_inbox"}, "", None)


@pytest.mark.parametrize("scope", ["", " ", "two scopes", None])
def test_a_tool_that_asks_a_token_for_no_scope_is_refused__it_asked_for_nothing(scope: Any) -> None:
    issuer = TrustedIssuer("https://issuer.example", "mail", jwks_url="https://issuer.example/keys")
    with pytest.raises(ConfigurationError, match="tool_scopes"):
        ProofGuard(None, "mail", tokens=TokenRules([issuer], tool_scopes={"pay": scope}))


@pytest.mark.parametrize("scope", [None, len, ["email:read"]])
def test_a_bare_require__or_one_whose_scope_a_lookup_did_not_find__is_told_what_to_write(scope: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no text"):
        require(scope)
    with pytest.raises(ConfigurationError, match="is no text"):
        require("email:read", accepts=[scope])


@pytest.mark.parametrize("said", [None, 0, "no"])
def test_a_yes_or_no_that_a_lookup_did_not_find_is_refused__none_asked_for_nothing(said: Any) -> None:
    issuer = TrustedIssuer("https://issuer.example", "mail", jwks_url="https://issuer.example/keys")
    wrong: dict[str, Callable[[], object]] = {
        "required": lambda: ProofGuard(None, "mail", tokens=TokenRules([issuer], required=said)),
        "bind_agent": lambda: ProofGuard(None, "mail", tokens=TokenRules([issuer], bind_agent=said)),
        "sensitive": lambda: require("email:send", sensitive=said),
    }
    for name, make in wrong.items():
        with pytest.raises(ConfigurationError, match=f"{name} is "):
            make()


@pytest.mark.parametrize("kind", KINDS)
def test_a_scope_for_a_tool_that_is_not_there_stops_the_start__the_one_that_is_meant_asks_for_none(kind: str) -> None:
    issuer = TrustedIssuer("https://issuer.example", "mail", jwks_url="https://issuer.example/keys")
    rules = TokenRules([issuer], tool_scopes={"pay": "mail:pay", "sned_email": "mail:send"})
    assert "sned_email" in start_refused(Guarded(kind, None, tokens=rules).server)


@pytest.mark.parametrize("entries", [[], [b"rubbish"]])
def test_without_keys_no_log_is_judged__an_empty_one_was_valid(entries: list[bytes]) -> None:
    with pytest.raises(ValueError, match="no keys"):
        verify_log(entries, [])


def example_of(page: str) -> str:
    text = (REFERENCE / page).read_text("utf-8")
    (code,) = re.findall(r"```python\n((?:import|from) .*?)```", text, re.DOTALL)
    return code


class Verifier:
    """The verifier of `ratify.md`, as it stands there, and an agent that was allowed to send mail."""

    def __init__(self, change: Callable[[str], str] = str) -> None:
        self.revoked: set[str] = set()
        self.names: dict[str, Any] = {"owner_key": HUMAN.public_key, "revoked": self.revoked}
        exec(change(example_of("ratify.md")), self.names)
        self.now = unix_seconds()

    def text(self, mail: bytes = MAIL, cert: DelegationCert | None = None) -> bytes:
        """What the agent sends with this mail, over a challenge for it."""
        challenge = self.names["challenge_for"](AGENT.id, mail, self.now)
        context = self.names["context_of"](AGENT.id, mail)
        return encode_proof_bundle(present([cert or self.cert()], AGENT, challenge, self.now, session_context=context))

    def cert(self, **changes: Any) -> DelegationCert:
        members: dict[str, Any] = {"scope": (SCOPE,), "issued_at": self.now - 5, "expires_at": self.now + 600}
        return certificate(changes.pop("issuer", HUMAN), **members | changes)

    def judge(self, text: bytes, mail: bytes = MAIL) -> VerifyResult:
        return self.names["judge"](text, AGENT.id, mail)


def test_the_verifier_of_the_reference_lets_a_good_call_pass_once__and_nothing_else() -> None:
    verifier = Verifier()
    text = verifier.text()
    assert "session_context_mismatch" in verifier.judge(text, b"Dear Thief").error_reason
    assert verifier.judge(text).valid
    assert "unknown_challenge" in verifier.judge(text).error_reason
    assert "scope_denied" in verifier.judge(verifier.text(cert=verifier.cert(scope=("files:read",)))).error_reason
    assert "untrusted_root" in verifier.judge(verifier.text(cert=verifier.cert(issuer=STRANGER))).error_reason
    text = verifier.text(cert=verifier.cert(cert_id="lost"))
    verifier.revoked.add("lost")
    assert verifier.judge(text).identity_status == "revoked"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("session_context=context_of(agent_id, mail),", ""), "session_context_unverifiable"),
        (("is_revoked=revoked.__contains__", "is_revoked=revoked"), "revocation_error"),
        (("roots=[owner_key]", "roots=[owner_key.id]"), "untrusted_root"),
        (("roots=[owner_key]", "roots=[]"), "untrusted_root"),
    ],
)
def test_the_verifier_of_the_reference_with_a_slip_lets_nothing_pass(change: tuple[str, str], reason: str) -> None:
    verifier = Verifier(lambda code: code.replace(*change))
    result = verifier.judge(verifier.text())
    assert (result.valid, result.error_reason.split(":")[0]) == (False, reason)


@pytest.mark.parametrize("damage", ["none", "a record is missing", "no key", "nothing is there"])
def test_the_auditor_of_the_reference_stops_at_a_log_that_is_not_good__or_not_there(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [encode_envelope(each) for each in Chained(writer="0f" * 16).calls(2)]
    left = {"a record is missing": lines[1:], "nothing is there": []}.get(damage, lines)
    (tmp_path / "calls.jsonl").write_bytes(b"".join(line + b"\n" for line in left))
    before = 'keys = [log_key(load_public_key(Path("gateway.key.pub")))]'
    code = example_of("attestation.md")
    assert before in code
    names: dict[str, Any] = {"known": [] if damage == "no key" else [KEY]}
    if damage == "none":
        exec(code.replace(before, "keys = known"), names)
        return
    with pytest.raises((SystemExit, ValueError), match=r"BAD|no keys"):
        exec(code.replace(before, "keys = known"), names)


EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
]


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """The product, one file after another: all at once are 150 MiB."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        yield path, ast.parse(path.read_text("utf-8"))


def raises_as_boolean(node: ast.ClassDef) -> bool:
    return any(
        isinstance(each, ast.FunctionDef)
        and each.name == "__bool__"
        and "NoReturn" in ast.unparse(each.returns or each)
        for each in node.body
    )


@cache
def functions_with_results() -> set[str]:
    """The names of all functions that a package offers and that return what is neither true nor false."""
    results: set[str] = set()
    bases: dict[str, set[str]] = {}
    returned: list[tuple[str, set[str]]] = []
    offered: set[str] = set()
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base) for base in node.bases}
                results |= {node.name} if raises_as_boolean(node) else set()
            elif isinstance(node, ast.FunctionDef) and node.returns:
                returned.append((node.name, set(re.findall(r"\w+", ast.unparse(node.returns)))))
            elif isinstance(node, ast.Constant) and path.name == "__init__.py":
                offered.add(str(node.value))
    results |= {name for name, own in bases.items() if results & own}
    return {name for name, words in returned if name in offered and results & words}


def taken_for_booleans(tree: ast.AST) -> list[str]:
    """Where such a result, or a name that was given one, is tested."""
    tested: list[ast.expr] = []
    named: set[str] = set()

    def is_result(node: ast.expr) -> bool:
        node = node.value if isinstance(node, ast.Await) else node
        called = node.func if isinstance(node, ast.Call) else None
        return getattr(called, "id", getattr(called, "attr", "")) in functions_with_results()

    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_result(value):
                named.add(name)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                tested.append(test)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                tested.append(operand)
            case ast.BoolOp(values=values):
                tested += values
            case ast.comprehension(ifs=ifs):
                tested += ifs
            case _:
                pass
    return [
        ast.unparse(each) for each in tested if is_result(each) or (isinstance(each, ast.Name) and each.id in named)
    ]


def test_a_result_that_is_tested_is_found() -> None:
    assert {"verify_bundle", "verify_chain", "verify_log", "examine", "input_response"} <= functions_with_results()
    code = "if not verify_bundle(b): pass\nresult = verify_log(e, k)\nok = result and verify_chain(c).valid"
    assert taken_for_booleans(ast.parse(code)) == ["verify_bundle(b)", "result"]


@pytest.mark.slow
def test_no_module_takes_a_result_for_a_boolean() -> None:
    assert {path: found for path, tree in trees() if (found := taken_for_booleans(tree))} == {}


def keywords(call: ast.Call) -> set[str]:
    return {each.arg for each in call.keywords if each.arg}


NEEDED = {
    "verify_bundle": {"required_scope", "roots", "is_revoked", "session_context", "challenge_store"},
    "ProofGuard": {"roots", "gateway_id"},
    "TrustedIssuer": {"audience"},
}
"""What an example of each names, by keyword or in its place: without it the check is weaker."""


@pytest.mark.parametrize("code", EXAMPLES)
def test_each_example_of_each_page_is_the_safe_one(code: str) -> None:
    try:
        tree = ast.parse(code)
    except SyntaxError:  # an example of a part, with what only a coroutine may say
        tree = ast.parse("async def main():\n" + textwrap.indent(code, "    "))
    assert taken_for_booleans(tree) == []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        missing = NEEDED.get(name, set[str]()) - keywords(call)
        if name == "verify_bundle" and len(call.args) > 1:
            missing -= {"required_scope"}
        assert not missing, f"{name} without {missing}"
        if name in ("AccreditedClient", "ProofPresenter"):
            assert not any(each.arg == "binding" for each in call.keywords), "an example of an unbound proof"
