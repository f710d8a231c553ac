"""What an entry leaves behind when it is removed, and what a second one changes: nothing."""

from pathlib import Path

import pytest

from accredit.hosts.drift import why_changed
from accredit.hosts.edit import Edit, EntryLocation, apply, drop_empty_table, edit_entry
from accredit.hosts.table import HOSTS, Places
from accredit.hosts.undo import without

BEFORE = {
    "cursor": ('{\n  "theme": 1\n}\n', '{"a":1}', '{\n\t"a": [1, 2], // why\n}\n'),
    "zed": ('// c\n{\n  "b": 2, // x\n}\n',),
    "codex": ('model = "x"\n',),
    "goose": ("GOOSE_MODEL: x\n", "a:\n  - b\nc: d"),
    "continue": ("name: a\nversion: 1.0.0\nschema: v1\n",),
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BEFORE.items() for text in texts])
def test_a_table_that_was_made_for_the_entry_goes_with_it(name: str, text: str, tmp_path: Path) -> None:
    host, file, state = HOSTS[name], tmp_path / "file", tmp_path / "state"
    file.write_text(text)
    entry = host.entry("accredit", ["/bin/accredit", "connect", "http://127.0.0.1:1/mcp"])
    place = EntryLocation(host, file, "accredit")
    old = file.read_bytes()
    apply(Edit(file, old, edit_entry(place, old, entry), name, {"accredit": entry}), state)
    assert file.read_bytes() != old
    edit = without(place, state)
    assert edit.new is not None
    assert edit.new.decode().rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize("text", ['{"mcpServers": {}}', '{"mcpServers": {"own": {"command": "x"}}}'])
def test_a_table_that_was_there_stays(text: str, tmp_path: Path) -> None:
    host, file, state = HOSTS["cursor"], tmp_path / "file", tmp_path / "state"
    file.write_text(text)
    entry = host.entry("accredit", ["/bin/accredit", "connect", "http://127.0.0.1:1/mcp"])
    place = EntryLocation(host, file, "accredit")
    apply(
        Edit(file, file.read_bytes(), edit_entry(place, file.read_bytes(), entry), "cursor", {"accredit": entry}), state
    )
    assert without(place, state).new == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"own": {}}}',
        '{"mcpServers": { /* mine */ }}',
        '{"a": 1}',
        '{\n  "mcpServers": {\n    // mine\n  }\n}',
    ],
)
def test_only_an_empty_table_without_a_comment_is_removed(text: str) -> None:
    assert drop_empty_table(HOSTS["cursor"], text.encode()) == text.encode()


def test_what_a_host_adds_that_is_empty_changes_no_entry() -> None:
    written = {"command": "accredit", "args": ["connect"]}
    assert why_changed(written, {**written, "env": {}, "headers": [], "cwd": None}) is None
    assert why_changed(written, {**written, "env": {"A": "b"}}) == "env was added"


def test_clines_file_is_looked_for_where_that_version_keeps_it(tmp_path: Path) -> None:
    host, at = HOSTS["cline"], Places({"HOME": str(tmp_path)}, "linux")
    name = "settings/cline_mcp_settings.json"
    code, cursor = (
        tmp_path / ".config" / each / "User/globalStorage/saoudrizwan.claude-dev" for each in ("Code", "Cursor")
    )
    own = tmp_path / ".cline/data"
    assert host.file(at) == code / name
    assert host.other_files(at, code / name) == []
    cursor.mkdir(parents=True)
    assert host.file(at) == cursor / name  # the editor that has it
    code.mkdir(parents=True)
    assert (host.file(at), host.other_files(at, code / name)) == (code / name, [cursor / name])
    own.mkdir(parents=True)
    assert (host.file(at), host.other_files(at, own / name)) == (own / name, [code / name, cursor / name])
    (cursor / name).parent.mkdir()
    (cursor / name).write_text("{}")
    assert host.file(at) == cursor / name  # the one that is in use
    named = Places({"HOME": str(tmp_path), "CLINE_MCP_SETTINGS_PATH": "/x/y.json"}, "linux")
    assert (host.file(named), host.other_files(named, Path("/x/y.json"))) == (Path("/x/y.json"), [])
