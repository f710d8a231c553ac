"""An agent's files as they lie on its machine, and a gateway's beside them. I/O: files in the test's folder."""

import json
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from tests.world.authorization import GATEWAY, Trust
from tests.world.warm import python

from accredit.keys import DelegationFile, PrivateKeyFile, write_file, write_key
from accredit.ratify import DelegationCert

EXAMPLES = Path(__file__).parents[2] / "examples"
MAIL_SERVER = EXAMPLES / "mail_server.py"

_CONFIGURATION = """
[gateway]
id = "{gateway}"
[upstream]
command = {server}
[proofs]
mode = "required"
binding = "required"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.list_inbox]
scope = "email:read"
[tools.send_email]
scope = "email:send"
sensitive = true
[tools.search]
scope = "email:search"
[store]
url = "memory:"
"""


_ANY_TOOL = """
[gateway]
id = "gateway"
[upstream]
{upstream}
[proofs]
mode = "required"
binding = "required"
default_tool_scope = "mcp:tool"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[store]
url = "memory:"
"""


class AgentFiles(Struct, frozen=True):
    """A folder with `agent.key`, `delegation.json`, and an `accredit.toml` that trusts the owner."""

    folder: Path

    @property
    def key(self) -> Path:
        return self.folder / "agent.key"

    @property
    def delegation(self) -> Path:
        return self.folder / "delegation.json"

    @property
    def known_gateways(self) -> Path:
        return self.folder / "known_gateways.json"

    @property
    def options(self) -> tuple[str, ...]:
        """What `accredit connect` is told of them."""
        return ("--key", str(self.key), "--delegation", str(self.delegation))


def save_delegation(path: Path, chain: tuple[DelegationCert, ...]) -> Path:
    """A delegation file."""
    write_file(path, DelegationFile(chain).encode())
    return path


def agent_files(folder: Path, trust: Trust, *scope: str, key: PrivateKeyFile | None = None) -> AgentFiles:
    """Writes everything; the delegation is for the trust's agent."""
    write_key(folder / "agent.key", key or trust.agent)
    write_key(folder / "owner.key", trust.owner)
    save_delegation(folder / "delegation.json", trust.chain(*(scope or ("email:read", "email:send", "mcp:resource"))))
    server = json.dumps([python(), str(MAIL_SERVER)])
    (folder / "accredit.toml").write_text(_CONFIGURATION.format(gateway=GATEWAY, server=server), "utf-8")
    return AgentFiles(folder)


def guard_any_tool(folder: Path, upstream: str | Sequence[str]) -> None:
    """Writes the configuration of a gateway before a server, by its URL or its command, each tool of which has one
    scope."""
    key = "url" if isinstance(upstream, str) else "command"
    text = _ANY_TOOL.format(upstream=f"{key} = {json.dumps(upstream)}")
    (folder / "accredit.toml").write_text(text, "utf-8")
