"""`accredit drill` as it is used: against gateways that run, right ones and impostors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.world.command import Serving, accredit

from accredit.base.clock import unix_seconds
from accredit.config.load import load
from accredit.keys import KeyKind, make_key, make_token_key, write_key, write_token_key
from accredit.ops.doctor.production.stored import drill_found
from accredit.ops.log_place import own_keys
from accredit.stores import SqliteFile

pytestmark = [pytest.mark.slow, pytest.mark.holds("ops/drill"), pytest.mark.holds("cli/commands/hosts")]
NOWHERE = "http://127.0.0.1:1/mcp"
ROOTS = '[[proofs.roots]]\nname = "Owner"\npublic_key_file = "owner.key.pub"\n'


KEYS: dict[str, KeyKind] = {"owner": "human", "stranger": "human", "gateway": "gateway"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with keys: the owner's, a stranger's, the gateway's, and that of an issuer of tokens."""
    for name, kind in KEYS.items():
        write_key(tmp_path / f"{name}.key", make_key(kind, name, unix_seconds()))
    write_token_key(tmp_path / "tokens.key", make_token_key())
    return tmp_path


def configure(folder: Path, text: str, *, mode: str = "required", more: str = "") -> None:
    (folder / "accredit.toml").write_text(
        f'{text}\n[proofs]\nmode = "{mode}"\n{more}\n{ROOTS if mode != "off" else ""}', "utf-8"
    )


def drill(folder: Path, *options: str, issuer: str = "owner.key") -> tuple[int, dict[str, Any], str]:
    done = accredit("drill", "--issuer", issuer, "--json", *options, folder=folder)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


SEVERAL = f"""
[gateway]
id = "gw"
merge = true
[servers.mail]
url = "{NOWHERE}"
[store]
url = "sqlite:///store.db"
[attest]
mode = "record"
key_file = "gateway.key"
[tokens]
mode = "required"
bind_agent = "sub"
[[tokens.issuers]]
issuer = "accredit"
audience = "http://127.0.0.1/mcp"
public_key_file = "tokens.key.pub"
algorithms = ["ES256"]
[[quotas]]
by = "principal"
window = "1h"
calls = 1
"""


def test_a_gateway_of_several_servers_with_tokens_and_workers_passes__and_the_log_says_that_it_was_a_drill(
    folder: Path,
) -> None:
    """No server is there at all: that none is called is seen by that."""
    configure(folder, SEVERAL, more='binding = "required"')
    with Serving("--config", "accredit.toml", "--workers", "2", folder=folder) as serving:
        url = ("--url", f"http://127.0.0.1:{serving.port}/mcp")
        code, found, errors = drill(folder, *url, "--token-key", "tokens.key")
        assert (code, found["ok"], found["enforced"]) == (0, True, True), errors
        assert {(each["server"], each["era"]) for each in found["calls"]} == {
            (server, era) for server in ("mail", None) for era in ("modern", "legacy")
        }
        assert {each["call"] for each in found["not_tried"]} == {"revoked", "challenge_ended"}
        unknown = drill(folder, *url, "--server", "files", "--token-key", "tokens.key")
        assert (unknown[0], unknown[1]) == (2, {})
        without = drill(folder, *url)
        assert (without[0], without[1]) == (2, {})
        assert "--token-key" in without[2]
    listed = accredit("log", "list", "-n", "1000", folder=folder)
    lines = listed.stdout.splitlines()[1:]
    assert len(lines) > 100
    assert all("accredit.drill" in line and "(a drill)" in line for line in lines if "missing_token" not in line)
    call = json.loads(accredit("log", "list", "-n", "1", "--json", folder=folder).stdout)["call"]
    assert "(a drill)" in accredit("log", "show", call, folder=folder).stdout
    suggested = accredit("suggest", folder=folder)
    assert "accredit.drill" not in suggested.stdout
    replayed = json.loads(accredit("replay", "--config", "accredit.toml", "--json", folder=folder).stdout)
    assert "accredit.drill" not in json.dumps(replayed)
    keys = own_keys(load(folder / "accredit.toml", {}, {}))
    assert isinstance(drill_found(keys, SqliteFile(folder / "store.db")), int), "the checklist for production sees it"


APIS = f"""
[gateway]
id = "gw"
[admin]
port = ADMIN
[store]
url = "sqlite:///store.db"
[attest]
mode = "record"
key_file = "gateway.key"
[tokens]
mode = "required"
[[tokens.issuers]]
issuer = "accredit"
audience = "http://127.0.0.1/mcp"
public_key_file = "tokens.key.pub"
algorithms = ["ES256"]
[[quotas]]
by = "principal"
window = "1h"
calls = 1
[servers.mail]
protocol = "http"
url = "{NOWHERE}"
path = "/api/mail"
[servers.mail.routes."POST /{{anything}}"]
scope = "email:send"
[servers.helper]
protocol = "a2a"
url = "{NOWHERE}"
path = "/agents/helper"
scope = "agent:ask"
[servers.helper.skills.summarize]
scope = "email:read"
""" + "".join(
    f"""
[servers.{proxy}]
protocol = "authorize"
proxy = "{proxy}"
[servers.{proxy}.routes."GET /messages"]
scope = "email:read"
"""
    for proxy in ("nginx", "envoy", "traefik", "caddy")
)


@pytest.mark.holds("ops/drill_roads", "http", "a2a", "authorize", "one-connection")
@pytest.mark.holds("policy/drill", "routes", "skills")
@pytest.mark.holds("gateway/front/api_relay", "drill")
@pytest.mark.holds("gateway/front/authorize", "drill")
@pytest.mark.holds("gateway/front/a2a_relay", "drill")
def test_http_apis_agents_and_proxies_are_drilled__none_is_asked_and_no_proxy_is_told_to_send_it_on(
    folder: Path, free_port: Callable[[], int]
) -> None:
    """No API and no agent is there at all: that none is called is seen by that."""
    configure(folder, APIS.replace("ADMIN", str(free_port())))
    with Serving("--config", "accredit.toml", folder=folder) as serving:
        url = ("--url", f"http://127.0.0.1:{serving.port}/mcp")
        code, found, _ = drill(folder, *url, "--token-key", "tokens.key")
        wrong = [each for each in found["calls"] if each["verdict"] != "ok"]
        assert (code, found["ok"], wrong) == (0, True, [])
        calls = found["calls"]
        proxies = ("nginx", "envoy", "traefik", "caddy")
        made = {(each["server"], each["era"]) for each in calls}
        assert made == {("mail", "http"), ("helper", "a2a"), *((name, "authorize") for name in proxies)}
        passed = {(each["era"], each["happened"]["status"]) for each in calls if each["happened"]["passed"]}
        assert passed == {("http", 204), ("a2a", 200), ("authorize", 403)}
        assert len(calls) > 100
        alone = drill(folder, *url, "--token-key", "tokens.key", "--server", "caddy")[1]
        assert {each["server"] for each in alone["calls"]} == {"caddy"}
    lines = accredit("log", "list", "-n", "1000", folder=folder).stdout.splitlines()[1:]
    assert len(lines) > 100
    assert all("accredit.drill" in line and "(a drill)" in line for line in lines if "missing_token" not in line)
    assert "accredit.drill" not in accredit("suggest", folder=folder).stdout


@pytest.mark.parametrize(
    ("name", "own"),
    [('"POST /{anything}"', '"POST /accredit.drill"'), ("skills.summarize", 'skills."accredit.drill.sensitive"')],
)
def test_no_api_has_a_route_and_no_agent_a_skill_of_the_gateway_s_own(name: str, own: str, folder: Path) -> None:
    configure(folder, APIS.replace("ADMIN", "0").replace(name, own))
    done = accredit("config", "check", "--config", "accredit.toml", folder=folder)
    assert done.returncode == 2
    assert "the gateway's own" in done.stderr


ONE = f'[gateway]\nid = "gw"\n[upstream]\nurl = "{NOWHERE}"\n'


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_a_gateway_that_enforces_nothing_fails_and_is_told_so(mode: str, folder: Path) -> None:
    configure(folder, ONE, mode=mode)
    with Serving("--config", "accredit.toml", folder=folder) as serving:
        code, found, errors = drill(folder, "--url", serving.url)
    assert (code, found["ok"], found["enforced"]) == (1, False, False)
    assert "enforces nothing" in errors
    assert "enforces nothing" in found["problem"]
    through = {each["call"] for each in found["calls"] if each["verdict"] == "got_through"}
    assert ("no_proof" in through) is (mode == "observe")


def test_a_drill_of_a_gateway_that_goes_by_another_configuration_fails(folder: Path) -> None:
    """It was not reloaded: what the file says is not what is enforced."""
    configure(folder, ONE, mode="observe")
    with Serving("--config", "accredit.toml", folder=folder) as serving:
        configure(folder, ONE)
        code, found, errors = drill(folder, "--url", serving.url)
        told = accredit("drill", "--issuer", "owner.key", "--url", serving.url, folder=folder)
    assert (code, found["ok"], found["enforced"]) == (1, False, True)
    assert "error: got through: no_proof, copy, other_arguments, " in errors
    assert errors.count("error: ") == 1, "one line for all that got through, not one for each"
    assert "accredit reload" in errors
    wrong, every = (sum(each["verdict"] != "ok" for each in found["calls"]), len(found["calls"]))
    assert told.returncode == 1
    assert f"BAD: {wrong} of {every} calls" in told.stdout
    assert told.stdout.count(": BAD\n") == wrong, "each that is wrong is marked, also where there are no colours"
    assert "not tried: anything about tokens: they are off" in told.stdout


def test_wrong_use_is_told_before_anything_is_called(folder: Path) -> None:
    configure(folder, ONE.replace("[upstream]", "port = 1\n[upstream]"))
    code, found, errors = drill(folder)
    assert (code, found) == (2, {})
    assert "no gateway answers at http://127.0.0.1:1/mcp" in errors
    assert "accredit serve --config" in errors
    code, _, errors = drill(folder, issuer="stranger.key")
    assert code == 2
    assert "no root" in errors
    code, _, errors = drill(folder, issuer="owner.key.pub")
    assert code == 2
    for url in ("http://[/mcp", "http://user:secret@127.0.0.1:1/mcp"):
        code, _, errors = drill(folder, "--url", url)
        assert code == 2
        assert "--url is not" in errors
        assert "secret" not in errors
    done = accredit(
        "drill", "--issuer", "owner.key", "--header", "Authorization=env:T", folder=folder, env={"T": "Bearer x"}
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--token-env" in done.stderr
