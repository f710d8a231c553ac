"""Whose root a proof's chain begins with, if it is trusted. No I/O.

- [pinned] A root that the policy names is trusted, and nobody is asked about it.
- [registry] Where there are registries, they are asked about any other key. Whatever they do but name a person, the key
  is no root.
"""

from collections.abc import Generator

from accredit.policy.decision import Policy
from accredit.policy.needs import FindRoot, Need
from accredit.ratify import HybridPublicKey, ProofBundle


def find_root(bundle: ProofBundle, policy: Policy) -> Generator[Need, object, tuple[HybridPublicKey, str] | None]:
    """Return the trusted root of a proof's chain with its person's name, or None ([pinned] and [registry])."""
    root = bundle.delegations[-1].issuer_pub_key if bundle.delegations else None
    if root is None:
        return None
    name: object = policy.roots.get(root)
    if name is None and policy.find_root is not None:
        name = yield FindRoot(root, policy.find_root)
    return (root, name) if isinstance(name, str) else None
