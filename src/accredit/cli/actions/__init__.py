"""What the commands run. Loaded when one of them runs, not for `--help`."""
