"""Asking a server for its tools: one that does not answer is given up, and ended."""

import sys
from pathlib import Path

import pytest
from tests.world import listing_server

from accredit.cli.setup import asking
from accredit.errors import ConfigurationError
from accredit.gateway import StdioUpstream


def test_a_server_that_never_lists_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ASK_SECONDS", 1.0)
    upstream = StdioUpstream((sys.executable, listing_server.__file__, "--mute"), cwd=str(tmp_path))
    with pytest.raises(ConfigurationError, match="in 1 s"):
        asking._ask(lambda: asking._through_gateway(upstream))


def test_the_folder_of_modules_is_looked_at_only_for_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    with pytest.raises(ConfigurationError, match="no_such_module"):
        asking.ask_object("no_such_module:server")
    assert sys.path == before
