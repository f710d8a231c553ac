"""The twelve hosts: their files on both systems, and what an entry says in each."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from accredit.cli.actions.connect import MAX_HOLD_SECONDS
from accredit.errors import ConfigurationError
from accredit.hosts.edit import EntryLocation, edit_entry, entries
from accredit.hosts.table import HOSTS, Places, find_host, project_file

HOME = Path("/home/ada")
LIBRARY = "Library/Application Support"
CLINE = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", f"{LIBRARY}/Claude/claude_desktop_config.json"),
    "claude-code": (".claude.json", ".claude.json"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": (".config/Code/User/mcp.json", f"{LIBRARY}/Code/User/mcp.json"),
    "windsurf": (".codeium/windsurf/mcp_config.json", ".codeium/windsurf/mcp_config.json"),
    "zed": (".config/zed/settings.json", ".config/zed/settings.json"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"),
    "goose": (".config/goose/config.yaml", ".config/goose/config.yaml"),
    "cline": (f".config/{CLINE}", f"{LIBRARY}/{CLINE}"),
    "lm-studio": (".lmstudio/mcp.json", ".lmstudio/mcp.json"),
    "continue": (".continue/config.yaml", ".continue/config.yaml"),
}
WORDS = ["/opt/bin/accredit", "connect", "http://127.0.0.1:8484/mcp"]
PLAIN = {"command": WORDS[0], "args": WORDS[1:]}
SHAPES: dict[str, Any] = {
    "claude-desktop": {"mcpServers": {"mail": PLAIN}},
    "claude-code": {"mcpServers": {"mail": {**PLAIN, "type": "stdio", "timeout": 300_000}}},
    "cursor": {"mcpServers": {"mail": PLAIN}},
    "vscode": {"servers": {"mail": {**PLAIN, "type": "stdio"}}},
    "windsurf": {"mcpServers": {"mail": PLAIN}},
    "zed": {"context_servers": {"mail": {**PLAIN, "source": "custom"}}},
    "gemini": {"mcpServers": {"mail": {**PLAIN, "timeout": 300_000}}},
    "codex": {"mcp_servers": {"mail": {**PLAIN, "tool_timeout_sec": 300}}},
    "goose": {"extensions": {"mail": {"cmd": WORDS[0], "args": WORDS[1:], "type": "stdio", "enabled": True,
                                      "name": "mail", "timeout": 300}}},
    "cline": {"mcpServers": {"mail": {**PLAIN, "timeout": 60}}},
    "lm-studio": {"mcpServers": {"mail": PLAIN}},
    "continue": {"name": "Local Config", "version": "1.0.0", "schema": "v1",
                 "mcpServers": [{**PLAIN, "name": "mail"}]},
}  # fmt: skip


def _toml(data: bytes) -> dict[str, Any]:
    return tomllib.loads(data.decode())


READERS: dict[str, Any] = {
    ".json": json.loads,
    ".toml": _toml,
    ".yaml": yaml.safe_load,
}


def test_there_are_twelve() -> None:
    assert list(HOSTS) == list(FILES) == list(SHAPES)
    with pytest.raises(ConfigurationError, match="no host is called 'emacs'"):
        find_host("emacs")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("number", "platform"), [(0, "linux"), (1, "darwin")])
def test_its_file_is_where_the_host_reads_it(name: str, number: int, platform: str) -> None:
    places = Places({"HOME": str(HOME)}, platform)
    assert HOSTS[name].file(places) == HOME / FILES[name][number]


def test_variables_of_hosts_count__if_they_are_absolute_paths(tmp_path: Path) -> None:
    places = Places(
        {"HOME": str(HOME), "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d", "XDG_CONFIG_HOME": "/x"}, "linux"
    )
    assert [str(HOSTS[name].file(places)) for name in ("codex", "claude-code", "zed")] == [
        "/c/config.toml", "/d/.claude.json", "/x/zed/settings.json",
    ]  # fmt: skip
    assert Places({"HOME": str(HOME), "XDG_CONFIG_HOME": "x"}, "linux").config == HOME / ".config"
    cline = HOSTS["cline"]
    assert cline.file(Places({"HOME": str(HOME), "CLINE_MCP_SETTINGS_PATH": "/e.json"}, "linux")) == Path("/e.json")
    own = tmp_path / ".cline/data/settings/cline_mcp_settings.json"
    own.parent.mkdir(parents=True)
    own.touch()
    assert cline.file(Places({"HOME": str(tmp_path)}, "linux")) == own
    (tmp_path / ".cache/lm-studio").mkdir(parents=True)
    studio = HOSTS["lm-studio"]
    assert studio.file(Places({"HOME": str(tmp_path)}, "linux")) == tmp_path / ".cache/lm-studio/mcp.json"


@pytest.mark.parametrize("name", SHAPES)
def test_a_new_file_is_what_the_host_reads(name: str) -> None:
    host = HOSTS[name]
    entry = host.entry("mail", WORDS)
    data = edit_entry(EntryLocation(host, Path("x"), "mail"), b"", entry)
    assert READERS[Path(FILES[name][0]).suffix](data) == SHAPES[name]
    assert host.words(entries(host, data)["mail"]) == WORDS


@pytest.mark.parametrize("name", HOSTS)
def test_a_held_call_ends_before_the_host_s_patience(name: str) -> None:
    host = HOSTS[name]
    assert 0 < host.hold <= MAX_HOLD_SECONDS
    written = host.more("mail")
    patience = [written.get("timeout"), written.get("tool_timeout_sec")]
    for value in filter(None, patience):
        assert (value / 1000 if value >= 10_000 else value) >= host.hold + 10


@pytest.mark.parametrize("entry", [None, 1, [], {}, {"command": 1}, {"url": "http://x"}])
def test_an_entry_without_a_command_has_none(entry: object) -> None:
    assert HOSTS["cursor"].words(entry) == []


def test_projects_have_files_in_three_hosts__and_no_link_leads_out_of_them(tmp_path: Path) -> None:
    have = {name: host.project for name, host in HOSTS.items() if host.project}
    assert have == {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}
    assert project_file(HOSTS["cursor"], tmp_path) == tmp_path / ".cursor/mcp.json"
    with pytest.raises(ConfigurationError, match="zed has no file for a project"):
        project_file(HOSTS["zed"], tmp_path)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.cursor").symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="leads out"):
        project_file(HOSTS["cursor"], tmp_path / "project")
