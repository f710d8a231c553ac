"""`accredit completion`: completion scripts for shells."""

from click import Choice

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import argument

completion = ProgramCommand(
    "completion",
    """Prints a shell's script for completing accredit's command lines with the tab key.

    It completes commands, options, files, hosts, and the configuration's servers. With words after --, it prints
    candidates for the last one, which is how the script asks.

    Examples:

    accredit completion bash >> ~/.bash_completion

    accredit completion zsh > ~/.zfunc/_accredit

    accredit completion fish > ~/.config/fish/completions/accredit.fish
    """,
    [
        argument(
            "shell", metavar="SHELL", type=Choice(("bash", "zsh", "fish")), required=True, help="bash, zsh or fish."
        ),
    ],
    run="accredit.cli.actions.completion:start_completion",
    words_before=1,
)
