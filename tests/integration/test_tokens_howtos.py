"""The how-tos about tokens are done here as they are written, on ports that are free."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.world.command import accepts, environment, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.warm import path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:`(\w+\.\w+)`[^\n]*:\n\n)?```(console|text|python|toml)\n(.*?)```", re.DOTALL)


@contextmanager
def shell(folder: Path) -> Generator[list[subprocess.Popen[bytes]]]:
    """What was started in the background; it ends with the block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            process.wait(PATIENCE)


@pytest.mark.parametrize(("name", "promised"), [("identity-provider", 3), ("from-token-argument", 1)])
def test_the_how_to_does_what_it_says(name: str, promised: int, free_port: Callable[[], int], tmp_path: Path) -> None:
    page = (ROOT / f"docs/how-to/{name}.md").read_text("utf-8")
    gateway, issuer = free_port(), free_port()
    page = page.replace("8484", str(gateway)).replace("9100", str(issuer))
    for example in ("local_issuer.py", "mail_server.py"):
        shutil.copy(ROOT / "examples" / example, tmp_path)
    env = environment({"PATH": path()})
    printed, promises = "", 0
    with shell(tmp_path) as started:
        for file, kind, body in BLOCK.findall(page):
            if file:
                (tmp_path / file).write_text(body, "utf-8")
            elif kind == "console":
                printed = ""
                for line in body.splitlines():
                    if line.endswith(" &"):
                        started.append(
                            subprocess.Popen(
                                ["bash", "-c", f"exec {line[:-2]}"], cwd=tmp_path, env=env, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            )
                        )  # fmt: skip
                        port = issuer if "local_issuer" in line else gateway
                        wait_until(lambda port=port: accepts(port))
                        continue
                    done = subprocess.run(
                        ["bash", "-c", line], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * PATIENCE, check=False,
                    )  # fmt: skip
                    printed += done.stdout
            else:
                assert body.strip() in printed
                promises += 1
    assert promises == promised
