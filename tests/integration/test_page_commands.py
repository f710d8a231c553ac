"""Commands of pages that have no test of their own are run here, as they stand, by a reader whose gateway has a call on
record. Those that serve until Ctrl-C get it."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.unit.cli.test_docs_commands_run import blocks
from tests.world.agents import EXAMPLES, agent_files
from tests.world.authorization import Trust
from tests.world.command import Serving, accredit, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import path

pytestmark = pytest.mark.slow

DURABLE = '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n[store]\nurl = "sqlite:///accredit.db"\n'
CALL = ("call", "list_inbox", "--key", "agent.key", "--delegation", "delegation.json")
COMMANDS = [
    *(("README.md", number) for number in (3, 5)),
    ("docs/how-to/backup-and-restore.md", 0),
    ("docs/how-to/drill-your-gateway.md", 0),
    ("docs/how-to/install-from-a-file.md", 2),
    ("docs/how-to/pin-definitions.md", 0),
    *(("docs/how-to/run-in-production.md", number) for number in (0, 1, 2)),
    *(("docs/how-to/ship-the-log.md", number) for number in (0, 2)),
    *(("docs/how-to/verify-without-accredit.md", number) for number in (0, 2)),
    ("README.md", 4),  # it adds a second server
]
"""Pages, and the places of blocks in them."""
ENDLESS = ("accredit serve", "accredit log follow")
NOT_ZERO = {"accredit doctor --production": 1, "accredit check": 1, "accredit pin": 1}
"""What says by exit code 1 what it has found: this gateway is not one for production, and nothing of it is pinned."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Path, int, str]]:
    """The folder of somebody whose gateway serves, its port, and the id of a recorded call."""
    folder = tmp_path_factory.mktemp("reader")
    agent_files(folder, Trust())
    file = folder / "accredit.toml"
    text = re.sub(r"\[store\]\n.*\n", DURABLE, file.read_text("utf-8"))
    file.write_text(text, "utf-8")
    assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=folder).returncode == 0
    shutil.copytree(EXAMPLES, folder / "examples")
    shutil.copy(EXAMPLES / "mail_server.py", folder / "server.py")
    with Serving("--config", "accredit.toml", folder=folder) as gateway:
        done = accredit(*CALL, "--url", gateway.url, folder=folder)
        assert done.returncode == 0, done.stderr
        (call,) = [json.loads(line) for line in accredit("log", "list", "--json", folder=folder).stdout.splitlines()]
        yield folder, gateway.port, call["call"]


def copy(folder: Path, to: Path) -> None:
    """What a second gateway needs, with a server behind a URL: more than one worker can't share a command."""
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("accredit.pid", "accredit.db*"), dirs_exist_ok=True)
    text = (folder / "accredit.toml").read_text("utf-8")
    (to / "accredit.toml").write_text(re.sub(r"command = .*", 'url = "http://127.0.0.1:9/mcp"', text, count=1), "utf-8")


def lines(block: str) -> list[str]:
    return [line.partition("    #")[0].strip() for line in block.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize(("page", "number"), COMMANDS)
@pytest.mark.timeout(300)
def test_each_command_of_a_page_runs_as_it_stands(
    page: str, number: int, reader: tuple[Path, int, str], free_port: Callable[[], int], tmp_path: Path
) -> None:
    folder, port, call = reader
    block = blocks(page)[number].body
    for name in re.findall(r"--out (\S+)", block):
        (folder / name).unlink(missing_ok=True)
    for line in lines(block):
        if line.startswith("sqlite3") and shutil.which("sqlite3") is None:
            pytest.skip("sqlite3 is not installed")
        serves = line.startswith("accredit serve")  # a second gateway, in a folder like the first one's
        if serves:
            copy(folder, tmp_path)
        env = {"PATH": path(), "HOME": str(folder), "ACCREDIT_GATEWAY__PORT": str(free_port() if serves else port)}
        command = re.sub(r"\b(CALL_ID|ID)\b", call, line)
        early: int | None = None
        with subprocess.Popen(
            ["bash", "-ec", f"exec {command}" if line.startswith(ENDLESS) else command],
            cwd=tmp_path if serves else folder, env=environment(env),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as running:  # fmt: skip
            if line.startswith(ENDLESS):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(5)
                early = running.poll()
                running.send_signal(signal.SIGINT)
            said, _ = running.communicate(timeout=2 * PATIENCE)
        if line.startswith(ENDLESS):
            assert early is None, said
        else:
            code = next((code for words, code in NOT_ZERO.items() if line.startswith(words)), 0)
            assert running.returncode in {0, code}, f"{line}: {said}"
