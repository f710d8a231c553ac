"""The contents of key files and delegation files (docs/reference/files.md). No I/O.

They are parsed as strictly as the protocol's own objects (`ratify.wire`). A key file is valid only if:

- [version] its version is known;
- [name] its name is printable, and no longer than the protocol allows for an agent's;
- [id] its id is derived from its public key;
- [seeds] its seeds, if any, belong to its public key. If they are encrypted, only the cost of unlocking is checked here
  (it is bounded); whether they belong to the key is checked on unlocking (`passphrase`).
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from accredit.base.values import decodable
from accredit.errors import WireError
from accredit.limits import MAX_AGENT_NAME_LENGTH_BYTES, MAX_DELEGATION_FILE_BYTES, MAX_KEY_FILE_BYTES
from accredit.ratify import DelegationCert, HybridPrivateKey, HybridPublicKey, derive_id
from accredit.ratify.wire import Bytes32, WireObject

MIN_ARGON2_MEMORY_KIB = 8_192
"""The least memory that a key file may name for Argon2. With less, a passphrase is quick to guess."""
MAX_ARGON2_MEMORY_KIB = 1_048_576
"""The most memory that a key file may name, 1 GiB: a hostile file must not use up the machine's."""
MAX_ARGON2_PASSES = 16
"""The most passes over the memory that a key file may name. With 1 GiB they take a minute."""
MAX_ARGON2_LANES = 16
"""The most threads that a key file may name."""


KEY_FILE_VERSION = 1

KeyKind = Literal["human", "agent", "gateway"]


@decodable
class KeyFile(WireObject, frozen=True):
    """A public key, with its holder's name and kind. `created_at` is in unix seconds; `id` is derived from the key."""

    max_bytes: ClassVar[int] = MAX_KEY_FILE_BYTES

    accredit_key: int
    kind: KeyKind
    name: str
    id: str
    created_at: int
    public_key: HybridPublicKey

    def check(self, path: str, level: int) -> None:
        """Check [version], [name] and [id]. Raises `WireError`."""
        if self.accredit_key != KEY_FILE_VERSION:
            raise WireError(f"{path}.accredit_key", f"version {self.accredit_key} is not known")
        fault = name_fault(self.name)
        if fault:
            raise WireError(f"{path}.name", fault)
        if self.id != derive_id(self.public_key):
            raise WireError(f"{path}.id", "not the id of this public key")

    def public(self) -> "KeyFile":
        """Return the public half: the same without the seeds."""
        return KeyFile(self.accredit_key, self.kind, self.name, self.id, self.created_at, self.public_key)


class Seeds(Struct, frozen=True, forbid_unknown_fields=True):
    """The seeds of both private keys. Their `repr` shows nothing."""

    ed25519: Bytes32
    ml_dsa_65: Bytes32

    def __repr__(self) -> str:
        return "<Seeds>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


@decodable
class PrivateKeyFile(KeyFile, frozen=True):
    """A key file that can sign."""

    seed: Seeds

    def check(self, path: str, level: int) -> None:
        """Check [version] to [seeds]. Raises `WireError`."""
        super().check(path, level)
        if self.signer().public_key != self.public_key:
            raise WireError(f"{path}.seed", "not the seeds of this public key")

    def signer(self) -> HybridPrivateKey:
        """Return the private key."""
        return HybridPrivateKey(self.seed.ed25519, self.seed.ml_dsa_65)


class SealedSeeds(Struct, frozen=True, forbid_unknown_fields=True):
    """Encrypted seeds, with the parameters for deriving the encryption key from the passphrase. `box` is both seeds
    (Ed25519's first) under AES-256-GCM."""

    kdf: Literal["argon2id"]
    memory_kib: Annotated[int, Meta(ge=MIN_ARGON2_MEMORY_KIB, le=MAX_ARGON2_MEMORY_KIB)]
    passes: Annotated[int, Meta(ge=1, le=MAX_ARGON2_PASSES)]
    lanes: Annotated[int, Meta(ge=1, le=MAX_ARGON2_LANES)]
    salt: Annotated[bytes, Meta(min_length=16, max_length=64)]
    nonce: Annotated[bytes, Meta(min_length=12, max_length=12)]
    box: Annotated[bytes, Meta(min_length=80, max_length=80)]


@decodable
class LockedKeyFile(KeyFile, frozen=True):
    """A key file that can sign once its passphrase has unlocked it."""

    seed: SealedSeeds


@decodable
class DelegationFile(WireObject, frozen=True):
    """A chain of delegations, leaf first, as `grant` writes it."""

    max_bytes: ClassVar[int] = MAX_DELEGATION_FILE_BYTES

    delegations: Annotated[tuple[DelegationCert, ...], Meta(min_length=1)]

    def check(self, path: str, level: int) -> None:
        """Check each certificate. Raises `WireError`."""
        for index, cert in enumerate(self.delegations):
            cert.check(f"{path}.delegations[{index}]", level + 2)


def name_fault(name: str) -> str | None:
    """Return why a key can't have this name, or None."""
    if not name or not name.isprintable():
        return "a name is a text that can be printed"
    if len(name.encode()) > MAX_AGENT_NAME_LENGTH_BYTES:
        return f"a name has at most {MAX_AGENT_NAME_LENGTH_BYTES} bytes"
    return None
