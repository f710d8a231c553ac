"""`policy.digest`: whoever changes what decides on calls changes it, and nothing else does."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from accredit.config.digest import policy_digest
from accredit.config.load import load, load_command_line
from accredit.config.schema import SECTIONS
from accredit.config.show import list_settings
from accredit.errors import ConfigurationError
from accredit.keys import make_key, write_key

pytestmark = pytest.mark.holds("config/digest")

TEXT = """
[gateway]
port = 9000
[upstream]
url = "http://127.0.0.1:9000/mcp?key=swordfish"
headers = { "X-Api-Key" = { env = "MAIL_KEY" }, "X-Other" = "swordfish" }
[proofs]
mode = "required"
freshness_seconds = 20
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.pay]
scope = "payments:send"
facts = { amount = "/amount", lat = 52.5 }
[attest]
mode = "durable"
key_file = "gateway.key"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    folder.mkdir()
    write_key(folder / "owner.key", make_key("human", "Owner", 0))
    (folder / "accredit.toml").write_text(TEXT, "utf-8")
    return folder


def digest(folder: Path, text: str | None = None, environ: dict[str, str] | None = None) -> str:
    if text is not None:
        (folder / "accredit.toml").write_text(text, "utf-8")
    return policy_digest(load(folder / "accredit.toml", environ or {}, {}))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("freshness_seconds = 20", "freshness_seconds = 21"),
        ('"required"', '"off"'),
        ("payments:send", "payments:read"),
        ('"/amount"', '"/sum"'),
        ("lat = 52.5", "lat = 52.6"),
        ('name = "Owner"', 'name = "Boss"'),
        ("127.0.0.1:9000/mcp", "127.0.0.1:9001/mcp"),
        ("MAIL_KEY", "OTHER_KEY"),
        ('"X-Other"', '"X-Another"'),
        ('"gateway.key"', '"other.key"'),
        ('"durable"', '"record"'),
        ("[gateway]", '[gateway]\nid = "mail"'),
        ("[proofs]", '[tokens]\nmode = "off"\nbind_agent = "sub"\n[proofs]'),
    ],
)
def test_another_policy_has_another_digest(folder: Path, old: str, new: str) -> None:
    before = digest(folder)
    assert old in TEXT
    assert digest(folder, TEXT.replace(old, new)) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("port = 9000", "port = 9001"),
        ("port = 9000", 'host = "0.0.0.0"'),
        ("port = 9000", "port = 9000 # a comment"),
        ("port = 9000", 'path = "/mcp"'),  # the default
        ("swordfish", "marlin"),  # a secret is not in it, wherever it is written
        ("lat = 52.5", "lat = 5.25e1"),
    ],
)
def test_the_same_policy_has_the_same_digest(folder: Path, old: str, new: str) -> None:
    before = digest(folder)
    assert old in TEXT
    assert digest(folder, TEXT.replace(old, new)) == before


def test_where_a_value_comes_from_does_not_count(folder: Path) -> None:
    before = digest(folder)
    shorter = TEXT.replace("freshness_seconds = 20\n", "")
    assert digest(folder, shorter, {"ACCREDIT_PROOFS__FRESHNESS_SECONDS": "20"}) == before
    assert digest(folder, shorter, {"ACCREDIT_PROOFS__FRESHNESS_SECONDS": "21"}) != before


def test_a_copy_in_another_folder_has_the_same_digest(folder: Path) -> None:
    other = folder.with_name("two")
    shutil.copytree(folder, other)
    assert digest(other) == digest(folder)


def test_a_public_key_counts_by_its_content__another_owner_under_the_same_name_is_another_policy(folder: Path) -> None:
    before = digest(folder)
    (folder / "owner.key.pub").rename(folder / "boss.key.pub")
    assert digest(folder, TEXT.replace("owner.key.pub", "boss.key.pub")) == before
    (folder / "owner.key").unlink()
    write_key(folder / "owner.key", make_key("human", "Owner", 0))
    assert digest(folder, TEXT) != before


def test_every_file_of_public_keys_counts_by_its_content(folder: Path) -> None:
    text = TEXT + (
        'signer = "file2:records.pem"\nsigner_public_key_file = "a.pub"\npublic_key_files = ["e.pub"]\n'
        '[proofs.revocation]\npublic_key_files = ["b.pub"]\n'
        '[tokens]\nmode = "required"\n'
        '[[tokens.issuers]]\nissuer = "i"\naudience = "a"\njwks_file = "c.pub"\n'
        '[[tokens.issuers]]\nissuer = "j"\naudience = "a"\npublic_key_file = "d.pub"\n'
    )
    found = [digest(folder, text)]
    for name in ("a", "b", "c", "d", "e"):
        (folder / f"{name}.pub").write_text(name, "utf-8")
        found.append(digest(folder, text))
    assert len(set(found)) == 6


def test_a_registry_s_pins_are_named_by_their_content(folder: Path) -> None:
    text = '[[proofs.registries]]\nurl = "https://registry.example"\npins = ["owner.key.pub"]\n'
    before = digest(folder, text)
    assert before != digest(folder, "")
    pin = folder / "owner.key.pub"
    pin.write_bytes(pin.read_bytes() + b"\n")
    assert digest(folder, text) != before


def test_it_can_be_computed_by_anybody__from_what_config_show_prints(folder: Path) -> None:
    tree: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for row in list_settings(load_command_line({})):
        tree[row.section][row.key] = row.value
    for section in ("servers", "quotas", "admin", "telemetry", "oauth"):
        del tree[section]
    for key in ("host", "port", "trusted_proxies"):
        del tree["gateway"][key]
    del tree["proofs"]["registries"]  # empty
    assert digest(folder, "") == hashlib.sha256(rfc8785.dumps(tree)).hexdigest()
    content = hashlib.sha256((folder / "owner.key.pub").read_bytes()).hexdigest()
    tree["proofs"]["roots"] = [{"name": "Owner", "public_key_file": {"sha256": content}}]
    tree["upstream"]["headers"] = {"A": {"env": "B"}, "C": "***"}
    text = (
        '[upstream]\nheaders = { A = { env = "B" }, C = "d" }\n'
        '[[proofs.roots]]\nname = "Owner"\npublic_key_file = "owner.key.pub"\n'
    )
    assert digest(folder, text) == hashlib.sha256(rfc8785.dumps(tree)).hexdigest()


@pytest.mark.parametrize(("number", "is_good"), [(10**15, True), (10**30, True), (10**400, False)])
def test_a_number_that_no_record_could_name_stops_the_start(folder: Path, number: int, is_good: bool) -> None:
    text = f"[gateway]\nmax_request_bytes = {number}\n"
    if is_good:
        assert digest(folder, text) == digest(folder, text) != digest(folder, "")
        return
    with pytest.raises(ConfigurationError, match="no canonical form"):
        digest(folder, text)


def test_the_query_of_a_replica_s_url_is_masked__some_servers_take_their_key_there(tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text('[upstream]\nurls = ["http://a/mcp?key=swordfish", "http://b/mcp?key=swordfish"]\n', "utf-8")
    rows = {(row.section, row.key): row.value for row in list_settings(load(file, {}, {}))}
    assert rows["upstream", "urls"] == ["http://a/mcp?***", "http://b/mcp?***"]
    assert "swordfish" not in str(rows)
