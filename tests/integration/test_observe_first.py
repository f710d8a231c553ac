"""Observe first: a real gateway watches agents, what `accredit suggest` prints is applied to the letter, and then the
calls that were used pass, and no others. Real processes: the gateway, `accredit connect` before a host, a shell."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from tests.integration.test_connect import host, names, text_of
from tests.world.agents import AgentFiles, agent_files
from tests.world.authorization import GATEWAY, Trust
from tests.world.command import Serving, accredit, environment
from tests.world.raw_server import PATIENCE
from tests.world.reloading import post, reloaded
from tests.world.warm import python

pytestmark = [pytest.mark.slow, pytest.mark.holds("policy/suggesting", "grant")]

CONFIGURATION = """
[gateway]
id = "{gateway}"
{server}
[proofs]
mode = "observe"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[attest]
mode = "durable"
key_file = "gateway.key"
[store]
url = "sqlite:///accredit.db"
"""
UPSTREAM = "[upstream]\ncommand = {command}\n"
CATALOG = '[tools.list_inbox]\nscope = "email:read"\n[tools.search]\nscope = "email:read"\n'
SERVERS = "[servers.mail]\ncommand = {command}\n[servers.post]\ncommand = {command}\n"
SERVERS_CATALOG = CATALOG.replace("[tools", "[servers.mail.tools")
SEARCH, SEND = {"word": "bug"}, {"to": "ada", "subject": "hello"}
GIVEN: dict[str, dict[str, Any]] = {"list_inbox": {}, "send_email": SEND, "search": SEARCH}


class Watched:
    """A folder with a gateway that observes, and two agents of one owner who may only say who they are."""

    def __init__(self, folder: Path, server: str, catalog: str) -> None:
        self.folder = folder
        self.agents: list[AgentFiles] = []
        owner = Trust()
        for name in ("mailer", "reader"):
            trust = Trust()
            trust.owner = owner.owner
            (folder / name).mkdir()
            self.agents.append(agent_files(folder / name, trust, "identity:prove"))
        command = json.dumps([python(), str(Path(__file__).parents[2] / "examples/mail_server.py")])
        for name in ("owner.key", "owner.key.pub"):
            (folder / name).write_bytes((folder / "mailer" / name).read_bytes())
            (folder / name).chmod(0o600)
        assert accredit("keys", "new", "gateway.key", "--kind", "gateway", folder=folder).returncode == 0
        self._text = CONFIGURATION.format(gateway=GATEWAY, server=server.format(command=command)) + catalog
        self.write(self._text)

    def write(self, text: str) -> None:
        (self.folder / "accredit.toml").write_text(text, "utf-8")

    def suggested(self) -> str:
        done = accredit("suggest", folder=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, printed: str) -> None:
        """Does what it says, to the letter: its tables are added, its commands run, by a shell."""
        tables = [line for line in printed.splitlines() if not line.startswith("accredit ")]
        for agent in self.agents:
            key = json.loads(accredit("keys", "show", f"{agent.key}.pub", "--json", folder=self.folder).stdout)
            printed = printed.replace(f"AGENT-{key['id'][:12]}.pub", f"{agent.key}.pub")
        printed = re.sub(r"PRINCIPAL-[0-9a-f]+\.key", "owner.key", printed)
        lines = [line for line in printed.splitlines() if line.startswith(("accredit ", "#"))]
        script = f'accredit() {{ {python()} -m accredit "$@"; }}\nset -e\n' + "\n".join(lines)
        subprocess.run(["/bin/sh", "-c", script], cwd=self.folder, check=True, timeout=PATIENCE, env=environment())
        self.write("\n".join([self._text.replace('"observe"', '"required"'), *tables]))

    def options(self, agent: AgentFiles) -> tuple[str, ...]:
        """What its `accredit connect` is told: its key, and all that was signed for it."""
        key = json.loads(accredit("keys", "show", f"{agent.key}.pub", "--json", folder=self.folder).stdout)
        files = sorted(self.folder.glob(f"delegation-{key['id'][:12]}-*.json"))
        return ("--key", str(agent.key), *(word for file in files for word in ("--delegation", str(file))))


async def passes(client: Any, tool: str, arguments: dict[str, Any]) -> bool:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error or "allow" in text_of(result) or "has no tool" in text_of(result), result
    return not result.is_error


async def unsigned(port: int, path: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call by somebody who proves nothing, outside any session, refused or not by the gateway."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return (await asyncio.to_thread(post, port, path, json.dumps(call).encode()))[2]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_what_is_suggested_lets_exactly_the_calls_pass_that_were_used(mode: str, tmp_path: Path) -> None:
    watched = Watched(tmp_path, UPSTREAM, CATALOG)
    mailer, reader = watched.agents
    with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
        async with host(gateway.url, mailer.folder, *mailer.options, mode=mode) as client:
            assert names(await client.list_tools()) == ["list_inbox", "search", "send_email"]
            assert await passes(client, "list_inbox", {})
            assert await passes(client, "send_email", SEND)
            assert (await client.read_resource("mail://inbox/first")).contents
        async with host(gateway.url, reader.folder, *reader.options, mode=mode) as client:
            await client.list_tools()
            assert await passes(client, "search", SEARCH)
        await unsigned(gateway.port, "/mcp", "search", SEARCH)
        listed = accredit("log", "list", folder=tmp_path).stdout.splitlines()
        passed = [line for line in listed if " deny " in line and "  ok" in line]
        assert len(passed) > 1
        assert all("passed (would be: deny " in line for line in passed), "nobody is to take them for refused"
        printed = watched.suggested()
        assert "stays refused, as nobody signed them: 1 call" in printed
        watched.apply(printed)
        assert (await reloaded(gateway, tmp_path)).problem == ""
        async with host(gateway.url, mailer.folder, *watched.options(mailer), mode=mode) as client:
            for _ in range(2):
                assert await passes(client, "list_inbox", {})
                assert await passes(client, "send_email", SEND)
                assert (await client.read_resource("mail://inbox/first")).contents
            assert not await passes(client, "search", SEARCH), "it needs the scope that list_inbox needs"
            with pytest.raises(MCPError):
                await client.read_resource("mail://inbox/second")
        async with host(gateway.url, reader.folder, *watched.options(reader), mode=mode) as client:
            assert await passes(client, "search", SEARCH)
            assert not await passes(client, "list_inbox", {})
            assert not await passes(client, "send_email", SEND)
            with pytest.raises(MCPError):
                await client.read_resource("mail://inbox/first")
        async with host(gateway.url, reader.folder, *reader.options, mode=mode) as client:
            assert not await passes(client, "search", SEARCH), "the delegation that says who it is allows nothing"
        assert (await unsigned(gateway.port, "/mcp", "search", SEARCH))["error"]["code"] == -31001


async def test_of_two_servers_with_the_same_tools_each_is_granted_alone(tmp_path: Path) -> None:
    watched = Watched(tmp_path, SERVERS, SERVERS_CATALOG)
    mailer, _ = watched.agents
    with Serving("--config", "accredit.toml", folder=tmp_path) as gateway:
        for path, tools in (("mail", ("list_inbox",)), ("post", ("send_email", "search"))):
            url = f"http://127.0.0.1:{gateway.port}/mcp/{path}"
            async with host(url, mailer.folder, *mailer.options) as client:
                await client.list_tools()
                for tool in tools:
                    assert await passes(client, tool, {"list_inbox": {}, "send_email": SEND, "search": SEARCH}[tool])
        watched.apply(watched.suggested())
        assert (await reloaded(gateway, tmp_path)).problem == ""
        for path, tools in (("mail", {"list_inbox"}), ("post", {"send_email", "search"})):
            url = f"http://127.0.0.1:{gateway.port}/mcp/{path}"
            async with host(url, mailer.folder, *watched.options(mailer)) as client:
                for tool, given in GIVEN.items():
                    assert await passes(client, tool, given) is (tool in tools), (path, tool)
