"""The tutorial "one delegation over three hops" is done here as it is written, with a server, an API and an agent."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.test_tutorial import ROOT, blocks, running, surroundings
from tests.world.command import wait_until, with_nobody_to_ask
from tests.world.raw_server import PATIENCE

pytestmark = pytest.mark.slow

TUTORIAL = "docs/tutorial/three-hops.md"


def test_the_tutorial_of_three_hops_does_what_it_says(free_port: Callable[[], int], tmp_path: Path) -> None:
    port = str(free_port())
    steps = [(kind, body.replace("9001", port)) for kind, body in blocks(TUTORIAL, free_port)]
    office, init, keys, gateway, take_hops, look, take_back = [body for kind, body in steps if kind == "console"]
    (program,) = [body for kind, body in steps if kind == "python"]
    allowed, revoked = [body for kind, body in steps if kind == "text"]
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def run(command: str, folder: Path) -> str:
        done = subprocess.run(
            ["sh", "-ec", with_nobody_to_ask(command)], cwd=folder, env=surroundings(), capture_output=True, text=True,
            timeout=PATIENCE * 3, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    guarded = tmp_path / "office"
    with running(office, "Uvicorn running", tmp_path):
        run(init, tmp_path)
        certificate = re.search(r"certificate +([0-9a-f]+)", run(keys.removeprefix("cd office\n"), guarded))
        assert certificate is not None
        (guarded / "day.py").write_text(program, "utf-8")
        with running(gateway, "listening on", tmp_path):
            id = re.search(r"^id +([0-9a-f]+)$", run("accredit keys show gateway.key.pub", guarded), re.MULTILINE)
            assert id is not None
            assert run(take_hops.replace("GATEWAY", id[1]), guarded) == allowed
            found = run(look, guarded)
            assert re.findall(r" (mail|orders|helper) .* allow .* Agent \(\w+\) +Owner$", found, re.MULTILINE) == [
                "helper",
                "orders",
                "mail",
            ]
            assert re.search(r"^ok: \d+ records of 1 writer verify", found, re.MULTILINE)
            revoke, _, again = take_back.partition("\n")
            run(revoke.replace("CERT_ID", certificate[1]), guarded)
            wait_until(lambda: run(again.replace("GATEWAY", id[1]), guarded) == revoked)
