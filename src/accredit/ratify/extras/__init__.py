"""What the protocol defines besides delegations and proofs, for users of the library: the gateway uses none of it."""
