"""What the commands run. Loaded when a command runs, not for `--help`."""
