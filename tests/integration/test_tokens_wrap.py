"""Tokens on stdio, with the real command: in `_meta`, in an argument, or in the environment; never in the child."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_wrap import Wrapped, wrapped
from tests.world.calls import ERAS, meta
from tests.world.command import accredit
from tests.world.issuer import IssuerKey, claims, key_set_text

from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

ISSUER, AUDIENCE = "https://issuer.example", "mail-gateway"


@pytest.fixture
def key(tmp_path: Path) -> IssuerKey:
    made = IssuerKey()
    (tmp_path / "keys.json").write_bytes(key_set_text(made))
    (tmp_path / "accredit.toml").write_text(
        f'[tokens]\nmode = "required"\n[[tokens.issuers]]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\n'
        'jwks_file = "keys.json"\n[tools.echo]\nscope = "mail:read"\ntoken_scope = "mail:read"\n',
        "utf-8",
    )
    return made


def token(key: IssuerKey, **changes: object) -> str:
    return key.sign(claims(ISSUER, int(time.time()), **{"aud": AUDIENCE, "scope": "mail:read", **changes}))


@pytest.mark.holds("gateway/admission/bearer", "message")
def test_calls_and_lists_need_a_token_and_nothing_else_does(key: IssuerKey, tmp_path: Path) -> None:
    good, bad = token(key), token(key, aud="other")
    with wrapped(tmp_path, "--log-level", "debug") as host:
        host.initialize()
        calls_and_lists(host, key, good, bad)
        said = host.stderr
    for text in (good, bad):
        assert text.rpartition(".")[2] not in said


def calls_and_lists(host: Wrapped, key: IssuerKey, good: str, bad: str) -> None:

    def told(meta: dict[str, Any] | None = None, **arguments: Any) -> Any:
        host.tool("echo", "call", meta, **arguments)
        return host.message()

    assert told()["error"]["code"] == -31011
    assert told({"token": bad})["error"]["code"] == -31010
    assert told({"token": token(key, scope="other")})["error"]["data"]["error"] == "insufficient_scope"
    host.say(id=3, method="tools/list")
    assert host.message()["error"]["code"] == -31011
    assert "result" in told({"token": good})
    assert "result" in told(_token=good)
    host.tool("read", "read", {"token": good})
    received = json.dumps(json.loads(host.message()["result"]["content"][0]["text"]))
    assert received.count("dev.accredit/authorization") == 3
    for text in (good, bad):
        assert text.rpartition(".")[2] not in received


HONEST = (sys.executable, "-m", "tests.world.honest_server")


def calls_read(file: Path) -> list[Any]:
    """What has reached the child."""
    return [message for line in file.read_text("utf-8").splitlines() if "method" in (message := json.loads(line))]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("listed", [True, False])
def test_a_tools_own_token_argument_arrives_untouched(key: IssuerKey, tmp_path: Path, era: Era, listed: bool) -> None:
    read, carried = tmp_path / "read", {**(meta() if era is Era.MODERN else {}), "token": token(key)}
    with wrapped(tmp_path, child=(*HONEST, str(read)), PYTHONPATH=os.pathsep.join(sys.path)) as host:
        if era is Era.LEGACY:
            host.initialize()
        if listed:
            host.say(id=1, method="tools/list", params={"cursor": "2", "_meta": carried})
            assert "result" in host.message()
        host.tool("redeem", "r", carried, _token="voucher")
        assert host.message()["id"] == "r"  # what the gateway asks for itself, its host never sees
        host.tool("list_inbox", "i", carried, _token=token(key))
        assert "result" in host.message()
    redeemed, inbox = (each["params"]["arguments"] for each in calls_read(read) if each["method"] == "tools/call")
    assert (redeemed, inbox) == ({"_token": "voucher"}, {})


@pytest.mark.holds("gateway/admission/tool_directory", "token-argument")
def test_a_server_that_does_not_list_its_tools_gets_no_token_argument(key: IssuerKey, tmp_path: Path) -> None:
    with wrapped(tmp_path) as host:
        host.initialize()
        host.tool("echo", "a", {"token": token(key)}, _token="voucher")
        assert host.message()["error"]["code"] == -31010
        host.tool("die", "b", {"token": token(key)})
        assert host.message()["error"]["message"] == "Upstream unavailable"


def test_a_server_that_dies_while_it_is_asked_for_its_tools_ends_the_call(key: IssuerKey, tmp_path: Path) -> None:
    dies = "import sys, json\nfor line in sys.stdin:\n    if 'tools/list' in line: sys.exit(3)\n"
    with wrapped(tmp_path, child=(sys.executable, "-c", dies)) as host:
        host.tool("echo", "a", {"token": token(key)}, _token="voucher")
        answer = host.line()
        assert answer == b"" or json.loads(answer)["id"] == "a"
        assert host.wait() == 1


@pytest.mark.holds("gateway/admission/bearer", "message")
def test_the_token_of_the_environment_covers_all_and_the_child_never_sees_it(key: IssuerKey, tmp_path: Path) -> None:
    good = token(key)
    with wrapped(tmp_path, ACCREDIT_TOKEN=good) as host:
        host.initialize()
        assert "result" in host.call("echo")
        host.tool("echo", "bad", {"token": token(key, exp=7)})
        assert host.message()["error"]["code"] == -31010  # a message's own decides
        for process in Path("/proc").glob("[0-9]*"):
            try:
                seen = (process / "cmdline").read_bytes()
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                environ = (process / "environ").read_bytes() if parent == str(host.process.pid) else b""
            except OSError:
                continue
            assert good.encode() not in seen
            assert good.encode() not in environ
    assert good.rpartition(".")[2] not in host.stderr


def test_a_token_of_the_environment_that_is_not_good_stops_the_start(key: IssuerKey, tmp_path: Path) -> None:
    bad = token(key, aud="other")
    done = accredit("wrap", "--config", "accredit.toml", "--", "cat", folder=tmp_path, env={"ACCREDIT_TOKEN": bad})
    assert done.returncode == 2
    assert "for another audience" in done.stderr
    assert bad not in done.stderr
