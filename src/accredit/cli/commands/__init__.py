"""The commands as the command line shows them: one small module each. Loaded for `--help`."""
