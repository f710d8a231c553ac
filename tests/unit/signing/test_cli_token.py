"""`accredit token keygen|issue|verify`, run in this process, in a folder with a key."""

import json
import stat
import time
from pathlib import Path

import pytest
from tests.world.in_process import Run, runs
from tests.world.issuer import IssuerKey, claims, key_set_text

from accredit.keys import load_token_key, make_token_key, write_token_key
from accredit.tokens.verify import policy_digest

pytestmark = [
    pytest.mark.holds("signing/token_issue"),
    pytest.mark.holds("signing/token_verify"),
    pytest.mark.holds("cli/commands/keys"),
]

KEY = make_token_key()
TO = ("--agent", "agent-7", "--audience", "gate")
BY = ("--key", "t.key.pub", "--audience", "gate")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_token_key(tmp_path / "t.key", KEY)
    (tmp_path / "accredit.toml").write_text("[gateway]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCREDIT_TOKEN", raising=False)
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    assert folder.is_dir()
    return runs(monkeypatch, capsys, "token")


def test_a_key_is_made(run: Run, folder: Path) -> None:
    done = run("keygen", "new.key")
    assert done.code == 0
    load_token_key(folder / "new.key")
    assert "new.key.pub" in done.words
    again = run("keygen", "new.key")
    assert (again.code, "exists already" in again.err) == (2, True)
    assert "--force" in again.err
    forced = run("keygen", "new.key", "--force", "--json")
    assert forced.json["files"] == {"private": "new.key", "public": "new.key.pub"}
    assert forced.json["public_key"]["kid"] == forced.json["kid"]
    assert "d" not in forced.json["public_key"]


def test_a_token_is_printed_alone__a_script_takes_it_as_it_is(run: Run, folder: Path) -> None:
    done = run("issue", "--key", "t.key", *TO)
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    (folder / "s.token").write_text(done.out)
    assert run("verify", "s.token", *BY).code == 0


def test_a_token_says_what_was_asked_for(run: Run, folder: Path) -> None:
    digest = policy_digest((folder / "accredit.toml").read_bytes())
    limits = ("--allow", "send", "--allow", "list", "--allow", "send", "--deny", "drop")
    more = ("--policy", "accredit.toml", "--ttl", "1h", "--out", "s.token", "--json")
    done = run("issue", "--key", "t.key", *TO, *limits, *more)
    assert "token" not in done.json
    assert stat.S_IMODE((folder / "s.token").stat().st_mode) == 0o600
    checked = run("verify", "s.token", *BY, "--policy", "accredit.toml", "--tool", "send", "--json")
    assert checked.code == 0
    assert checked.json == {
        "valid": True,
        "issuer": "accredit",
        "subject": "agent-7",
        "expires_at": done.json["expires_at"],
        "jti": done.json["jti"],
        "kid": checked.json["kid"],
        "scopes": [],
        "allowed_tools": ["list", "send"],
        "denied_tools": ["drop"],
        "policy_digest": digest,
        "policy_checked": True,
        "session": None,
        "session_checked": False,
        "sha256": checked.json["sha256"],
    }
    said = run("verify", "s.token", *BY)
    for words in ("token good", "for agent-7", "list, send, but not drop", f"{digest} (not checked"):
        assert words in said.words
    assert (folder / "s.token").read_text().strip() not in said.out + checked.out + done.out


def test_a_token_for_one_session_says_so_and_is_good_in_no_other(run: Run) -> None:
    done = run("issue", "--key", "t.key", *TO, "--session", "5e55.tag", "--out", "s.token")
    assert "session 5e55.tag" in done.words
    assert run("verify", "s.token", *BY, "--session", "5e55.tag").code == 0
    assert "5e55.tag (not checked: name it with --session)" in run("verify", "s.token", *BY).words
    elsewhere = run("verify", "s.token", *BY, "--session", "5e55.other", "--json")
    assert (elsewhere.code, elsewhere.json["reason"]) == (1, "names another session")
    assert run("issue", "--key", "t.key", *TO, "--session", "").code == 2
    assert "session any" in run_verified(run)


def run_verified(run: Run) -> str:
    """What is said of a token without limits."""
    run("issue", "--key", "t.key", *TO, "--out", "free.token")
    return run("verify", "free.token", *BY).words


def test_what_was_written_is_said(run: Run) -> None:
    done = run("issue", "--key", "t.key", *TO, "--out", "s.token")
    for words in ("for agent-7", "audience gate", "tools all", "in 15 minutes", "s.token"):
        assert words in done.words
    again = run("issue", "--key", "t.key", *TO, "--out", "s.token")
    assert (again.code, again.out) == (2, "")
    assert run("issue", "--key", "t.key", *TO, "--out", "s.token", "--force").code == 0
    assert "token" in run("issue", "--key", "t.key", *TO, "--json").json


def test_a_token_in_the_environment_is_verified(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCREDIT_TOKEN", run("issue", "--key", "t.key", *TO).out.strip())
    assert "tools all" in run("verify", *BY).words
    assert "policy any" in run("verify", *BY).words


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("--key", "t.key.pub", "--audience", "other"), "for another audience"),
        (("--key", "other.key.pub", "--audience", "gate"), "the signature is not good"),
        ((*BY, "--issuer", "https://issuer.example"), "an issuer that is not configured"),
        ((*BY, "--tool", "drop"), "not one of the token's tools"),
        ((*BY, "--policy", "changed.toml"), "issued under another policy"),
    ],
)
def test_a_token_that_is_not_good_is_exit_code_1(asked: tuple[str, ...], reason: str, run: Run, folder: Path) -> None:
    write_token_key(folder / "other.key", make_token_key())
    (folder / "changed.toml").write_text("[gateway]\nport = 1\n")
    run("issue", "--key", "t.key", *TO, "--deny", "drop", "--policy", "accredit.toml", "--out", "s.token")
    said, told = run("verify", "s.token", *asked), run("verify", "s.token", *asked, "--json")
    assert (said.code, told.code) == (1, 1)
    assert reason in said.words
    assert (told.json["valid"], told.json["reason"]) == (False, reason)


def test_a_token_of_an_issuer_with_a_key_set_is_verified(run: Run, folder: Path) -> None:
    key, old = IssuerKey("k", "EdDSA"), IssuerKey("old", "RS256")
    (folder / "jwks.json").write_bytes(key_set_text(key, old))
    asked = ("--key", "jwks.json", "--audience", "gate", "--issuer", "https://issuer.example")
    now = int(time.time())
    (folder / "good").write_text(key.sign(claims("https://issuer.example", now, aud="gate", scope="a b")) + "\r\n")
    (folder / "old").write_text(old.sign(claims("https://issuer.example", now - 3_600, aud="gate")))
    assert "scopes a b" in run("verify", "good", *asked).words
    assert run("verify", "old", *asked, "--json").json == {
        "valid": False,
        "error": "invalid_token",
        "reason": "expired",
    }


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("issue", "--key", "t.key.pub", *TO), "not a private P-256 key"),
        (("issue", "--key", "missing.key", *TO), "missing.key"),
        (("issue", "--key", "t.key", *TO, "--ttl", "soon"), "--ttl"),
        (("issue", "--key", "t.key", *TO, "--ttl", "0s"), "--ttl"),
        (("issue", "--key", "t.key", "--audience", "gate"), "--agent"),
        (("issue", "--key", "t.key", "--agent", "", "--audience", "gate"), "--agent"),
        (("issue", "--key", "t.key", "--agent", "a\nb", "--audience", "gate"), "--agent"),
        (("issue", "--key", "t.key", *TO, "--issuer", ""), "--issuer"),
        (("issue", "--key", "t.key", *TO, "--policy", "missing.toml"), "missing.toml"),
        (("issue", "--key", "t.key", *TO, "--allow", "t" * 20_000), "16384"),
        (("verify", *BY), "no token"),
        (("verify", "missing", *BY), "missing"),
        (("verify", "accredit.toml", "--key", "accredit.toml", "--audience", "gate"), "accredit.toml"),
        (("verify", "accredit.toml", "--key", "t.key", "--audience", "gate"), "t.key"),
        (("verify", "accredit.toml", *BY[:2], "--audience", ""), "audience"),
        (("verify", "accredit.toml", *BY, "--policy", "missing.toml"), "missing.toml"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], word: str, run: Run) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert word in done.err.splitlines()[0]
    assert done.err.splitlines()[1].startswith("help: ")


def test_what_is_no_token_is_only_not_good(run: Run, folder: Path) -> None:
    (folder / "bad").write_bytes(b"\xff\x1b[31m.a.b\n")
    done = run("verify", "bad", *BY, "--json")
    assert done.code == 1
    assert json.loads(done.out)["error"] == "invalid_token"
