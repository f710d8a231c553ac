"""From `[proofs]` and the catalog to what calls are decided by; what is refused, so that nobody trusts in nothing."""

import os
from pathlib import Path

import pytest
from tests.world.delegations import NOW

from accredit.config.attest import GATEWAY_KEY_FILE
from accredit.config.conversion import convert_tables
from accredit.config.load import load
from accredit.config.proofs import build_catalog, build_proofs, vocabulary_of
from accredit.config.schema import Config
from accredit.errors import ConfigurationError
from accredit.gateway.settings import ProofSettings
from accredit.keys import KeyKind, PrivateKeyFile, make_key, write_key
from accredit.policy.catalog import Entry
from accredit.policy.facts import Facts

pytestmark = pytest.mark.holds("config/proofs")

ROOT = '[[proofs.roots]]\nname = "Boss"\npublic_key_file = "owner.key.pub"\n'
REQUIRED = '[gateway]\nid = "gate"\n[proofs]\nmode = "required"\n' + ROOT


def key(folder: Path, name: str = "owner", kind: KeyKind = "human") -> PrivateKeyFile:
    made = make_key(kind, name, NOW)
    write_key(folder / f"{name}.key", made)
    return made


def built(folder: Path, text: str, environ: dict[str, str] | None = None, *, workers: int = 1) -> ProofSettings | None:
    file = folder / "accredit.toml"
    file.write_text(text, "utf-8")
    loaded = load(file, environ or {}, {})
    return build_proofs(loaded, vocabulary=vocabulary_of(loaded), workers=workers)


def required(folder: Path, text: str, environ: dict[str, str] | None = None, *, workers: int = 1) -> ProofSettings:
    found = built(folder, text, environ, workers=workers)
    assert found is not None
    assert found.required
    return found


def test_without_a_catalog_and_without_proofs_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert built(tmp_path, "") is None
    assert built(tmp_path, '[proofs]\nmode = "off"\n[resources]\nscope = "mcp:resource"\n') is None


def test_with_proofs_off_the_catalog_still_says_which_scopes_there_are(tmp_path: Path) -> None:
    """And no key file is asked for: whoever switches proofs off for an hour needs none."""
    found = built(tmp_path, '[proofs]\nmode = "off"\n' + ROOT + '[tools.a]\nscope = "email:send"\n')
    assert found is not None
    assert not found.required
    assert found.policy.catalog.tool("a") == Entry(scope="email:send")
    assert found.policy.catalog.tool("b") is None
    for named in (
        '[resources]\nscope = "files:read"\n',
        '[prompts]\nscope = "a:b"\n',
        '[resources."a:"]\nscope = "a:b"\n',
    ):
        assert built(tmp_path, '[proofs]\nmode = "off"\n' + named) is not None


def test_every_key_reaches_the_policy(tmp_path: Path) -> None:
    owner = key(tmp_path)
    text = """
[gateway]
id = "gate"
[proofs]
mode = "required"
freshness_seconds = 300
challenge_seconds = 1
binding = "required"
filter_tools = false
default_tool_scope = "mcp:tool"
[[proofs.roots]]
name = "Boss"
public_key_file = "owner.key.pub"
[tools.pay]
scope = "payments:send"
accepts = ["payments:all"]
sensitive = true
facts = { amount = "/amount", currency = "EUR", lat = 1.5 }
[tools."a.b"]
scope = "email:send"
[resources]
scope = "files:list"
[resources."file:///etc"]
scope = "files:read"
accepts = ["files:all"]
sensitive = true
[prompts]
scope = "prompts:get"
"""
    found = required(tmp_path, text)
    policy, catalog = found.policy, found.policy.catalog
    assert not found.filter_tools
    assert (policy.verifier_id, policy.freshness_seconds, policy.challenge_seconds) == ("gate", 300, 1)
    assert policy.binding_required
    assert dict(policy.roots) == {owner.public_key: "Boss"}
    facts = Facts({"amount": "/amount", "currency": "EUR", "lat": 1.5})
    assert catalog.tool("pay") == Entry(
        scope="payments:send", accepts=("payments:all",), marked_sensitive=True, facts=facts
    )
    assert catalog.tool("a.b") == Entry(scope="email:send")
    assert catalog.tool("other") == Entry(scope="mcp:tool")
    assert catalog.find("resources/read", "file:///etc/passwd") == Entry(
        scope="files:read", accepts=("files:all",), marked_sensitive=True
    )
    assert catalog.find("resources/read", "mail://inbox") == Entry(scope="files:list")
    assert catalog.find("prompts/get", "any") == Entry(scope="prompts:get")
    assert set(policy.vocabulary) >= {"payments:all", "files:list", "files:all", "prompts:get", "mcp:tool"}


def test_the_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    key(tmp_path)
    policy = required(tmp_path, REQUIRED).policy
    assert (policy.freshness_seconds, policy.challenge_seconds, policy.binding_required) == (30, 60, False)
    assert policy.catalog.default_tool is None
    assert policy.catalog == build_catalog(Config())


def test_proofs_can_be_required_from_the_environment(tmp_path: Path) -> None:
    key(tmp_path)
    environ = {"ACCREDIT_PROOFS__MODE": "required", "ACCREDIT_PROOFS__FRESHNESS_SECONDS": "5"}
    policy = required(tmp_path, '[gateway]\nid = "gate"\n' + ROOT, environ).policy
    assert policy.freshness_seconds == 5


def test_roots_from_the_environment_are_looked_for_here_and_not_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    owner = key(tmp_path / "here")
    roots = '[{"name": "Boss", "public_key_file": "owner.key.pub"}]'
    found = required(tmp_path, '[gateway]\nid = "g"\n[proofs]\nmode = "required"\n', {"ACCREDIT_PROOFS__ROOTS": roots})
    assert list(found.policy.roots) == [owner.public_key]


def test_roots_without_a_mode_are_refused__nobody_should_take_them_for_protection(tmp_path: Path) -> None:
    key(tmp_path)
    with pytest.raises(ConfigurationError, match=r"proofs\.mode is not") as refused:
        built(tmp_path, ROOT)
    assert '"required"' in refused.value.remedy
    assert built(tmp_path, ROOT, {"ACCREDIT_PROOFS__MODE": "off"}) is None


def test_without_a_root_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no root"):
        built(tmp_path, '[gateway]\nid = "gate"\n[proofs]\nmode = "required"\n')


@pytest.mark.parametrize("kind", ["agent", "gateway"])
def test_a_root_that_is_no_human_is_refused__its_holder_is_a_program(kind: KeyKind, tmp_path: Path) -> None:
    key(tmp_path, kind=kind)
    with pytest.raises(ConfigurationError, match=f"proofs\\.roots\\[0\\]\\.public_key_file: .* of kind {kind}"):
        built(tmp_path, REQUIRED)


def test_one_key_is_one_root(tmp_path: Path) -> None:
    key(tmp_path)
    with pytest.raises(ConfigurationError, match=r"proofs\.roots\[1\]\.public_key_file: .* already"):
        built(tmp_path, REQUIRED + ROOT)


def test_a_private_key_in_place_of_a_public_one_is_refused(tmp_path: Path) -> None:
    key(tmp_path)
    with pytest.raises(ConfigurationError, match=r"proofs\.roots\[0\]\.public_key_file: .* private key"):
        built(tmp_path, REQUIRED.replace("owner.key.pub", "owner.key"))


def test_a_missing_key_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no") as refused:
        built(tmp_path, REQUIRED)
    assert f"accredit keys new {tmp_path}/owner.key --kind human" in refused.value.remedy


def test_the_gateways_id_is_that_of_the_key_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    key(tmp_path)
    without = '[proofs]\nmode = "required"\n' + ROOT
    with pytest.raises(ConfigurationError, match=r"gateway\.id is not set") as refused:
        built(tmp_path, without)
    assert "accredit keys new" in refused.value.remedy
    own = key(tmp_path, "gateway", "gateway")
    assert required(tmp_path, without).policy.verifier_id == own.id
    assert required(tmp_path, REQUIRED).policy.verifier_id == "gate"


def test_the_gateways_key_is_a_gateways_and_nobody_elses_to_read(tmp_path: Path) -> None:
    key(tmp_path)
    without = '[proofs]\nmode = "required"\n' + ROOT
    os.rename(tmp_path / "owner.key", tmp_path / GATEWAY_KEY_FILE)
    with pytest.raises(ConfigurationError, match="of kind human"):
        built(tmp_path, without)
    (tmp_path / GATEWAY_KEY_FILE).chmod(0o644)
    with pytest.raises(ConfigurationError, match="others can read"):
        built(tmp_path, without)


def test_workers_share_a_store_or_each_would_accept_a_proof_once(tmp_path: Path) -> None:
    key(tmp_path)
    with pytest.raises(ConfigurationError, match=r"store\.url is memory:"):
        built(tmp_path, REQUIRED, workers=2)
    assert required(tmp_path, REQUIRED + '[store]\nurl = "sqlite:///accredit.db"\n', workers=2)
    assert built(tmp_path, "", workers=2) is None


@pytest.mark.parametrize(
    "name", ["model_config", "__class__", "by_name", "__pydantic_extra__", "scope", "a b", "é", "a.b", '"', "\u202e"]
)
def test_a_tool_may_have_any_name_and_means_no_more_than_itself(name: str) -> None:
    config = convert_tables({"tools": {name: {"scope": "email:send"}}}, strict=True)
    assert build_catalog(config).tools == {name: Entry(scope="email:send")}


def test_an_evaluator_that_can_not_be_had_stops_the_start_where_proofs_count(tmp_path: Path) -> None:
    key(tmp_path)
    environ = {"ACCREDIT_PROOFS__EVALUATORS": '["com.example.missing"]'}
    with pytest.raises(ConfigurationError, match=r"proofs\.evaluators: .*there is no"):
        built(tmp_path, REQUIRED, environ)
    assert built(tmp_path, "", environ) is None


OBSERVED = REQUIRED.replace('"required"', '"observe"')


@pytest.mark.holds("policy/decide", "observe")
def test_what_is_only_observed_is_judged_and_not_required(tmp_path: Path) -> None:
    key(tmp_path)
    found = built(tmp_path, OBSERVED)
    assert found is not None
    assert (found.required, found.judged, found.policy.observes) == (False, True, True)
    assert [*found.policy.roots.values()] == ["Boss"]
    assert found.policy.verifier_id == "gate"
    assert not required(tmp_path, REQUIRED).policy.observes


def test_to_observe_nobody_has_to_be_trusted_yet__but_a_root_that_is_named_is_read(tmp_path: Path) -> None:
    found = built(tmp_path, '[gateway]\nid = "gate"\n[proofs]\nmode = "observe"\n')
    assert found is not None
    assert found.policy.roots == {}
    with pytest.raises(ConfigurationError, match=r"there is no .*owner\.key\.pub"):
        built(tmp_path, OBSERVED)


def test_to_observe_with_workers_a_store_is_shared(tmp_path: Path) -> None:
    key(tmp_path)
    with pytest.raises(ConfigurationError, match="memory:"):
        built(tmp_path, OBSERVED, workers=2)


@pytest.mark.parametrize("name", ["mail", "files"])
@pytest.mark.parametrize(
    "key", ["proofs", "mode", "observe", "upstream", "validation"], ids=lambda name: f"servers.X.{name}"
)
def test_no_server_has_a_mode_of_its_own__so_none_softens_anothers(name: str, key: str, tmp_path: Path) -> None:
    servers = "".join(f'[servers.{each}]\nurl = "http://127.0.0.1:9/{each}"\n' for each in ("mail", "files"))
    with pytest.raises(ConfigurationError, match=f"servers.{name}.{key}"):
        built(tmp_path, f'{servers}[servers.{name}.{key}]\nmode = "observe"\n')
    with pytest.raises(ConfigurationError):
        built(tmp_path, servers, {f"ACCREDIT_SERVERS__{name.upper()}__{key.upper()}__MODE": "observe"})


REGISTRY = (
    '[gateway]\nid = "gate"\n[proofs]\nmode = "required"\n[[proofs.registries]]\nurl = "https://registry.example"\n'
)


def test_a_registry_s_pins_are_no_roots_of_their_own__and_whoever_has_them_needs_no_other_root(tmp_path: Path) -> None:
    pin = key(tmp_path).public_key
    policy = required(tmp_path, REGISTRY + 'pins = ["owner.key.pub"]\n').policy
    assert (policy.roots, policy.pins) == ({}, {pin: "owner"})
    assert policy.find_root is not None
    assert required(tmp_path, REQUIRED).policy.find_root is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (REGISTRY + 'pins = ["owner.key.pub"]\n' + ROOT, "owner .* is in proofs.roots too"),
        (REGISTRY + 'pins = ["owner.key.pub", "owner.key.pub"]\n', r"registries\[0\].pins: owner .* already"),
        (
            REGISTRY
            + 'pins = ["owner.key.pub"]\n'
            + REGISTRY.partition('required"\n')[2]
            + 'pins = ["owner.key.pub"]\n',
            r"registries\[1\].pins: owner .* already",
        ),
        (REGISTRY + 'pins = ["agent.key.pub"]\n', "of kind agent"),
        (REGISTRY + 'pins = ["nobody.key.pub"]\n', r"registries\[0\].pins\[0\]"),
        (REGISTRY.replace("https", "http") + 'pins = ["owner.key.pub"]\n', r"registries\[0\].url"),
        (REGISTRY.replace("https://registry.example", "http://[::1]") + 'pins = ["owner.key.pub"]\n', "in the clear"),
        (REGISTRY + 'pins = ["owner.key.pub"]\nca_file = "nothing.pem"\n', r"registries\[0\].ca_file"),
        (REGISTRY + 'pins = ["owner.key.pub"]\nca_file = "owner.key.pub"\n', "holds no certificate"),
        (REGISTRY, "pins"),
        (REGISTRY + "pins = []\n", "pins"),
        (REGISTRY.replace('mode = "required"\n', "") + 'pins = ["owner.key.pub"]\n', "proofs.registries is set"),
    ],
)
def test_a_registry_that_would_count_for_more_or_less_than_it_says_is_an_error(
    text: str, what: str, tmp_path: Path
) -> None:
    key(tmp_path)
    key(tmp_path, "agent", "agent")
    with pytest.raises(ConfigurationError, match=what):
        built(tmp_path, text)
