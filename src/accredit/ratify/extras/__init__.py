"""The protocol's other objects, besides delegations and proofs."""
