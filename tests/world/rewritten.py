"""The assertions of all tests rewritten once, before the processes that run tests begin: each would do it for itself.

pytest keeps what it has rewritten beside the modules; in a fresh clone there is nothing yet, and all of its processes
come to the same module at the same time. I/O: files, processes.
"""

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

_TESTS = Path(__file__).parents[1]


def rewrite_once(config: pytest.Config) -> None:
    """Does it, where `config` is of the process that starts others and Python may keep what it compiles."""
    if os.environ.get("PYTHONDONTWRITEBYTECODE") or not getattr(config.option, "numprocesses", None):
        return
    stale = [path for path in _TESTS.rglob("test_*.py") if rewrite._read_pyc(path, _kept(path)) is None]
    count = os.cpu_count() or 1
    context = multiprocessing.get_context("fork")
    begun = [context.Process(target=_rewrite, args=(config, stale[number::count])) for number in range(count)]
    for each in begun:
        each.start()
    for each in begun:
        each.join()


def _kept(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"


def _rewrite(config: pytest.Config, paths: Sequence[Path]) -> None:
    for path in paths:
        kept = _kept(path)
        kept.parent.mkdir(exist_ok=True)
        source_hash, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, kept)
