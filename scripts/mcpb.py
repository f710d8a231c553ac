"""Makes the MCPB bundle of `accredit connect` beside a wheel: `python scripts/mcpb.py WHEEL`.

A host that takes such bundles (MCPB, manifest 0.4) asks its user for the values of `user_config`, and starts the server
with uv. The wheel is inside; what it needs comes from the machine's own index, in the versions that the tests had. The
same wheel gives the same bytes.
"""

import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([\w.-]+==[^\s\\]+(?: ; [^\\]+?)?) \\$", re.MULTILINE)
WHEN = (2020, 2, 2, 0, 0, 0)
"""The time of each file in it, as in a wheel."""

SERVER = '''"""Starts `accredit connect` as the host's server."""

import sys

from accredit.__main__ import main

sys.exit(main())
'''
RUN = ["run", "--project", "${__dirname}", "${__dirname}/server.py"]
USER_CONFIG = {
    "url": {
        "type": "string",
        "title": "Gateway",
        "description": "The address that accredit up prints",
        "default": "http://127.0.0.1:8484/mcp",
        "required": True,
    },
    "key": {
        "type": "file",
        "title": "The agent's key",
        "description": "agent.key, which accredit up made",
        "default": "${HOME}/.config/accredit/agent.key",
        "required": True,
    },
    "delegation": {
        "type": "file",
        "title": "Its delegation",
        "description": "delegation.json: what the agent may do, as you have signed it",
        "default": "${HOME}/.config/accredit/delegation.json",
        "required": True,
    },
}


def main(wheel: Path) -> Path:
    """Write the bundle and return its path."""
    version = wheel.name.split("-")[1]
    bundle = wheel.with_name(f"accredit-connect-{version}.mcpb")
    files = {
        "manifest.json": json.dumps(manifest(version), indent=2).encode(),
        "pyproject.toml": pyproject(wheel.name, version).encode(),
        "server.py": SERVER.encode(),
        wheel.name: wheel.read_bytes(),
    }
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(entry, data)
    return bundle


def manifest(version: str) -> dict[str, Any]:
    """Return what the host reads."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    values = {name: f"${{user_config.{name}}}" for name in USER_CONFIG}
    connect = ["connect", values["url"], "--key", values["key"], "--delegation", values["delegation"]]
    return {
        "manifest_version": "0.4",
        "name": "accredit-connect",
        "display_name": "accredit",
        "version": version,
        "description": "Signs each call to the tools behind your accredit gateway, and asks you about the others",
        "author": {"name": "accredit"},
        "documentation": project["urls"]["Documentation"],
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {"command": "uv", "args": [*RUN, *connect]},
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": project["requires-python"]}},
        "user_config": USER_CONFIG,
    }


def pyproject(wheel: str, version: str) -> str:
    """Return what uv reads; each list in it is JSON, which is TOML as well."""
    pins = PIN.findall((ROOT / "requirements/demo.txt").read_text("utf-8"))
    return f"""[project]
name = "accredit-connect"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["accredit"]

[tool.uv]
package = false
environments = ["sys_platform == 'linux'", "sys_platform == 'darwin'"]
constraint-dependencies = {json.dumps(pins, indent=4)}

[tool.uv.sources]
accredit = {{ path = "{wheel}" }}
"""


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
