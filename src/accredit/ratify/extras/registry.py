"""The answer of a registry of principals about a key: the keys that it has replaced (Ratify section 13). No I/O.

`succession` returns the keys that one person had, oldest first. It raises an error unless all of these hold:

- [asked] The answer's key is the one that was asked for, and its id is derived from this key.
- [in-order] Each rotation begins with the key that the previous one ended with, and was not made earlier. The last ends
  with the requested key. No key comes twice: a key that was replaced does not come back.
- [pinned] One of the keys is pinned. Until that is known, no signature is verified.
- [signed] From the pinned key on, each statement is signed with both of its keys. Earlier statements are not verified.

Not judged here: the anchor, and the registry's statement about when it was updated.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from accredit.base.values import decodable
from accredit.errors import WireError
from accredit.ratify.extras.statements import KeyRotationStatement, key_rotation_fault
from accredit.ratify.hybrid import HybridPublicKey, derive_id
from accredit.ratify.wire import Integer, WireObject

MAX_REGISTRY_BYTES = 1_048_576
"""The most bytes of a registry's answer. One rotation has some 14,000."""
MAX_ROTATIONS = 16
"""The most rotations in a registry's answer. Each costs four signatures to verify."""


@decodable
class RegistryAnswer(WireObject, frozen=True):
    """The answer to `GET /v1/registry/principals/{human_id}`. `rotations` are the oldest first."""

    max_bytes: ClassVar[int] = MAX_REGISTRY_BYTES

    human_id: str
    public_key: HybridPublicKey
    rotations: Annotated[tuple[KeyRotationStatement, ...], Meta(max_length=MAX_ROTATIONS)]
    anchor: dict[str, Any] | None
    updated_at: Integer


def succession(
    answer: RegistryAnswer, key: HybridPublicKey, pins: Collection[HybridPublicKey]
) -> tuple[HybridPublicKey, ...]:
    """Return the keys from the first pinned one to `key`, oldest first ([asked] to [signed]). Raises `WireError`."""
    if answer.human_id != derive_id(answer.public_key) or answer.public_key != key:
        raise WireError("RegistryAnswer", "about another key")
    statements = answer.rotations
    for before, after in pairwise(statements):
        if before.new_pub_key != after.old_pub_key or before.rotated_at > after.rotated_at:
            raise WireError("RegistryAnswer.rotations", "not in order")
    if statements and statements[-1].new_pub_key != key:
        raise WireError("RegistryAnswer.rotations", "they end with another key")
    keys = (*(each.old_pub_key for each in statements), key)
    if len(set(keys)) < len(keys):
        raise WireError("RegistryAnswer.rotations", "a key that was replaced comes back")
    first = next((index for index, each in enumerate(keys) if each in pins), None)
    if first is None:
        raise WireError("RegistryAnswer.rotations", "they begin with no pinned key")
    for statement in statements[first:]:
        fault = key_rotation_fault(statement)
        if fault is not None:
            raise WireError("RegistryAnswer.rotations", fault)
    return keys[first:]
