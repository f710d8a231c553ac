"""The how-tos about tokens are done here as they are written, on ports that are free."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.world.command import environment

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:`(\w+\.\w+)`[^\n]*:\n\n)?```(console|text|python|toml)\n(.*?)```", re.DOTALL)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


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
            process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "promised"), [("identity-provider", 3), ("from-token-argument", 1)])
def test_the_how_to_does_what_it_says(name: str, promised: int, tmp_path: Path) -> None:
    page = (ROOT / f"docs/how-to/{name}.md").read_text("utf-8")
    page = page.replace("8484", str(free_port())).replace("9100", str(free_port()))
    for example in ("local_issuer.py", "mail_server.py"):
        shutil.copy(ROOT / "examples" / example, tmp_path)
    env = environment({"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})
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
                        continue
                    done = subprocess.run(
                        ["bash", "-c", line], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                    )  # fmt: skip
                    printed += done.stdout
            else:
                assert body.strip() in printed
                promises += 1
    assert promises == promised
