"""Which source wins, what is taken from where, and that no file escapes the error tree."""

import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.config.load import Loaded, Origin, Values, load, load_command_line
from accredit.config.schema import SECTIONS, Config
from accredit.config.show import list_settings
from accredit.errors import ConfigurationError

pytestmark = [pytest.mark.holds("config/load"), pytest.mark.holds("config/problems")]

FILE = """
[gateway]
port = 1000
host = "localhost"
tls_cert_file = "tls/cert.pem"
[upstream]
url = "http://from-file/mcp"
headers = { Authorization = "Bearer secret" }
"""


def option(section: str, key: str, value: object) -> Values:
    return {(section, key): (Origin("command line", "--option"), value)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "accredit.toml"
    path.write_text(FILE, "utf-8")
    return path


def test_without_any_source_everything_is_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, {}, {}) == Loaded(Config(), None, {})


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(file: Path) -> None:
    environ = {"ACCREDIT_GATEWAY__PORT": "2000", "ACCREDIT_GATEWAY__HOST": "::1"}
    loaded = load(file, environ, option("gateway", "port", 3000))
    assert (loaded.config.gateway.port, loaded.config.gateway.host) == (3000, "::1")
    assert loaded.origins["gateway", "port"] == Origin("command line", "--option")
    assert loaded.origins["gateway", "host"] == Origin("environment", "ACCREDIT_GATEWAY__HOST")
    assert loaded.origins["upstream", "url"] == Origin("file", str(file))


def test_the_file_is_looked_for_in_three_places(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = tmp_path / "here", tmp_path / "other.toml"
    here.mkdir()
    (here / "accredit.toml").write_text("[gateway]\nport = 1\n", "utf-8")
    other.write_text("[gateway]\nport = 2\n", "utf-8")
    monkeypatch.chdir(here)
    assert load(None, {}, {}).config.gateway.port == 1
    assert load(None, {"ACCREDIT_CONFIG": ""}, {}).config.gateway.port == 1
    assert load(None, {"ACCREDIT_CONFIG": "../other.toml"}, {}).config.gateway.port == 2
    assert load(file, {"ACCREDIT_CONFIG": "../other.toml"}, {}).config.gateway.port == 1000


@pytest.mark.parametrize("section", ["url", "command"])
def test_an_upstream_on_the_command_line_gets_no_secret_of_another(section: str, file: Path) -> None:
    value: object = "http://else/mcp" if section == "url" else ["cat"]
    environ = {"ACCREDIT_UPSTREAM__ENV": '{"KEY": "secret"}'}
    upstream = load(file, environ, option("upstream", section, value)).config.upstream
    assert (upstream.headers, upstream.env) == ({}, {})
    assert getattr(upstream, section) == value


def test_paths_in_the_file_are_relative_to_it_and_others_to_here(file: Path) -> None:
    environ = {"ACCREDIT_GATEWAY__TLS_KEY_FILE": "key.pem"}
    gateway = load(file, environ, {}).config.gateway
    assert gateway.tls_cert_file == str(file.parent / "tls" / "cert.pem")
    assert gateway.tls_key_file == "key.pem"


def test_an_absolute_path_in_the_file_stays(file: Path) -> None:
    file.write_text('[gateway]\ntls_cert_file = "/etc/cert.pem"\n', "utf-8")
    assert load(file, {}, {}).config.gateway.tls_cert_file == "/etc/cert.pem"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PORT", "9000", 9000),
        ("UPSTREAM_TIMEOUT_SECONDS", "1.5", 1.5),
        ("HOST", "[::1]", "[::1]"),
        ("ID", "9000", "9000"),
        ("ALLOWED_HOSTS", '["a", "b:1"]', ["a", "b:1"]),
    ],
)
def test_the_environment_is_text_or_json(name: str, text: str, value: object, file: Path) -> None:
    gateway = load(file, {f"ACCREDIT_GATEWAY__{name}": text}, {}).config.gateway
    assert getattr(gateway, name.lower()) == value


@pytest.mark.parametrize(
    "name",
    ["ACCREDIT_CONFIG", "ACCREDIT_TOKEN", "ACCREDIT_RATIFY_VECTORS", "ACCREDIT_PORT", "ACCREDIT_SERVICE_HOST"],
)
def test_variables_that_are_no_keys_are_left_alone(name: str, file: Path) -> None:
    assert load(file, {name: "tcp://10.0.0.1:8484"}, {}).config == load(file, {}, {}).config


def test_a_broken_file_is_not_rescued_by_the_environment(file: Path) -> None:
    file.write_text('[gateway]\nport = "1"\n', "utf-8")
    with pytest.raises(ConfigurationError, match=r"gateway\.port"):
        load(file, {"ACCREDIT_GATEWAY__PORT": "2"}, {})


@pytest.mark.parametrize("text", ["[tokens]\n", '[tokens]\nmode = "off"\n[attest]\nmode = "off"\n'])
def test_parts_that_are_missing_can_be_said_to_be_off(text: str, file: Path) -> None:
    file.write_text(text, "utf-8")
    assert load(file, {}, {}).config.tokens.mode == "off"


def test_tables_with_names_of_their_own_keep_them(file: Path) -> None:
    file.write_text('[tools."a.b"]\nscope = "c:d"\n[resources."file:///"]\nscope = "e:f"\n', "utf-8")
    loaded = load(file, {"ACCREDIT_RESOURCES__SCOPE": "g:h"}, {})
    assert {name: tool.scope for name, tool in loaded.config.tools.by_name.items()} == {"a.b": "c:d"}
    assert {prefix: found.scope for prefix, found in loaded.config.resources.by_prefix.items()} == {"file:///": "e:f"}
    assert loaded.config.resources.scope == "g:h"
    rows = {(row.section, row.key): row for row in list_settings(loaded)}
    told = {"scope": "c:d", "accepts": [], "sensitive": False, "facts": {}, "token_scope": ""}
    assert rows["tools", "a.b"].value == told
    assert (rows["tools", "a.b"].origin, rows["resources", "scope"].origin) == ("file", "environment")


def test_the_command_line_alone_reads_no_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[broken", "utf-8")
    monkeypatch.chdir(file.parent)
    loaded = load_command_line(option("upstream", "url", "http://127.0.0.1/mcp"))
    assert loaded.config.upstream.url == "http://127.0.0.1/mcp"
    assert loaded.file is None


KEYS = (
    "port", "url", "command", "env", "headers", "mode", "scope", "accepts", "sensitive", "facts", "amount", "roots",
    "name", "public_key_file", "revocation", "files", "file:///etc", "default_tool_scope",
)  # fmt: skip


def values() -> st.SearchStrategy[Any]:
    leaf = st.one_of(
        st.booleans(), st.integers(-5, 70_000), st.floats(), st.text(max_size=8), st.sampled_from(["off", "/", "a:b"])
    )
    return st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | tables(inner), max_leaves=6)


def tables(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from([*SECTIONS, *KEYS])
    return st.dictionaries(names | st.text(max_size=5), inner, max_size=4)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(tables(tables(values())))
def test_any_content_is_a_configuration_or_one_clear_error(content: dict[str, Any]) -> None:
    text = "\n".join(f"{quoted(name)} = {toml(value)}" for name, value in content.items())
    tomllib.loads(text)
    said = ""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "accredit.toml"
        path.write_text(text, "utf-8")
        try:
            load(path, {}, {})
        except ConfigurationError as error:
            said = error.what + error.remedy
    assert said.isprintable()


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case list():
            return "[" + ", ".join(toml(item) for item in value) + "]"  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return "{" + ", ".join(f"{quoted(str(k))} = {toml(v)}" for k, v in value.items()) + "}"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return repr(value)
