"""`accredit demo`: runs the story in `examples/`, from the source tree or from the installed package."""

from pathlib import Path

from accredit.cli.declare import Command, flag

_PLACES = (Path(__file__).parents[2] / "examples", Path(__file__).parents[4] / "examples")

demo = Command(
    "demo",
    """Tells the whole story on this machine, with real processes; then serves until Ctrl-C.

    Example:

    accredit demo --once
    """,
    [
        flag("--once", help="Stop at the end of the story."),
    ],
    run="accredit.cli.actions.demo:run_demo",
)
