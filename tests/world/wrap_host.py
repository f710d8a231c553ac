"""A host that starts `accredit wrap` before a server with a journal, for which agents sign. I/O: processes, files."""

import json
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.world.authorization import GATEWAY, Trust
from tests.world.calls import post
from tests.world.command import COMMAND, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm, python

from accredit.jsonrpc.methods import Era
from accredit.keys import write_key

_CONFIGURATION = """
[gateway]
id = "{id}"
{gateway}
[upstream]
command = ['{python}', '-m', 'tests.world.{server}', '{folder}/received', {options}]
env = {{ PYTHONPATH = '{root}' }}
[proofs]
mode = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.list_inbox]
scope = "email:read"
[tools.send_email]
scope = "email:send"
sensitive = true
[tools.pay]
scope = "payments:send"
[store]
url = "sqlite:///accredit.db"
"""


class WrapHost:
    """`with WrapHost(folder, trust, era) as host`; `gateway` is more of its configuration, `server` one of
    tests.world."""

    def __init__(
        self, folder: Path, trust: Trust, era: Era, *options: str, gateway: str = "", server: str = "honest_server"
    ) -> None:
        self._folder, self._era = folder, era
        self.told: list[dict[str, Any]] = []
        write_key(folder / "owner.key", trust.owner)
        text = _CONFIGURATION.format(
            id=GATEWAY, gateway=gateway, python=python(), server=server, folder=folder,
            options=", ".join(map(repr, options)), root=Path(__file__).parents[2],
        )  # fmt: skip
        (folder / "accredit.toml").write_text(text, "utf-8")
        with (folder / "stderr").open("wb") as stderr:
            self._process = Warm(
                [*COMMAND, "wrap", "--config", str(folder / "accredit.toml")],
                env=environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        if self._era is Era.LEGACY:
            own = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            assert "result" in self.ask("initialize", own)
        return self

    def __exit__(self, *_: object) -> None:
        self._stdin.close()
        self._process.wait(PATIENCE)
        self._stdout.close()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request; gives the response, and keeps what is told before it."""
        self.say(post(self._era, method, params).body)
        while "method" in (message := json.loads(self._stdout.readline())):
            self.told.append(message)
        return message

    def say(self, line: bytes) -> None:
        """A message that nobody answers."""
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def received(self) -> list[dict[str, Any]]:
        """What has come to the server."""
        return [json.loads(line) for line in (self._folder / "received").read_text("utf-8").splitlines()]

    @property
    def stderr(self) -> str:
        """What the command has written to it."""
        return (self._folder / "stderr").read_text("utf-8")
