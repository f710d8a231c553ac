"""The tutorial "let your assistant ask you" is done here as it is written, in real terminals."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.test_tutorial import ROOT, blocks, running, surroundings
from tests.world.command import accredit, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.terminal import Terminal
from tests.world.warm import python

pytestmark = pytest.mark.slow

TUTORIAL = "docs/tutorial/let-your-assistant-ask-you.md"
PASSPHRASE = "correct horse battery staple"


def test_the_tutorial_of_an_assistant_that_asks_does_what_it_says(free_port: Callable[[], int], tmp_path: Path) -> None:
    steps = blocks(TUTORIAL, free_port)
    keys, serve, desk, assistant, asked, approve, deny, grants = [body for kind, body in steps if kind == "console"]
    sent, said_no = [body for kind, body in steps if kind == "text"]
    folder, own_key, copy, agent_key = keys.splitlines()
    # The official SDK hands on HOME and PATH to `connect`, and nothing of the others.
    home = {"HOME": str(tmp_path)} | dict.fromkeys(("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "")

    subprocess.run(folder, shell=True, check=True, cwd=tmp_path, env=surroundings(**home))
    with Terminal(*own_key.replace("~", str(tmp_path)).split()[1:], folder=tmp_path, env=home) as terminal:
        for prompt in ("New passphrase", "once more"):
            terminal.wait_for(prompt)
            terminal.types(f"{PASSPHRASE}\n")
        assert terminal.end() == 0
    subprocess.run(copy, shell=True, check=True, cwd=tmp_path, env=surroundings(**home))
    assert accredit(*agent_key.split()[1:], folder=tmp_path, env=home).returncode == 0
    config = (ROOT / TUTORIAL).read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    config = config.replace("REPOSITORY", str(ROOT)).replace('"python"', f'"{python()}"')
    (tmp_path / "accredit.toml").write_text(config, "utf-8")
    (script,) = [body for kind, body in steps if kind == "python"]
    (tmp_path / "assistant.py").write_text(script, "utf-8")

    def code() -> str:
        found: list[str] = []

        def look() -> bool:
            told = accredit(*asked.split()[1:], folder=tmp_path, env=home).stdout.split()
            found[:] = [word for word in told if word[4:5] == "-" and len(word) == 7]
            return bool(found)

        wait_until(look)
        return found[0]

    def runs() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            assistant, shell=True, cwd=tmp_path, env=surroundings(**home), stdout=subprocess.PIPE, text=True
        )

    with running(serve, "listening on", tmp_path, **home), running(f"{desk} --port 0", "desk: http", tmp_path, **home):
        with runs() as first:
            words = approve.replace("CODE", code()).split()[1:]
            with Terminal(*words, folder=tmp_path, env=home) as terminal:
                terminal.wait_for("how all")
                terminal.types("o\n")
                terminal.wait_for("assphrase")
                terminal.types(f"{PASSPHRASE}\n")
                assert terminal.end() == 0, terminal.seen
            assert first.communicate(timeout=PATIENCE)[0].strip() == sent
        with runs() as second:
            named = code()
            assert accredit(*deny.replace("CODE", named).split()[1:], folder=tmp_path, env=home).returncode == 0
            assert second.communicate(timeout=PATIENCE)[0].strip() == said_no.replace("CODE", named)
        assert accredit(*grants.split()[1:], folder=tmp_path, env=home).stdout.count("send_email") == 1
