"""What the protocol defines beside delegations and proofs, for users of the library: the gateway uses none of it."""
