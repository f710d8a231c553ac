"""What each process that runs tests would do for itself, done once before they begin. I/O: files, processes.

- pytest keeps the assertions that it has rewritten beside the modules; in a fresh clone there is nothing yet, and all
  of its processes come to the same module at the same time.
- Hypothesis keeps which characters a codec has: to find them it holds a list of a million, 185 MiB in each process.
"""

import multiprocessing
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis.internal.charmap import intervals_from_codec

_TESTS = Path(__file__).parents[1]
_CODECS = ("utf-8", "ascii")
"""Those of the texts that properties draw."""


def prepare_once(config: pytest.Config) -> None:
    """Does it, where `config` is of the process that starts others; what is compiled only where Python may keep it."""
    if not getattr(config.option, "numprocesses", None):
        return
    context = multiprocessing.get_context("fork")
    begun = [context.Process(target=_find_characters, args=(codec,)) for codec in _CODECS]
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        stale = [path for path in _TESTS.rglob("test_*.py") if rewrite._read_pyc(path, _kept(path)) is None]
        count = os.cpu_count() or 1
        begun += [context.Process(target=_rewrite, args=(config, stale[number::count])) for number in range(count)]
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


def _find_characters(codec: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # Hypothesis does, of files that are used before a session begins
        intervals_from_codec(codec)
