"""What a host's own servers are is read whole or not at all, in each host's own words."""

import json
from pathlib import Path
from typing import Any

import pytest

from accredit.hosts.foreign import Command, Credential, Folders, Own, Remote, SkippedEntry, Variable, own_servers
from accredit.hosts.table import HOSTS

pytestmark = pytest.mark.holds("hosts/foreign")
HOME, PROJECT = Path("/home/ada"), Path("/home/ada/shop")


def read(entry: object, host: str = "cursor", *, project: bool = False) -> Own | SkippedEntry:
    data = json.dumps({HOSTS[host].table: {"mail": entry}}).encode()
    (found,) = own_servers(HOSTS[host], data, Folders(HOME, PROJECT if project else None))
    return found


def server(entry: object, host: str = "cursor", *, project: bool = False) -> Command | Remote:
    found = read(entry, host, project=project)
    assert isinstance(found, Own), found
    return found.server


def why(entry: object, host: str = "cursor") -> str:
    found = read(entry, host)
    assert isinstance(found, SkippedEntry), found
    return found.why


def in_text(host: str, text: str) -> list[Own | SkippedEntry]:
    return own_servers(HOSTS[host], text.encode(), Folders(HOME, None))


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("zed", '{"context_servers": {"mail": {"command": {"path": "npx", "args": ["-y", "x"], "env": {"A": "on"}}}}}'),
        ("zed", '{"context_servers": {"mail": {"source": "custom", "command": "npx",'
                '"args": ["-y", "x"], "env": {"A": "on"}}}}'),
        ("codex", '[mcp_servers.mail]\ncommand = "npx"\nargs = ["-y", "x"]\n[mcp_servers.mail.env]\nA = "on"\n'),
        ("goose", "extensions:\n  mail:\n    cmd: npx\n    args: [-y, x]\n    type: stdio\n    enabled: false\n"
                  "    timeout: 300\n    name: mail\n    envs:\n      A: 'on'\n    env_keys: []\n    bundled: null\n"),
        ("continue", "mcpServers:\n- name: mail\n  command: npx\n  args: ['-y', x]\n  env: {A: 'on'}\n"),
    ],
)  # fmt: skip
def test_a_command_is_read_from_every_form(host: str, text: str) -> None:
    (found,) = in_text(host, text)
    assert isinstance(found, Own), found
    assert found.server == Command((("npx",), ("-y",), ("x",)), {"A": ("on",)}, "/home/ada")
    assert found.name == "mail"


def test_a_url_is_read_from_every_form() -> None:
    url = "https://x.example/mcp"
    for host, entry in (
        ("cursor", {"url": url}),
        ("vscode", {"type": "http", "url": url}),
        ("claude-code", {"type": "http", "url": url}),
        ("gemini", {"httpUrl": url}),
        ("gemini", {"url": url, "type": "http"}),
        ("windsurf", {"serverUrl": url}),
        ("cline", {"type": "streamableHttp", "url": url}),
    ):
        assert server(entry, host) == Remote(url, {}, holds_secret=False), host
    (codex,) = in_text(
        "codex", f'[mcp_servers.a]\nurl = "{url}"\nbearer_token_env_var = "T"\nhttp_headers = {{ X = "y" }}\n'
        'env_http_headers = { Z = "ZV" }\n'
    )  # fmt: skip
    assert isinstance(codex, Own)
    headers = {"X": (Credential("y"),), "Z": (Variable("ZV"),), "Authorization": ("Bearer ", Variable("T"))}
    assert codex.server == Remote(url, headers, holds_secret=False)
    (found,) = in_text("goose", f"extensions:\n  a:\n    type: streamable_http\n    uri: {url}\n    headers: {{}}\n")
    assert isinstance(found, Own)
    (found,) = in_text(
        "continue", f"mcpServers:\n- name: a\n  type: streamable-http\n  url: {url}\n"
        "  requestOptions:\n    headers:\n      Authorization: Bearer x\n"
    )  # fmt: skip
    assert isinstance(found, Own)
    assert found.server == Remote(url, {"Authorization": (Credential("Bearer x"),)}, holds_secret=False)


def test_servers_that_claude_code_keeps_for_a_project_are_named() -> None:
    servers = {"a": {"command": "x"}, "b": {"command": "y"}}
    tree = {"mcpServers": {}, "projects": {"/x": {"mcpServers": servers}, "/y": {"mcpServers": {}}, "/z": 3}}
    (left,) = in_text("claude-code", json.dumps(tree))
    assert isinstance(left, SkippedEntry)
    assert left.name == "2 servers of projects"
    for projects in ({}, [], None, {"/x": {"mcpServers": 3}}):
        assert in_text("claude-code", json.dumps({"projects": projects})) == []


def test_accredit_s_own_entries_and_parts_of_the_host_are_none() -> None:
    own = {"command": "/opt/accredit", "args": ["connect", "http://127.0.0.1:8484/mcp"]}
    data = json.dumps({"mcpServers": {"mine": own, "sdk": {"type": "sdk", "name": "x"}}}).encode()
    assert own_servers(HOSTS["cursor"], data, Folders(HOME, None)) == []
    assert in_text("goose", "extensions:\n  developer:\n    type: builtin\n    name: developer\n") == []


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"command": "x", "envFile": ".env"}, "envFile"),
        ({"command": "x", "sandbox": {"a": 1}}, "sandbox"),
        ({"url": "https://x/mcp", "auth": {"CLIENT_ID": "x"}}, "auth"),
        ({"command": "x", "url": "https://x/mcp"}, "both"),
        ({"args": ["x"]}, "neither"),
        ({"command": 3}, "no text"),
        ({"command": "x", "args": [1]}, "no list of texts"),
        ({"command": "x", "args": "y"}, "no list of texts"),
        ({"command": "x", "env": {"A": 1}}, "no table of texts"),
        ({"command": "x", "type": "docker"}, "docker"),
        ({"url": "https://x/mcp", "type": "ws"}, "ws"),
        ({"url": "https://x/mcp", "env": {"A": "b"}}, "variables or arguments"),
        ({"command": "x", "args": ["a\0b"]}, "no argument"),
        ({"command": "x", "env": {"A\ud800": "b"}}, "no argument"),
        ("x", "no table"),
        (None, "no table"),
        ([], "no table"),
    ],
)  # fmt: skip
def test_what_is_not_understood_whole_is_left(entry: Any, reason: str) -> None:
    assert reason in why(entry)


def test_one_of_two_of_the_same_name_is_not_taken_for_the_other() -> None:
    found = in_text("continue", "mcpServers:\n- name: a\n  command: x\n- name: a\n  command: y\n- command: z\n")
    assert [type(each) for each in found] == [SkippedEntry, SkippedEntry, SkippedEntry]


def test_variables_are_told_from_texts() -> None:
    found = server({"command": "npx", "args": ["--key=${KEY}", "${userHome}/x"], "env": {
        "A": "${env:TOKEN}", "B": "${B}", "C": "$C"}})  # fmt: skip
    assert isinstance(found, Command)
    assert found.words == (("npx",), ("--key=", Variable("KEY")), ("/home/ada/x",))
    assert found.env == {"A": (Variable("TOKEN"),), "B": (Variable("B"),), "C": (Credential("$C"),)}
    gemini = server({"command": "npx", "env": {"C": "$C"}}, "gemini")
    assert isinstance(gemini, Command)
    assert gemini.env == {"C": (Variable("C"),)}
    asked = server({"type": "stdio", "command": "npx", "env": {"A": "${input:my-api key}"}}, "vscode")
    assert isinstance(asked, Command)
    assert asked.env == {"A": (Variable("MY_API_KEY", asked=True),)}
    remote = server(
        {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${input:t}"}}, "vscode"
    )
    assert isinstance(remote, Remote)
    assert remote.headers == {"Authorization": ("Bearer ", Variable("T", asked=True))}


def test_folders_of_a_project_are_known_in_its_own_file_alone() -> None:
    entry = {"command": "npx", "args": ["${workspaceFolder}/a", "${workspaceFolderBasename}"], "cwd": "sub"}
    found = server(entry, "vscode", project=True)
    assert found == Command((("npx",), ("/home/ada/shop/a",), ("shop",)), {}, "/home/ada/shop/sub")
    assert "only the host knows" in why(entry, "vscode")
    assert server({"command": "npx", "cwd": "~/a"}) == Command((("npx",),), {}, "/home/ada/a")


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"A": "a-${B}"}},
        {"command": "x", "args": ["${B:-default}"]},
        {"command": "x", "args": ["${command:pick}"]},
        {"command": "x", "env": {"A": "${input:}"}},
        {"command": "x", "env": {"A": "${input:9}"}},
        {"command": "x", "cwd": "${A}"},
        {"url": "https://${HOST}/mcp"},
        {"url": "https://x/mcp", "headers": {"A": "a ${B} c"}},
        {"url": "https://x/mcp", "headers": {"A": "a b ${B}"}},
        {"url": "https://x/mcp", "headers": {"A": "${B}${C}"}},
    ],
)
def test_a_variable_that_can_not_be_carried_over_leaves_its_server(entry: Any) -> None:
    assert "variable" in why(entry) or "made of" in why(entry) or "gives no" in why(entry)


def test_a_server_of_the_old_transport_is_left() -> None:
    for host, entry in (
        ("cursor", {"url": "https://x.example/sse"}),
        ("vscode", {"type": "sse", "url": "https://x.example/mcp"}),
        ("gemini", {"url": "https://x.example/mcp"}),
        ("cline", {"url": "https://x.example/mcp"}),
    ):
        assert "HTTP+SSE" in why(entry, host)


def test_how_the_host_deals_with_it_stays__but_no_text_that_may_be_a_credential() -> None:
    found = read({"command": "x", "disabled": True, "autoApprove": ["read"], "timeout": 60,
                  "description": "with sk-proj-abcdefghijkl"})  # fmt: skip
    assert isinstance(found, Own)
    assert found.kept == {"disabled": True, "autoApprove": ["read"], "timeout": 60}
