"""The quickstarts of client libraries are done here as they are written: each from nothing to a protected call."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.environments import OWN, python
from tests.world.command import environment
from tests.world.mail import mail_server
from tests.world.raw_server import PATIENCE
from tests.world.up import Newcomer, Up
from tests.world.warm import path

pytestmark = pytest.mark.slow

PAGES = Path(__file__).parents[2] / "docs" / "quickstart"
BLOCK = re.compile(r"```(console|python|text)\n(.*?)```", re.DOTALL)
LIBRARIES = [
    pytest.param("python-sdk", OWN, id="python-sdk"),
    pytest.param("fastmcp", OWN, id="fastmcp"),
    pytest.param("langchain", "langchain", id="langchain", marks=pytest.mark.long),
    pytest.param("openai-agents", "openai-agents", id="openai-agents", marks=pytest.mark.long),
]


@pytest.mark.timeout(1_000)  # the environments of the long ones are installed when they are first needed
@pytest.mark.parametrize(("name", "library"), LIBRARIES)
def test_the_page_leads_from_nothing_to_a_protected_call(
    name: str, library: str, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    person = Newcomer(tmp_path, free_port())
    interpreter = sys.executable if library == OWN else str(python(library) / "python")
    with mail_server(tmp_path) as url:
        text = (PAGES / f"{name}.md").read_text("utf-8")
        text = text.replace("http://127.0.0.1:9000/mcp", url).replace(":8484", f":{person.port}")
        blocks = [(kind, body.strip()) for kind, body in BLOCK.findall(text)]
        up, grant, listed = [body for kind, body in blocks if kind == "console"]
        (program,) = [body for kind, body in blocks if kind == "python"]
        (printed,) = [body for kind, body in blocks if kind == "text"]

        def run(*words: str) -> str:
            done = subprocess.run(
                words, cwd=person.work, env=environment({**person.env, "PATH": path()}),
                capture_output=True, text=True, timeout=4 * PATIENCE, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        assert up == f"accredit up {url}"
        with Up(person, person.words(url)):
            assert run(interpreter, "-c", program) == printed
            run("bash", "-c", f"{grant} --yes --passphrase-file {person.secret}")
            (gateway,) = json.loads((person.own / "known_gateways.json").read_text("utf-8")).values()
            more = with_another_delegation(program, gateway)
            assert "sent to ada@example.org: Hello" in run(interpreter, "-c", more)
            allowed = [line for line in run("bash", "-c", listed).splitlines() if "allow" in line]
            assert sum("list_inbox" in line for line in allowed) == program.count("list_inbox") + more.count(
                "list_inbox"
            )


def with_another_delegation(program: str, gateway: str) -> str:
    """The page's program as its last part has it: it sends an email, with a second delegation for that, and the
    gateway's id."""
    one, two = 'str(OWN / "delegation.json")]', 'str(OWN / "delegation.json"), "--delegation", str(OWN / "send.json"), '
    program = program.replace(one, f'{two}"--gateway-id", "{gateway}"]').replace(
        '[OWN / "delegation.json"]', f'[OWN / "delegation.json", OWN / "send.json"], gateway_id="{gateway}"'
    )
    if "send_email" in program:
        return program
    email = '{"to": "ada@example.org", "subject": "Hello"}'
    return program.replace('"list_inbox", {}', f'"send_email", {email}').replace(
        '["list_inbox"].ainvoke({})', f'["send_email"].ainvoke({email})'
    )
