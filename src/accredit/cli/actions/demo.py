"""Implements `accredit demo`: runs the story in `examples/`, from the source tree or from the installed package."""

import os
import sys
from pathlib import Path

from accredit.errors import ConfigurationError

_PLACES = (Path(__file__).parents[2] / "examples", Path(__file__).parents[4] / "examples")


def run_demo(*, once: bool) -> None:
    """Run `accredit demo` in place of this process. Raises `ConfigurationError`."""
    story = next((place / "story.py" for place in _PLACES if (place / "story.py").is_file()), None)
    if story is None:
        raise ConfigurationError("the demo's files are not installed", "install the package again, or use its source")
    command = [sys.executable, str(story), *(["--once"] if once else [])]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 - our own file, which then gets the signals itself
