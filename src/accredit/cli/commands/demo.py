"""`accredit demo`: runs the story in `examples/`, from the source tree or from the installed package."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from accredit.errors import ConfigurationError

_PLACES = (Path(__file__).parents[2] / "examples", Path(__file__).parents[4] / "examples")


def demo(
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the story.")] = False,
) -> None:
    """Tells the whole story on this machine, with real processes; then serves until Ctrl-C.

    Example:

    accredit demo --once
    """
    story = next((place / "story.py" for place in _PLACES if (place / "story.py").is_file()), None)
    if story is None:
        raise ConfigurationError("the demo's files are not installed", "install the package again, or use its source")
    command = [sys.executable, str(story), *(["--once"] if once else [])]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 - our own file, which then gets the signals itself
