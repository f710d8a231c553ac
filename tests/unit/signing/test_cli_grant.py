"""`accredit grant`: what it signs, and what it refuses before anything is signed."""

import json
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.delegations import DAY, World, tampered
from tests.world.in_process import Refused, Run, Save

from accredit.base.clock import unix_seconds
from accredit.consent.call import CallTerms
from accredit.keys import DelegationFile, make_key, write_key
from accredit.ratify import DelegationCert, verify_chain
from accredit.ratify.canonical import canonical
from accredit.ratify.constraints import MaxAmount, MaxRate, MaxSpeed, ResourcePath, TimeWindow
from accredit.ratify.structures import UNTIL_REVOKED

pytestmark = [pytest.mark.holds("signing/grant"), pytest.mark.holds("cli/commands/calls")]

OWNER = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub")
AGENT = ("grant", "--issuer", "agent.key", "--agent", "sub.key.pub")
OUT = ("--out", "out.json")
SEND = ("--scope", "comms:email:send")


def written(folder: Path, name: str = "out.json") -> tuple[DelegationCert, ...]:
    return DelegationFile.decode((folder / name).read_bytes()).delegations


def held(world: World, *scope: str, begins: int = 0, ends: int = DAY) -> DelegationCert:
    """What the agent holds of the owner; times are relative to now."""
    now = unix_seconds()
    return world.grant(*(scope or ("comms:*", "identity:delegate")), begins=now + begins, ends=now + ends)


def test_a_delegation_is_signed_and_written(run: Run, folder: Path, world: World) -> None:
    before = unix_seconds()
    done = run(*OWNER, *SEND, "--scope", "files:read", *OUT)
    assert done.code == 0
    (cert,) = written(folder)
    assert verify_chain((cert,), now=unix_seconds()).granted_scope == ["comms:email:send", "files:read"]
    assert (cert.issuer_id, cert.subject_id) == (world.owner.id, world.agent.id)
    assert before <= cert.issued_at <= unix_seconds()
    assert cert.expires_at == cert.issued_at + 7 * DAY
    assert stat.S_IMODE((folder / "out.json").stat().st_mode) == 0o644
    for said in ("Owner", "Mailer", "comms:email:send, files:read", "expires in 7 days", cert.cert_id, "out.json"):
        assert said in done.words


SLIP = ("--scope", "custom:mail:send_emai", "--out", "slip.json", "--force")
CATALOG = '[upstream]\nurl = "http://127.0.0.1:9/mcp"\n[tools.send_email]\nscope = "custom:mail:send_email"\n'


@pytest.mark.parametrize("known_from", ["the folder", "accredit up", "a delegation"])
def test_a_slip_of_a_scope_that_is_known_here_is_told(
    known_from: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delegation of a scope that no gateway knows allows nothing, and was signed without a word."""
    own = folder / "own" / "accredit"
    own.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    file = folder / "accredit.toml"
    if known_from == "a delegation":
        file = own / "delegation.json"
        assert run(*OWNER, "--scope", "custom:mail:send_email", "--out", str(file)).code == 0
    elif known_from == "accredit up":
        file = own / "mail.toml"
        (own / "configurations.json").write_text(json.dumps([str(folder / "gone.toml"), str(file)]))
    if file.suffix == ".toml":
        file.write_text(CATALOG)
    slip = run(*OWNER, *SLIP)
    assert slip.code == 0
    shown = file.name if known_from == "the folder" else file
    told = f"nothing known here asks for custom:mail:send_emai: did you mean custom:mail:send_email, as in {shown}?"
    assert f"{told} Then sign it again, with --scope custom:mail:send_email --force" in " ".join(slip.err.split())
    assert slip.err.count("custom:mail:send_emai:") == 1, "one warning, and no note that contradicts it"
    right = run(*OWNER, "--scope", "custom:mail:send_email", "--out", "right.json")
    assert "did you mean" not in right.err


def test_files_that_can_t_be_read_keep_nobody_from_signing(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = folder / "own" / "accredit"
    own.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    for each in (own / "delegation.json", own / "configurations.json", folder / "accredit.toml"):
        each.write_text("{ broken")
    done = run(*OWNER, *SLIP)
    assert (done.code, "did you mean" in done.err) == (0, False)


def test_every_grant_has_an_id_of_its_own(run: Run, folder: Path) -> None:
    run(*OWNER, *SEND, *OUT)
    run(*OWNER, *SEND, "--out", "other.json")
    assert written(folder)[0].cert_id != written(folder, "other.json")[0].cert_id


def test_for_programs_it_is_json(run: Run, folder: Path) -> None:
    done = run(*OWNER, *SEND, "--rate", "10/1h", *OUT, "--json")
    (cert,) = written(folder)
    assert done.json["cert_id"] == cert.cert_id
    assert done.json["constraints"] == [{"type": "max_rate", "count": 10, "window_s": 3600}]
    assert done.json["file"] == "out.json"
    assert done.json["issued_at"].endswith("Z")


def test_every_constraint_is_signed(run: Run, folder: Path) -> None:
    run(
        *OWNER, *SEND, *OUT, "--max-amount", "500USD", "--between", "09:00-17:00@Europe/Berlin",
        "--resource", "git:acme:/src", "--resource", "git:acme:/src/docs", "--rate", "10/1h", "--rate", "50/1d",
        "--constraint", '{"type": "max_speed_mps", "max_mps": 20}',
    )  # fmt: skip
    assert written(folder)[0].constraints == (
        MaxAmount(currency="USD", max_amount=500),
        TimeWindow(start="09:00", end="17:00", tz="Europe/Berlin"),
        ResourcePath(resource_id="git:acme", path_prefix="/src"),
        ResourcePath(resource_id="git:acme", path_prefix="/src/docs"),
        MaxRate(count=10, window_s=3600),
        MaxRate(count=50, window_s=DAY),
        MaxSpeed(max_mps=20),
    )


def test_it_can_hold_until_revoked(run: Run, folder: Path) -> None:
    done = run(*OWNER, *SEND, *OUT, "--expires", "until-revoked")
    assert written(folder)[0].expires_at == UNTIL_REVOKED
    assert "until revoked" in done.words


@pytest.mark.holds("signing/grant", "consent")
def test_a_scope_that_only_a_catalog_knows_is_signed_with_a_warning(run: Run, folder: Path) -> None:
    done = run(*OWNER, "--scope", "email:send", "--scope", "mcp:tool", *OUT)
    assert done.code == 0
    assert written(folder)[0].scope == ("email:send", "mcp:tool")
    warning, note = done.err.splitlines()
    assert warning.startswith("warning: email:send is not one of Ratify's own scopes")
    assert "comms:email:send" in warning
    assert note.startswith("note: it was not checked whether a gateway knows email:send: name one with --config")


def test_a_constraint_that_few_verifiers_know_is_signed_with_a_warning(run: Run) -> None:
    done = run(*OWNER, *SEND, *OUT, "--constraint", '{"type": "com.example.hours", "params": {"a": 1}}')
    assert done.code == 0
    assert "warning: only verifiers that know com.example.hours" in done.err


def test_a_bound_on_calls_is_accredits_own__and_frightens_nobody_who_pastes_a_suggested_line(run: Run) -> None:
    terms = CallTerms(gateway="g", method="tools/call", target=("x",))
    words = canonical(terms.constraint().members()).decode()
    done = run(*OWNER, *SEND, *OUT, "--constraint", words)
    assert done.code == 0
    assert "only verifiers" not in done.err


@pytest.mark.holds("signing/grant", "consent")
def test_sensitive_scopes_are_not_signed_where_there_is_nobody_to_ask(refused: Refused) -> None:
    what, remedy = refused(*OWNER, *SEND, "--scope", "files:write", "--scope", "payments:authorize", *OUT)
    assert "files:write, payments:authorize" in what
    assert "--yes" in remedy


def test_yes_signs_them_and_still_says_so(run: Run, folder: Path) -> None:
    done = run(*OWNER, "--scope", "files:write", *OUT, "--yes")
    assert done.code == 0
    assert done.err == "warning: files:write is sensitive\n"
    assert written(folder)[0].scope == ("files:write",)


def test_a_part_is_passed_on(run: Run, folder: Path, world: World, save: Save) -> None:
    parent = held(world)
    done = run(*AGENT, *SEND, "--expires", "1h", "--parent", save(parent), *OUT)
    assert done.code == 0, done
    leaf, above = written(folder)
    assert above == parent
    assert (leaf.issuer_id, leaf.subject_id) == (world.agent.id, world.sub.id)
    assert leaf.expires_at == leaf.issued_at + 3600
    assert verify_chain((leaf, above), now=unix_seconds()).granted_scope == ["comms:email:send"]


@pytest.mark.parametrize("expires", ["2d", "until-revoked"])
def test_what_is_passed_on_ends_with_its_parent(expires: str, run: Run, folder: Path, world: World, save: Save) -> None:
    parent = held(world)
    done = run(*AGENT, *SEND, "--expires", expires, "--parent", save(parent), *OUT)
    assert written(folder)[0].expires_at == parent.expires_at
    assert "note: it ends with the delegation in delegation.json" in done.err


def test_a_chain_of_eight_is_as_long_as_it_gets(run: Run, refused: Refused, world: World, save: Save) -> None:
    chain: tuple[DelegationCert, ...] = ()
    now, issuer = unix_seconds(), world.owner
    for _ in range(7):
        holder = make_key("agent", "Holder", 0)
        scope = ("comms:email:send", "identity:delegate")
        chain = (world.grant(*scope, issuer=issuer, to=holder, begins=now, ends=now + DAY), *chain)
        issuer = holder
    write_key(Path("last.key"), issuer)
    last = ("grant", "--issuer", "last.key", "--agent", "sub.key.pub", "--parent", save(*chain), "--yes")
    assert run(*last, *SEND, "--scope", "identity:delegate", *OUT).code == 0
    more = ("grant", "--issuer", "sub.key", "--agent", "agent.key.pub", "--parent", "out.json")
    assert "longer than 8" in refused(*more, *SEND, "--out", "more.json")[0]


def test_a_chain_that_no_proof_could_hold(refused: Refused, world: World, save: Save) -> None:
    many = tuple(f"custom:{number:03}{'x' * 245}" for number in range(127))
    now, issuer = unix_seconds(), world.owner
    chain: tuple[DelegationCert, ...] = ()
    for holder in (world.sub, world.agent):
        scope = (*many, "identity:delegate")
        chain = (world.grant(*scope, issuer=issuer, to=holder, begins=now, ends=now + DAY), *chain)
        issuer = holder
    last = (*AGENT, "--parent", save(*chain), *(f"--scope={scope}" for scope in many), *OUT)
    assert "too long to be proved" in refused(*last)[0]


def test_a_scope_that_is_said_twice_is_granted_once(run: Run, folder: Path) -> None:
    run(*OWNER, *SEND, *SEND, *OUT)
    assert written(folder)[0].scope == ("comms:email:send",)


@pytest.mark.holds("signing/grant", "worthless")
@pytest.mark.parametrize(
    ("scope", "word"),
    [
        (("files:read",), "does not grant files:read"),
        (("comms:email:send", "custom:x"), "does not grant custom:x"),
        (("comms:*",), "comms:email:read"),
        (("email:send",), "does not grant email:send"),
    ],
)
def test_scopes_that_the_parent_does_not_hold(
    scope: tuple[str, ...], word: str, refused: Refused, world: World, save: Save
) -> None:
    parent = held(world, "comms:email:send", "identity:delegate")
    what, _ = refused(*AGENT, *(f"--scope={each}" for each in scope), "--parent", save(parent), *OUT)
    assert word in what


@pytest.mark.holds("signing/grant", "worthless")
def test_a_parent_that_expired(refused: Refused, world: World, save: Save) -> None:
    parent = held(world, begins=-2 * DAY, ends=-DAY)
    what, remedy = refused(*AGENT, *SEND, "--parent", save(parent), *OUT)
    assert "expired" in what
    assert "accredit inspect delegation.json" in remedy


def test_a_parent_that_has_not_begun(refused: Refused, world: World, save: Save) -> None:
    assert "not yet valid" in refused(*AGENT, *SEND, "--parent", save(held(world, begins=3600)), *OUT)[0]


def test_a_parent_without_identity_delegate(refused: Refused, world: World, save: Save) -> None:
    parent = held(world, "comms:email:send")
    assert "does not grant identity:delegate" in refused(*AGENT, *SEND, "--parent", save(parent), *OUT)[0]


def test_a_parent_for_somebody_else(refused: Refused, world: World, save: Save) -> None:
    parent = held(world)
    owner = ("grant", "--issuer", "owner.key", "--agent", "sub.key.pub")
    assert "not for this issuer" in refused(*owner, *SEND, "--parent", save(parent), *OUT)[0]


def test_a_parent_that_was_changed(refused: Refused, world: World, save: Save) -> None:
    parent = tampered(held(world, "comms:email:send", "identity:delegate"), scope=("files:read", "identity:delegate"))
    what, _ = refused(*AGENT, "--scope", "files:read", "--parent", save(parent), *OUT)
    assert "signature invalid" in what


def test_a_parent_that_is_no_delegation(refused: Refused, folder: Path) -> None:
    for content in (b"", b"{}", b'{"delegations": []}', (folder / "owner.key.pub").read_bytes()):
        (folder / "parent.json").write_bytes(content)
        assert "is not a delegation" in refused(*AGENT, *SEND, "--parent", "parent.json", *OUT)[0]


@pytest.mark.holds("signing/grant", "vocabulary")
@pytest.mark.parametrize(
    ("scope", "word"),
    [("email", '"email"'), ("email:*", '"email:*"'), ("urn:x:y", '"urn:x:y"'), ("", '""'), ("a\nb:c", '"a\\nb:c"')],
)
def test_scopes_that_no_vocabulary_can_hold(scope: str, word: str, refused: Refused) -> None:
    assert word in refused(*OWNER, *SEND, "--scope", scope, *OUT)[0]


@pytest.mark.parametrize(
    "option",
    [
        ("--max-amount", "500"),
        ("--between", "9-17"),
        ("--resource", ""),
        ("--resource", "git:acme:/a/../b"),
        ("--rate", "10"),
        ("--constraint", "{"),
        ("--expires", "soon"),
        ("--constraint", '{"type": "max_amount", "currency": "USD", "max_amount": 0.00001}'),
        ("--constraint", '{"type": "com.example.x", "params": {"a": "<b>"}}'),
        ("--constraint", '{"type": "com.example.x", "params": {"a": 1.5}}'),
    ],
)
def test_broken_terms(option: tuple[str, str], refused: Refused) -> None:
    refused(*OWNER, *SEND, *option, *OUT)


def test_two_resources_are_two_delegations(refused: Refused) -> None:
    assert "resource" in refused(*OWNER, *SEND, "--resource", "a", "--resource", "b", *OUT)[0]


@pytest.mark.holds("signing/grant", "files")
@pytest.mark.parametrize(
    ("issuer", "agent", "word"),
    [
        ("owner.key.pub", "agent.key.pub", "can't sign"),
        ("owner.key", "agent.key", "private key, and a public one"),
        ("agent.key", "agent.key.pub", "agent.key is not a human's key (agent)"),
        ("owner.key", "owner.key.pub", "key of kind human"),
        ("agent.key", "sub.key.pub", "only a human begins a chain"),
        ("missing.key", "agent.key.pub", "missing.key"),
        ("owner.key", "missing.pub", "missing.pub"),
        ("junk.key", "agent.key.pub", "not a key file"),
        ("gateway.key", "agent.key.pub", "only a human begins a chain"),
        ("owner.key", "gateway.key.pub", "key of kind gateway"),
    ],
)
def test_the_wrong_key(issuer: str, agent: str, word: str, refused: Refused, folder: Path) -> None:
    (folder / "junk.key").write_bytes(b"junk")
    write_key(folder / "gateway.key", make_key("gateway", "Gate", 0))
    assert word in refused("grant", "--issuer", issuer, "--agent", agent, *SEND, *OUT)[0]


def test_a_key_that_others_can_read(refused: Refused, folder: Path) -> None:
    (folder / "owner.key").chmod(0o644)
    what, remedy = refused(*OWNER, *SEND, *OUT)
    assert "mode 0644" in what
    assert "chmod 600 owner.key" in remedy


@pytest.mark.holds("signing/grant", "files")
def test_a_file_that_is_there_is_replaced_only_by_force(run: Run, refused: Refused, folder: Path) -> None:
    (folder / "out.json").write_bytes(b"precious")
    what, remedy = refused(*OWNER, *SEND, *OUT)
    assert "out.json exists already" in what
    assert "--force" in remedy
    assert run(*OWNER, *SEND, *OUT, "--force").code == 0
    assert len(written(folder)) == 1


def test_where_nothing_can_be_written(refused: Refused) -> None:
    assert "no-such-folder" in refused(*OWNER, *SEND, "--out", "no-such-folder/out.json")[0]


@pytest.mark.parametrize("missing", ["--issuer", "--agent", "--scope", "--out"])
def test_what_has_to_be_said(missing: str, refused: Refused) -> None:
    words = [*OWNER, *SEND, *OUT]
    at = words.index(missing)
    assert missing in refused(*words[:at], *words[at + 2 :])[0]


def test_the_bounds_of_a_certificate_hold(refused: Refused) -> None:
    many = [f"--scope=custom:{number}" for number in range(129)]
    assert "MAX_SCOPES_PER_CERT" in refused(*OWNER, *many, *OUT)[0]
    assert "MAX_SCOPE_LENGTH_BYTES" in refused(*OWNER, "--scope", "custom:" + "x" * 256, *OUT)[0]
    rates = [word for _ in range(33) for word in ("--rate", "1/1h")]
    assert "MAX_CONSTRAINTS_PER_CERT" in refused(*OWNER, *SEND, *rates, *OUT)[0]


def test_a_name_from_a_file_can_not_steer_the_terminal(run: Run, folder: Path, world: World) -> None:
    key = replace(world.agent.public(), name="a\x1b]0;b")
    (folder / "evil.pub").write_bytes(key.text())
    done = run("grant", "--issuer", "owner.key", "--agent", "evil.pub", *SEND, *OUT)
    assert done.code == 2
    assert "\x1b" not in done.err
    assert json.loads(key.text())["name"] == key.name
