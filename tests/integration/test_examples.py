"""The examples for each of the five readers, as they stand in the folder: each is run beside the others."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.command import COMMAND, Serving, accredit, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import path, python

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
INDEX = (EXAMPLES / "README.md").read_text("utf-8")
SEND = '{"to": "ada@example.org", "subject": "Hello"}'


def run(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python(), str(EXAMPLES / script), *words], cwd=folder, env=environment({"PATH": path()}),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def command(folder: Path, *words: str) -> str:
    done = accredit(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_what_an_operator_serves_a_host_and_an_agent_use__and_an_auditor_verifies(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "mail_server.py", tmp_path)
    text = (EXAMPLES / "gateway.toml").read_text("utf-8")
    file = tmp_path / "gateway.toml"
    file.write_text(text.replace('["python"', f'["{sys.executable}"'), "utf-8")
    for words in re.findall(r"^#   accredit (keys .*|config .*)$", text, re.MULTILINE):
        command(tmp_path, *words.split(), *(["--no-passphrase"] if "human" in words else []))
    command(tmp_path, "keys", "new", "agent.key", "--kind", "agent", "--name", "Agent")
    grant = "grant --issuer owner.key --agent agent.key.pub --expires 7d --out delegation.json --scope mcp:tool"
    command(tmp_path, *grant.split())
    options = ["--key", str(tmp_path / "agent.key"), "--delegation", str(tmp_path / "delegation.json")]
    with Serving("--config", "gateway.toml", folder=tmp_path) as gateway:
        agent = run(tmp_path, "agent.py", gateway.url, *options, "list_inbox")
        assert (agent.returncode, agent.stderr) == (0, "")
        assert agent.stdout.startswith("may call: list_inbox, search\nada@example.org")
        words = [*COMMAND[1:], "connect", gateway.url, *options]
        entry = {"command": COMMAND[0], "args": words, "env": {"HOME": str(tmp_path)}}
        (tmp_path / "host.json").write_text(json.dumps({"mcpServers": {"mail": entry}}), "utf-8")
        host = run(tmp_path, "host.py", "host.json", "mail", "search", '{"word": "first"}')
        assert (host.returncode, host.stdout) == (0, "tools: list_inbox, search\nA bug\n"), host.stderr
        host = run(tmp_path, "host.py", "host.json", "mail", "send_email", SEND)
        assert host.returncode == 1
        assert "Not allowed: nobody has allowed this agent send_email" in host.stdout
    command(tmp_path, "log", "export", "--config", "gateway.toml", "--out", "calls.jsonl")
    audit = run(tmp_path, "audit.py", "calls.jsonl", "gateway.key.pub")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    ok, *counted = audit.stdout.splitlines()
    assert ok.startswith("ok: ")
    assert {tuple(line.split()[1:3]) for line in counted} >= {
        ("list_inbox", "allow"), ("search", "allow"), ("send_email", "deny"),
    }  # fmt: skip
    assert not [line for line in counted if "nobody" in line and "allow" in line], "each call was signed"
    lines = (tmp_path / "calls.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "calls.jsonl").write_text("".join(lines[1:]), "utf-8")
    audit = run(tmp_path, "audit.py", "calls.jsonl", "gateway.key.pub")
    assert (audit.returncode, audit.stdout[:4]) == (1, "BAD:")


READERS = ("somebody with a host", "a server's author", "an agent's author", "an operator", "an auditor")


def test_the_index_has_a_place_for_each_reader__and_names_every_example() -> None:
    assert [reader for reader in READERS if f"| {reader} | [`" not in INDEX] == []
    named = set(re.findall(r"\]\(([\w.]+)\)", INDEX))
    story = {"stage.py", *(each.name for each in EXAMPLES.glob("story*.py"))}
    assert named == {each.name for each in EXAMPLES.iterdir() if each.is_file()} - story - {"README.md"}


def test_every_example_is_named_by_a_test() -> None:
    tests = "".join(each.read_text("utf-8") for each in Path(__file__).parents[1].rglob("test_*.py"))
    scripts = {each.name for each in EXAMPLES.glob("*.py")} - {"stage.py"}
    pages = "".join(each.read_text("utf-8") for each in (EXAMPLES.parent / "docs/tutorial").glob("*.md"))
    assert [each for each in sorted(scripts) if each not in tests and f"examples/{each}" not in pages] == []
