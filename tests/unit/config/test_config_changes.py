"""What a configuration that is read again may change, and how that is told: names, and never a value."""

from pathlib import Path

import pytest

from accredit.config.changes import MAX_RELOAD_CHANGES, changes, check_fixed, in_short
from accredit.config.load import Loaded, Origin, Values, load
from accredit.errors import ConfigurationError
from accredit.keys import ReadFiles, reading

pytestmark = [pytest.mark.holds("config/changes"), pytest.mark.holds("config")]
UPSTREAM = '[upstream]\nurl = "http://127.0.0.1:9/mcp"\n'


def read(folder: Path, text: str) -> tuple[Loaded, ReadFiles]:
    file, files = folder / "accredit.toml", ReadFiles()
    file.write_text(text, "utf-8")
    with reading(files):
        return load(file, {}, {}), files


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ("[gateway]\nport = 1\n", "[gateway]\nport = 2\n", "gateway.port"),
        ("", '[gateway]\nhost = "127.0.0.2"\n', "gateway.host"),
        ("", '[gateway]\nid = "a"\n', "gateway.id"),
        ('[gateway]\nid = "a"\n', '[gateway]\nid = "b"\n', "gateway.id"),
        ('[gateway]\nid = "a"\n', "", "gateway.id"),
        ("", '[store]\nurl = "sqlite:///a.db"\n', "store.url"),
        ("", '[attest]\nkey_file = "other.key"\n', "attest.key_file"),
        ("", '[gateway]\ntls_cert_file = "a"\ntls_key_file = "b"\n', "gateway.tls_cert_file"),
        ("", "[admin]\nport = 1\n", "admin.port"),
        ("[admin]\nport = 1\n", '[admin]\nport = 1\nhost = "0.0.0.0"\n', "admin.host"),
        ("", '[telemetry]\nendpoint = "http://127.0.0.1:1"\n', "telemetry.endpoint"),
        ("", "[telemetry]\nsample = 1.0\n", "telemetry.sample"),
    ],
)
def test_what_holds_until_a_restart_is_not_changed_while_it_runs(
    before: str, after: str, key: str, tmp_path: Path
) -> None:
    old, new = read(tmp_path, UPSTREAM + before), read(tmp_path, UPSTREAM + after)
    with pytest.raises(ConfigurationError, match=key):
        check_fixed(*old, *new)
    check_fixed(*old, *read(tmp_path, UPSTREAM + before + '[tools.x]\nscope = "a:b"\n'))


@pytest.mark.parametrize(("key", "was", "now"), [("port", "1", "2"), ("host", '"127.0.0.1"', '"127.0.0.2"')])
def test_a_file_that_changes_where_it_listens_is_refused_also_where_the_command_line_says_otherwise(
    key: str, was: str, now: str, tmp_path: Path
) -> None:
    def given(text: str) -> tuple[Loaded, ReadFiles]:
        (tmp_path / "accredit.toml").write_text(UPSTREAM + text, "utf-8")
        said: Values = {("gateway", key): (Origin("command line", f"--{key}"), "::1" if key == "host" else 0)}
        return load(tmp_path / "accredit.toml", {}, said), ReadFiles()

    old = given(f"[gateway]\n{key} = {was}\n")
    with pytest.raises(ConfigurationError, match=f"gateway.{key}"):
        check_fixed(*old, *given(f"[gateway]\n{key} = {now}\n"))
    check_fixed(*old, *given(f"[gateway]\n{key} = {was}\nmax_request_bytes = 9\n"))
    default = {"port": "8484", "host": '"127.0.0.1"'}[key]
    check_fixed(*given(""), *given(f"[gateway]\n{key} = {default}\n"))


def test_what_has_changed_is_told_by_name_and_nothing_of_a_secret_is(tmp_path: Path) -> None:
    old, _ = read(tmp_path, UPSTREAM + 'headers = { Key = "s3cret" }\n[tools.a]\nscope = "a:b"\n')
    new, _ = read(tmp_path, UPSTREAM + 'headers = { Key = "an0ther" }\n[tools.b]\nscope = "a:b"\n')
    told = [*changes(old, new)]
    assert told == ["upstream.headers", "tools.b (added)", "tools.a (removed)"]
    assert [*changes(old, old)] == []
    assert in_short(["x\ny\u202e" * 10] * 1_000).endswith(f" and {1_000 - MAX_RELOAD_CHANGES} more")
    assert "\n" not in in_short(["x\ny"])
