"""The commands' options and help texts. Loaded for `--help`; each module is loaded when a command of it is used."""
