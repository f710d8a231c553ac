"""What people sign and check at a command line: keys, delegations, tokens, revocations."""
