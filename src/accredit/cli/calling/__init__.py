"""What `accredit call` runs: `arguments` types what a shell says, `through` is the way to the server, `running` calls
and prints."""
