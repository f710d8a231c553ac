"""A home with a host's servers in it, to be adopted; and a stdio server that says what it was started with. As a
program it is that server. I/O: files, stdin and stdout."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FORMS = {
    "codex": (
        ".codex/config.toml",
        '# mine\n[mcp_servers."my mail"] # x\ncommand = "PROGRAM"\nenabled = false\n'
        '[mcp_servers."my mail".env]\nTOKEN = "s3cret"\n\n# next\n[tui]\nx = 1\n',
    ),
    "goose": (
        ".config/goose/config.yaml",
        "# mine\nextensions:\n  developer:\n    type: builtin\n  mail: # x\n    cmd: PROGRAM\n    args: []\n"
        "    envs: {TOKEN: s3cret}\n    type: stdio\n    enabled: false\n    name: mail\nX: 1\n",
    ),
    "continue": (
        ".continue/config.yaml",
        "name: x\nmcpServers:\n  # mine\n  - name: mail\n    command: PROGRAM\n    env:\n      TOKEN: s3cret\n"
        "  - name: other\n    url: https://x/sse\nmodels: []\n",
    ),
    "vscode": (
        ".config/Code/User/mcp.json",
        '{"inputs": [{"id": "k", "type": "promptString"}], "servers": {"mail": {"type": "stdio", "command": "PROGRAM",'
        ' "env": {"TOKEN": "s3cret", "K": "${input:k}"}}}}',
    ),
    "zed": (
        ".config/zed/settings.json",
        '{"context_servers": {"mail": {"command": {"path": "PROGRAM", "args": [], "env": {"TOKEN": "s3cret"}}},'
        ' "ext": {"source": "extension", "settings": {"a": 1}}}}',
    ),
}
"""Files of hosts with a server `PROGRAM` that has a credential, each in its own form."""

SECRETS = ("s3cret-of-env", "s3cret-of-argument", "s3cret-of-header")


class Home:
    """A home folder without any program of a host on the path, a host's file in it, and a folder for a gateway."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.cursor = self.folder / ".cursor/mcp.json"
        self.desktop = self.folder / ".config/Claude/claude_desktop_config.json"
        self.config = folder / "gateway/accredit.toml"
        for each in (self.cursor, self.desktop):
            each.parent.mkdir(parents=True)
        self.env = {
            "HOME": str(self.folder), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "CLAUDE_CONFIG_DIR": "",
            "CODEX_HOME": "", "USER": "ada",
        }  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in the home folder."""
        from tests.world.command import accredit  # noqa: PLC0415 - the server below has to start without it

        return accredit(*words, folder=self.folder, env=self.env)

    def adopt(self, host: str = "cursor", *words: str) -> subprocess.CompletedProcess[str]:
        """Adopts a host's servers."""
        return self.run("install", host, "--adopt", "--config", str(self.config), "--yes", *words)

    def texts(self) -> dict[str, str]:
        """What is in each file of the home and the gateway's folder, but for what is kept of hosts' files."""
        every = [*self.folder.rglob("*"), *self.config.parent.rglob("*")]
        return {str(each): each.read_text("utf-8", "replace") for each in every if each.is_file()}


def theirs(url: str) -> str:
    """A host's file with three servers: two commands, and one behind a URL that wants a key."""
    me = [json.dumps(each) for each in (sys.executable, __file__)]
    return (
        "{\r\n  // of mine\r\n"
        '  "mcpServers": {\r\n'
        f'    "Echo": {{"command": {me[0]}, "args": [{me[1]}, "--key", "{SECRETS[1]}", "it\'s"],\r\n'
        '      "disabled": false},\r\n'
        f'    "mail": {{"command": {me[0]}, "args": [{me[1]}],\r\n'
        f'      "env": {{"TOKEN": "{SECRETS[0]}", "LOG_LEVEL": "debug"}}}}, // the second\r\n'
        f'    "web": {{"url": "{url}", "headers": {{"X-Api-Key": "{SECRETS[2]}"}}}},\r\n'
        '  },\r\n  "other": [1, 2.0, ],\r\n}\r\n'
    )


def next_to(option: str, default: str) -> str:
    """What follows a word of the command line."""
    return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else default


def _tool(name: str) -> dict[str, Any]:
    hints = {"annotations": {"readOnlyHint": True}} if name.startswith("list_") else {}
    return {"name": name, "inputSchema": {"type": "object"}, **hints}


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": "echo", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [_tool(name) for name in next_to("--tools", "told").split(",")]}
        case "tools/call":
            told = json.dumps({"args": sys.argv[1:], "token": os.environ.get("TOKEN"), "cwd": os.getcwd()})
            return {"content": [{"type": "text", "text": told}]}
        case _:
            return {}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = _answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
