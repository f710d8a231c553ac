"""The functions that the commands run. They are loaded when a command runs, not for `--help`."""
