"""The commands seal state: with keys of a file over a restart, and with one key for all workers without a file."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.world.calls import compact, meta, post
from tests.world.command import COMMAND, Serving, accredit, environment
from tests.world.honest_server import HonestServer
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, RawServer
from tests.world.sealed import FORMS, SealedCall, again
from tests.world.warm import python

from accredit.jsonrpc.methods import Era
from accredit.rounds import KeyRing

ROOT = Path(__file__).parents[2]
OLD, NEW = b"o" * 32, b"n" * 32
REFUSED = {"code": -32602, "message": "Invalid or expired requestState"}
WARNING = "requestState is sealed with a key of this process"
CALL: dict[str, Any] = {"name": "any", "arguments": {"gives": ["one é", "two"]}}


def configured(folder: Path, *keys: bytes, text: str = "") -> str:
    path = folder / "rounds.keys"
    path.write_bytes(b"".join(base64.b64encode(key) + b"\n" for key in keys))
    path.chmod(0o600)
    file = folder / "accredit.toml"
    file.write_text(f'{text}[rounds]\nkeys_file = "rounds.keys"\n')
    return str(file)


def talk(folder: Path, config: str, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """A host's calls to `accredit wrap` around the server, and the answers; then the host goes away."""
    server = [python(), "-m", "tests.world.honest_server", str(folder / "received.jsonl")]
    lines = [
        compact({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {**call, "_meta": meta(**FORMS)}})
        for number, call in enumerate(calls)
    ]
    done = subprocess.run(
        [python(), *COMMAND[1:], "wrap", "--config", config, "--", *server],
        check=False, cwd=ROOT, env=environment(), input=b"\n".join(lines), capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    return [answers[number] for number in range(len(calls))]


@pytest.mark.slow
def test_wrap_seals_and_opens__over_a_restart_and_a_rotation(tmp_path: Path) -> None:
    (first,) = talk(tmp_path, configured(tmp_path, OLD), CALL)
    state = first["result"]["requestState"]
    assert SealedCall("tools/call", CALL).open(state, KeyRing([OLD])).state == "one é"
    (second,) = talk(tmp_path, configured(tmp_path, NEW, OLD), again(CALL, state))
    forged, other, third = talk(
        tmp_path,
        configured(tmp_path, NEW),
        again(CALL, "one é"),
        again(CALL, state),
        again(CALL, second["result"]["requestState"], 2),
    )
    assert forged["error"] == other["error"] == REFUSED
    assert third["result"]["content"][0]["text"] == "called any"
    received = [json.loads(line)["params"] for line in (tmp_path / "received.jsonl").read_text("utf-8").splitlines()]
    assert [params.get("requestState") for params in received] == [None, "one é", "two"]


async def test_workers_without_a_file_share_a_key__and_are_warned_that_it_ends_with_them(tmp_path: Path) -> None:
    async def ask(port: int, params: dict[str, Any]) -> dict[str, Any]:
        posted = post(Era.MODERN, "tools/call", params, capabilities=FORMS)
        async with RawClient(port) as client:
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            return json.loads((await client.answer()).body)

    async with RawServer(HonestServer()) as server:
        with Serving(server.url, "--workers", "2", folder=tmp_path) as gateway:
            for _ in range(20):
                state = (await ask(gateway.port, CALL))["result"]["requestState"]
                answer = await ask(gateway.port, again(CALL, state))
                assert answer["result"]["resultType"] == "input_required"
            assert gateway.stderr.count(WARNING) == 1


def test_with_a_file_or_a_single_worker_nobody_is_warned(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/mcp"
    with Serving(url, folder=tmp_path) as gateway:
        assert WARNING not in gateway.stderr
    config = configured(tmp_path, NEW)
    with Serving(url, "--config", config, "--workers", "2", folder=tmp_path) as gateway:
        assert WARNING not in gateway.stderr


def test_config_check_reads_the_keys_and_show_shows_none(tmp_path: Path) -> None:
    config = configured(tmp_path, b"\x01" * 32)
    assert accredit("config", "check", folder=tmp_path).returncode == 0
    shown = accredit("config", "show", folder=tmp_path).stdout
    assert f'rounds.keys_file = "{tmp_path}/rounds.keys"  # file {config}' in shown
    assert "rounds.state_seconds = 600  # default" in shown
    assert "AQEB" not in shown
    (tmp_path / "rounds.keys").chmod(0o644)
    done = accredit("config", "check", folder=tmp_path)
    assert done.returncode == 2
    assert "rounds.keys_file: others can read" in done.stderr
