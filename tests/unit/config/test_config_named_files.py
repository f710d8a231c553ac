"""Every file that a configuration names is listed, so that no check of files forgets one."""

from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Meta, Struct

from accredit.config.load import load
from accredit.config.named_files import named_files, named_variables
from accredit.config.schema import SECTIONS, Upstream
from accredit.config.section import file_uses, kinds, tables_of
from accredit.config.values import HeaderFrom, SecretFrom

pytestmark = pytest.mark.holds("config/named_files")

EVERYTHING = """
[gateway]
tls_cert_file = "cert.pem"
tls_key_file = "key.pem"
[servers.mail]
url = "http://127.0.0.1:9/mcp"
auth.type = "client_credentials"
auth.token_url = "https://a.example/t"
auth.client_id = "c"
auth.client_secret = { file = "up.secret" }
headers = { X-Key = { file = "/run/header.secret" }, key_file = "plain" }
[servers.files]
command = ["true"]
cwd = "several"
env = { key_file = "plain", KEY = { file = "variable.secret" }, OTHER = { env = "FROM_HERE" } }
[tokens]
mode = "optional"
bootstrap = { key_file = "token.key", secret_file = "once.secret" }
[[tokens.issuers]]
issuer = "https://a.example"
audience = "https://b.example"
jwks_file = "a.jwks"
[[tokens.issuers]]
issuer = "https://c.example"
audience = "https://b.example"
public_key_file = "c.pem"
introspection_client_secret = { file = "introspection.secret" }
[oauth]
enabled = true
[oauth.idp]
issuer = "https://idp.example"
client_id = "gateway"
client_secret = { file = "idp.secret" }
key_file = "front.key"
delegation = "front.json"
groups = { key_file = ["email:read"] }
[proofs]
mode = "required"
revocation = { files = ["gone.json"], public_key_files = ["third.key.pub"] }
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[[proofs.registries]]
url = "https://registry.example"
pins = ["boss.key.pub"]
ca_file = "ca.pem"
[attest]
mode = "durable"
key_file = "gateway.key"
signer = "file2:records.pem"
signer_public_key_file = "records.pem.pub"
public_key_files = ["old.key.pub", "new.key.pub"]
[rounds]
keys_file = "rounds.keys"
[cluster]
keys_file = "cluster.keys"
[store]
url = "sqlite:///accredit.db"
password = { file = "db.secret" }
"""
SECRET = {
    "key.pem", "up.secret", "header.secret", "variable.secret", "token.key", "once.secret", "introspection.secret",
    "idp.secret", "front.key", "gateway.key", "records.pem", "rounds.keys", "cluster.keys", "accredit.db", "db.secret",
}  # fmt: skip
POLICY = {
    "a.jwks", "c.pem", "front.json", "third.key.pub", "owner.key.pub", "boss.key.pub", "ca.pem", "records.pem.pub",
    "old.key.pub", "new.key.pub",
}  # fmt: skip
NO_FILES = {
    *("Gateway.host", "Gateway.id", "Gateway.allowed_origins", "Gateway.allowed_hosts", "Admin.host"),
    *("Auth.client_id", "Auth.audience", "OAuthIdp.client_id", "Root.name", "Telemetry.service_name"),
    *("TokenIssuer.issuer", "TokenIssuer.audience", "TokenIssuer.algorithms", "TokenIssuer.required_scopes"),
    *("TokenIssuer.introspection_client_id", "Bootstrap.issuer", "Proofs.evaluators", "OAuthIdp.groups"),
    *("ApiRoute.facts", "SecretFrom.env", "HeaderFrom.env", "HeaderFrom.scheme"),
}
"""The keys whose values are any text, and no file's name."""


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    file = tmp_path / "accredit.toml"
    file.write_text(EVERYTHING, "utf-8")
    return file


def all_tables() -> set[type[Struct]]:
    return {SecretFrom, HeaderFrom, *(each for section in SECTIONS.values() for each in tables_of(section))}


def is_any_text(kind: Any) -> bool:
    """Whether values of a type are texts, or lists of them, of which nothing is asked but a length."""
    notes = [note for note in getattr(kind, "__metadata__", ()) if not isinstance(note, str | Meta)]
    inner = [each for each in get_args(kind) if isinstance(each, type) or get_args(each)]
    return not notes and (kind is str or any(map(is_any_text, inner)))


def test_a_key_with_any_text_is_a_file_s_name__or_known_to_be_none__so_that_no_new_one_is_forgotten() -> None:
    texts = {
        f"{table.__name__}.{key}"
        for table in all_tables()
        for key, kind in kinds(table).items()
        if is_any_text(kind) and key not in file_uses(table)
    }
    assert texts == NO_FILES


def test_each_file_is_listed__with_its_path_and_what_it_is_for(everything: Path) -> None:
    found = [*named_files(load(everything, {}, {}))]
    named = {(type(each.table), each.key.rpartition(".")[2]) for each in found}
    every = all_tables() - {Upstream}  # whose keys each of [servers] has
    assert named == {(table, key) for table in every for key in file_uses(table)}
    assert {each.path.name for each in found if each.use.is_secret} == SECRET
    assert {each.path.name for each in found if each.use.is_policy} == POLICY
    assert {each.path.name for each in found if each.use.is_folder} == {"several"}
    assert {each.path.name for each in found} == SECRET | POLICY | {"cert.pem", "gone.json", "several"}
    assert {each.path.parent for each in found} == {everything.parent, Path("/run")}
    assert {each.path.name for each in found if not each.is_needed} == {"once.secret", "accredit.db"}


def test_a_file_is_called_by_its_key(everything: Path) -> None:
    names = {each.path.name: (each.name, each.key) for each in named_files(load(everything, {}, {}))}
    assert names["c.pem"] == ("tokens.issuers[1].public_key_file", "tokens.issuers.public_key_file")
    assert names["new.key.pub"] == ("attest.public_key_files[1]", "attest.public_key_files")
    assert names["db.secret"] == ("store.password", "store.password.file")
    assert names["variable.secret"][0] == "servers.files.env.KEY"


def test_a_section_that_is_off_needs_none_of_its_files(tmp_path: Path) -> None:
    text = EVERYTHING.replace("enabled = true", "enabled = false").replace('"optional"', '"off"')
    (tmp_path / "accredit.toml").write_text(text, "utf-8")
    files = {each.path.name: each for each in named_files(load(tmp_path / "accredit.toml", {}, {}))}
    assert not any(files[name].is_needed for name in ("idp.secret", "front.key", "front.json", "a.jwks", "token.key"))
    assert files["owner.key.pub"].is_needed


def test_a_name_from_elsewhere_than_the_file_starts_in_the_current_folder(everything: Path) -> None:
    environ = {"ACCREDIT_STORE__PASSWORD": '{"file": "other.secret"}', "ACCREDIT_ATTEST__SIGNER": "pkcs11:token=a"}
    found = {each.key: each.path for each in named_files(load(everything, environ, {}))}
    assert found["store.password.file"] == Path.cwd() / "other.secret"
    assert "attest.signer" not in found, "only file2: names a file"


def test_variables_are_listed_where_they_are_read(everything: Path) -> None:
    assert [*named_variables(load(everything, {}, {}))] == [("servers.files.env.OTHER", "FROM_HERE")]
