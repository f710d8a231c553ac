"""Finds the trusted root that a proof's chain begins with. No I/O.

- [pinned] A root that the policy names is trusted, and no registry is asked about it.
- [registry] If there are registries, they are asked about any other key. Unless one names a person for it, the key is
  not a root.
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
