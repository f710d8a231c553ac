"""The commands' signatures and help texts, one small module each. Loaded for `--help`."""
