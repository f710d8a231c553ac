"""`-` in the place of a file: which options take it, and that nothing else is taken for stdin, or written to stdout."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from tests.world.command_tree import commands

from accredit.base.standard import STDIN, standard_input
from accredit.cli.standard import READ, READ_OR_URL, READ_SECRET, WRITE, OnlyFile
from accredit.config.load import load
from accredit.errors import ConfigurationError
from accredit.keys import load_public_key, read_file

pytestmark = [pytest.mark.holds("base/standard"), pytest.mark.holds("cli/standard")]

READS, SECRET, WRITES, FILE = "stdin", "stdin, but no terminal", "stdout", "only a file"

TABLE = {
    "add --agent-card": READS,
    "add --config": FILE,
    "add --openapi": READS,
    "approve --passphrase-file": SECRET,
    "call --config": READS,
    "call --delegation": READS,
    "call --json-args": READS,
    "call --key": SECRET,
    "check --agent-card": READS,
    "check --config": READS,
    "check --openapi": READS,
    "config check --config": READS,
    "config show --config": READS,
    "connect --delegation": FILE,
    "connect --key": FILE,
    "desk --config": READS,
    "connect-app --passphrase-file": SECRET,
    "desk --passphrase-file": SECRET,
    "desk unlock --passphrase-file": SECRET,
    "doctor --config": FILE,
    "drill --config": READS,
    "drill --issuer": SECRET,
    "drill --passphrase-file": SECRET,
    "drill --token-key": SECRET,
    "grant --agent": READS,
    "grant --config": READS,
    "grant --issuer": SECRET,
    "grant --out": WRITES,
    "grant --parent": READS,
    "grant --passphrase-file": SECRET,
    "init --agent-card": READS,
    "init --dir": FILE,
    "init --openapi": READS,
    "inspect --key": READS,
    "inspect FILE": READS,
    "install --config": FILE,
    "install --passphrase-file": SECRET,
    "keys new --passphrase-file": SECRET,
    "keys new PATH": FILE,
    "keys rotate --out": WRITES,
    "keys rotate --passphrase-file": SECRET,
    "keys rotate --to": SECRET,
    "keys rotate OLD": SECRET,
    "keys show PATH": READS,
    "log checkpoint --config": READS,
    "log checkpoint --out": WRITES,
    "log export --config": READS,
    "log export --out": WRITES,
    "log list --config": READS,
    "log list --known": READS,
    "log list --root": READS,
    "log list FILE": READS,
    "log follow --config": READS,
    "log list --key": READS,
    "log prune --config": READS,
    "log prune --key": SECRET,
    "log show --config": READS,
    "log show --key": READS,
    "log show --known": READS,
    "log show --root": READS,
    "log verify --config": READS,
    "log verify --key": READS,
    "log verify --known": READS,
    "log verify --root": READS,
    "log verify --since": READS,
    "log verify FILE": READS,
    "pin --config": FILE,
    "reload --config": FILE,
    "replay --config": FILE,
    "replay --key": READS,
    "revoke --issuer": SECRET,
    "revoke --list": READS,
    "revoke --passphrase-file": SECRET,
    "serve --config": FILE,
    "store migrate --config": READS,
    "store restored --config": READS,
    "store status --config": READS,
    "suggest --config": READS,
    "suggest --key": READS,
    "token issue --key": SECRET,
    "token issue --out": WRITES,
    "token issue --policy": READS,
    "token keygen PATH": FILE,
    "token verify --key": READS,
    "token verify --policy": READS,
    "token verify FILE": READS,
    "up --config": FILE,
    "up --dir": FILE,
    "up --passphrase-file": SECRET,
    "verify --params": READS,
    "verify --revoked": READS,
    "verify --root": READS,
    "verify BUNDLE": READS,
    "wrap --config": FILE,
}
"""Every option and argument that names a file, and what `-` means there."""


def files(words: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, Any]]:
    """The parameters of a command that are paths, each with its type."""
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            name = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
            yield " ".join((*words, name)), parameter.type


def meaning(kind: Any) -> str | None:
    known = {READ: READS, READ_OR_URL: READS, READ_SECRET: SECRET, WRITE: WRITES}
    return FILE if isinstance(kind, OnlyFile) else known.get(kind)


def test_every_option_that_names_a_file_says_what_a_dash_means() -> None:
    found = {name: meaning(kind) for words, each in commands().items() for name, kind in files(words, each)}
    assert found == TABLE


class Sent(io.BytesIO):
    """What comes on stdin in these tests: bytes, as those of a pipe or a terminal."""

    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal

    def fileno(self) -> int:
        return self.pipe.fileno()

    pipe: Any = None


Send = Callable[..., Sent]


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    """Sends bytes to stdin."""
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:

        def call(data: bytes, *, is_terminal: bool = False) -> Sent:
            sent = Sent(data)
            sent.is_terminal, sent.pipe = is_terminal, pipe
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(sent))
            return sent

        yield call


def test_without_a_command_line_that_says_so_it_is_a_file_like_any_other(
    monkeypatch: pytest.MonkeyPatch, send: Send, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    sent = send(b"secret")
    with pytest.raises(ConfigurationError, match="can't read"):
        read_file(Path("-"), 100)
    Path("-").write_bytes(b"a file's")
    assert read_file(Path("-"), 100).data == b"a file's"
    assert sent.read() == b"secret"


def test_it_is_bounded_and_comes_again_whole(send: Send) -> None:
    send(b"x" * 10)
    with standard_input("--key"):
        with pytest.raises(ConfigurationError, match="more than 9 bytes"):
            read_file(STDIN, 9)
        assert read_file(STDIN, 10).data == b"x" * 10
        assert read_file(STDIN, 100).data == b"x" * 10


def test_bytes_are_not_taken_for_text(send: Send) -> None:
    every = bytes(range(256)) + b"\r\n\x00"
    send(every)
    with standard_input("FILE"):
        assert read_file(STDIN, 1_000).data == every


def test_two_options_cannot_both_have_it(send: Send) -> None:
    send(b"")
    with (
        standard_input("--key"),
        pytest.raises(ConfigurationError, match="--key and --known both name stdin"),
        standard_input("--known"),
    ):
        pass
    with standard_input("--known"):
        pass


def test_a_secret_is_not_typed_where_it_shows(send: Send) -> None:
    send(b"", is_terminal=True)
    with standard_input("FILE"):
        pass
    with pytest.raises(ConfigurationError, match="a terminal, which shows"), standard_input("--key", secret=True):
        pass


def test_a_private_key_in_a_file_that_others_can_read_is_one_through_stdin_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "some.key"
    path.write_bytes(b'{"accredit_key": 1, "seed": {}}')
    path.chmod(0o644)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        with standard_input("--key"), pytest.raises(ConfigurationError, match="others can read"):
            load_public_key(STDIN)


def test_a_closed_stdin_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with standard_input("FILE"), pytest.raises(ConfigurationError, match="stdin is closed"):
        read_file(STDIN, 10)


def test_a_configuration_from_there_names_files_of_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, send: Send, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    send(b'[attest]\nkey_file = "gateway.key"\n')
    with standard_input("--config"):
        for _ in range(2):
            assert load(STDIN, {}, {}).config.attest.key_file == str(tmp_path / "gateway.key")
