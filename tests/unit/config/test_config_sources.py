"""Values from the environment and from files: what stops the start, and what is never told."""

import sys
from pathlib import Path

import pytest

from accredit.config.build import build_upstream
from accredit.config.digest import policy_digest
from accredit.config.load import load
from accredit.config.servers import views
from accredit.config.show import list_settings
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream, StdioUpstream
from accredit.limits import MAX_VALUE_FILE_BYTES

pytestmark = pytest.mark.holds("config/sources")

URL = '[servers.a]\nurl = "http://127.0.0.1:9/mcp"\nheaders = { A = %s }\n'
COMMAND = f'[upstream]\ncommand = ["{sys.executable}"]\nenv = {{ A = %s }}\n'


def upstream(folder: Path, text: str, **environ: str) -> HttpUpstream | StdioUpstream:

    file = folder / "accredit.toml"
    file.write_text(text)
    return build_upstream(views(load(file, environ, {}))[0], environ)


def value(folder: Path, text: str, **environ: str) -> str:
    found = upstream(folder, text, **environ)
    return dict(found.headers if isinstance(found, HttpUpstream) else found.env)["A"]


def keep(folder: Path, data: bytes, mode: int = 0o600) -> str:
    path = folder / "secrets/a"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return '{ file = "secrets/a" }'


def test_a_value_is_that_of_the_file_or_the_variable(tmp_path: Path) -> None:
    file = keep(tmp_path, b"s3cret\n")
    assert value(tmp_path, URL % file) == value(tmp_path, COMMAND % file) == "s3cret"
    assert value(tmp_path, URL % '{ file = "secrets/a", scheme = "Bearer" }') == "Bearer s3cret"
    assert value(tmp_path, COMMAND % '{ env = "B" }', B="of B") == "of B"
    assert "s3cret" not in repr(upstream(tmp_path, COMMAND % file)) + repr(upstream(tmp_path, URL % file))


def test_of_a_variable_only_one_line_end_is_not_its_own(tmp_path: Path) -> None:
    file = keep(tmp_path, b"-----BEGIN\nKEY-----\n\n")
    assert value(tmp_path, COMMAND % file) == "-----BEGIN\nKEY-----\n"
    keep(tmp_path, b"")
    assert value(tmp_path, COMMAND % file) == ""
    keep(tmp_path, b"\xff")
    for text in (COMMAND, URL):
        with pytest.raises(ConfigurationError, match="should be UTF-8"):
            value(tmp_path, text % file)


@pytest.mark.parametrize("text", [URL, COMMAND])
def test_a_file_that_others_can_read__or_that_is_none__stops_the_start(text: str, tmp_path: Path) -> None:
    file = keep(tmp_path, b"s3cret", 0o640)
    with pytest.raises(ConfigurationError, match="others can read") as refused:
        value(tmp_path, text % file)
    assert "s3cret" not in refused.value.what + refused.value.remedy
    keep(tmp_path, b"x" * (MAX_VALUE_FILE_BYTES + 1))
    with pytest.raises(ConfigurationError, match="has more than"):
        value(tmp_path, text % file)
    (tmp_path / "secrets/a").unlink()
    with pytest.raises(ConfigurationError, match="A: can't read"):
        value(tmp_path, text % file)
    with pytest.raises(ConfigurationError, match="the environment, which has no B"):
        value(tmp_path, text % '{ env = "B" }')


def test_what_can_not_be_sent_is_not(tmp_path: Path) -> None:
    file = keep(tmp_path, b"one\r\nX-Other: s3cret\n")
    with pytest.raises(ConfigurationError, match="printable ASCII") as refused:
        value(tmp_path, URL % file)
    assert "s3cret" not in refused.value.what + refused.value.remedy
    keep(tmp_path, b"a\0b")
    with pytest.raises(ConfigurationError, match="NUL"):
        value(tmp_path, COMMAND % file)


def test_what_is_shown_and_digested_names_the_file__and_not_what_it_holds(tmp_path: Path) -> None:
    digests: list[str] = []
    for secret in (b"one", b"two"):
        file = keep(tmp_path, secret)
        (tmp_path / "accredit.toml").write_text(COMMAND % file)
        loaded = load(tmp_path / "accredit.toml", {}, {})
        (row,) = [each for each in list_settings(loaded) if (each.section, each.key) == ("upstream", "env")]
        assert row.value == {"A": {"file": str(tmp_path / "secrets/a")}}
        digests.append(policy_digest(loaded))
    assert digests[0] == digests[1]
