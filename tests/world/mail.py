"""The example server behind HTTP, as a process. I/O: a process, a file."""

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.world.command import environment, wait_until
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm, python

MAIL = (python(), str(Path(__file__).parents[2] / "examples" / "mail_server.py"))


@contextmanager
def mail_server(folder: Path) -> Generator[str]:
    """The server, on a free port; gives its URL."""
    told = folder / "mail.log"
    with told.open("wb") as log:
        process = Warm([sys.executable, MAIL[1], "--port", "0"], stdout=log, stderr=log, env=environment())
    try:
        runs = re.compile(r"Uvicorn running on (http://\S+) ")
        wait_until(lambda: runs.search(told.read_text("utf-8")) is not None or process.poll() is not None)
        found = runs.search(told.read_text("utf-8"))
        assert found, told.read_text("utf-8")
        yield f"{found[1]}/mcp"
    finally:
        process.kill()
        process.wait(PATIENCE)
