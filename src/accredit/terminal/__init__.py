"""What commands print, and the passphrases that they ask for: facts, tables, progress."""
