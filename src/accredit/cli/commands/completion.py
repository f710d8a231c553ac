"""`accredit completion`: completion scripts for shells."""

from click import Choice

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import argument, flag

completion = ProgramCommand(
    "completion",
    """Installs or prints a shell's script for completing accredit's command lines with the tab key.

    It completes commands, options, files, hosts, and the configuration's servers. With --install, your shell reads the
    script from now on. The script calls it with the words typed so far after --; it prints what may stand there next.

    Examples:

    accredit completion bash --install

    accredit completion zsh > ~/.zfunc/_accredit
    """,
    [
        argument(
            "shell", metavar="SHELL", type=Choice(("bash", "zsh", "fish")), required=True, help="bash, zsh or fish."
        ),
        flag("--install", help="Write the script to a file of yours, and make SHELL read it when it starts."),
    ],
    run="accredit.cli.actions.completion:start_completion",
    words_before=1,
)
