"""`accredit config check` tells all that is missing at once, and what differs from a server that answers."""

import json
from pathlib import Path

import pytest
from tests.world.command import accredit
from tests.world.mail import mail_server

pytestmark = [pytest.mark.slow, pytest.mark.holds("ops/config"), pytest.mark.holds("ops/config_missing")]

CONFIGURATION = """
[upstream]
url = "http://127.0.0.1:9/mcp"
[upstream.headers]
Authorization = { env = "NO_SUCH", scheme = "Bearer" }
X-Key = { file = "no.secret" }
[oauth]
enabled = true
[oauth.idp]
issuer = "https://idp.example"
client_id = "gateway"
client_secret = { file = "idp.secret" }
key_file = "front.key"
delegation = "front.json"
[gateway]
tls_cert_file = "cert.pem"
tls_key_file = "key.pem"
[proofs]
mode = "required"
revocation = { files = ["revoked.json"], public_key_files = ["third.key.pub"] }
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[[proofs.registries]]
url = "https://registry.example"
pins = ["boss.key.pub"]
[[proofs.roots]]
name = "Other"
public_key_file = "other.key.pub"
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""
MISSING = (
    "no.secret", "cert.pem", "key.pem", "revoked.json", "third.key.pub", "owner.key.pub", "other.key.pub",
    "gateway.key", "boss.key.pub", "idp.secret", "front.key", "front.json",
)  # fmt: skip


def test_all_that_is_missing_is_told_at_once__each_once_and_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "accredit.toml").write_text(CONFIGURATION, "utf-8")
    done = accredit("config", "check", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert [each.partition(":")[0] for each in lines] == ["error", "help"] * (len(MISSING) + 1)
    for name in MISSING:
        assert done.stderr.count(f"{tmp_path}/{name}") >= 1, name
        assert sum(f"{tmp_path}/{name}" in each for each in lines if each.startswith("error")) == 1, name
    assert "which has no NO_SUCH" in done.stderr
    assert f"accredit keys new {tmp_path}/other.key --kind human makes it" in done.stderr
    assert not (tmp_path / "accredit.db").exists()


def test_what_is_off_misses_nothing(tmp_path: Path) -> None:
    text = CONFIGURATION.replace('mode = "required"', 'mode = "off"').replace('mode = "durable"', 'mode = "off"')
    (tmp_path / "accredit.toml").write_text(text, "utf-8")
    done = accredit("config", "check", folder=tmp_path)
    assert "cert.pem" in done.stderr
    assert "owner.key.pub" not in done.stderr
    assert "gateway.key" not in done.stderr


def test_tools_that_only_one_side_has_and_slips_of_scopes_are_notes__where_the_server_answers(tmp_path: Path) -> None:
    def write(url: str) -> None:
        tools = {"list_inbox": "email:read", "gone": "email:read", "old": "emial:read", "odd": "mcp:tol"}
        tables = "".join(f'[tools.{name}]\nscope = "{scope}"\n' for name, scope in tools.items())
        (tmp_path / "accredit.toml").write_text(f'[upstream]\nurl = "{url}"\n{tables}', "utf-8")

    slips = [
        "tools.old: the scope emial:read is no known one; did you mean email:read?",
        "tools.odd: the scope mcp:tol is no known one; did you mean mcp:tool?",
    ]
    with mail_server(tmp_path) as url:
        write(url)
        done = accredit("config", "check", "--json", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        *found, lacks, gone = json.loads(done.stdout)["notes"]
        assert found == slips
        assert lacks.startswith("the server lists what [tools] lacks, so that nobody can call it: ")
        assert "send_email" in lacks
        assert lacks.endswith("; accredit check --fix writes the tables")
        assert gone == "[tools] names what the server does not list: gone, odd, old"
    write("http://127.0.0.1:9/mcp")
    done = accredit("config", "check", folder=tmp_path)
    assert [each for each in done.stdout.splitlines() if each.startswith("note")] == [f"note: {each}" for each in slips]
