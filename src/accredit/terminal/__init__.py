"""Output of commands (facts, tables, progress), and input of passphrases."""
