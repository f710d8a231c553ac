"""`accredit inspect` on a token: what it claims, and whether a key has signed it; the token itself is never shown."""

import json
from pathlib import Path

import pytest

from accredit.cli import main
from accredit.ops.inspect_token import is_token

pytestmark = pytest.mark.holds("ops/inspect_token")


def accredit(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["accredit", *words])
        code = main()
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for name in ("key.pem", "other.pem"):
        assert accredit(capsys, "token", "keygen", str(tmp_path / name))[0] == 0
    file = tmp_path / "token.jwt"
    words = ("--agent", "a1", "--audience", "mail", "--ttl", "15m", "--allow", "list_inbox", "--out", str(file))
    assert accredit(capsys, "token", "issue", "--key", str(tmp_path / "key.pem"), *words)[0] == 0
    return file


def test_it_says_what_a_token_claims_and_never_the_token(token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = accredit(capsys, "inspect", str(token))
    assert code == 0
    for word in ("a1", "mail", "list_inbox", "not checked"):
        assert word in out
    assert token.read_text().strip() not in out + err


@pytest.mark.parametrize(("key", "code", "word"), [("key.pem.pub", 0, "good"), ("other.pem.pub", 1, "BAD")])
def test_a_key_that_is_named_has_signed_it_or_not(
    key: str, code: int, word: str, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(token.parent / key)
    found, out, _ = accredit(capsys, "inspect", str(token), "--key", path)
    assert (found, word in out) == (code, True)
    found, out, _ = accredit(capsys, "inspect", str(token), "--key", path, "--json")
    assert (found, json.loads(out)["signatures_good"]) == (code, code == 0)


def test_what_only_looks_like_a_token_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"YQ.Yg.Yw\n")
    assert is_token(file.read_bytes())
    code, _, err = accredit(capsys, "inspect", str(file))
    assert code == 2
    assert "is no token" in err
