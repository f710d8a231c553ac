"""Key files and signers (contract, section 10). Written by the helper of the delegation commands (task keys_cli)."""
