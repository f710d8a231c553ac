"""Finds protocol fixtures, and turns their parts into our objects.

A fixture is recognised by what it holds, not by its name: `kind` for one case, `vectors` or `cases` for a list.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from accredit.ratify import HybridPublicKey, StreamContext, VerifierContext
from accredit.ratify.hybrid import HybridPrivateKey

PROJECT = Path(__file__).parents[2]
OWN = Path(__file__).parent / "own"

Fixture = Mapping[str, Any]


def published_folder() -> Path | None:
    """The folder of the protocol's fixtures, or None where there is none."""
    named = os.environ.get("ACCREDIT_RATIFY_VECTORS")
    if named:
        return Path(named)
    beside = PROJECT / ".." / "shared" / "vectors" / "ratify"
    return beside if beside.is_dir() else None


def load(folder: Path | None) -> Iterator[tuple[str, Fixture]]:
    """Every fixture below a folder with its name; those of a list are taken one by one."""
    for path in sorted(folder.rglob("*.json")) if folder else ():
        found: Any = json.loads(path.read_text("utf-8"))
        if not isinstance(found, dict):
            continue
        if "kind" in found:
            yield found["name"], found
        for case in found.get("vectors", ()):
            yield case["name"], case
        for case in found.get("cases", ()):
            yield case["name"], {**case, "kind": "wire_negative"}


def text_of(value: object) -> bytes:
    """A part of a fixture as JSON text, in an order and a spelling that are not canonical."""
    return json.dumps(value, indent=1).encode()


def canonical_of(value: object) -> bytes:
    """The canonical text of a part of a fixture, made without our encoder."""
    text = json.dumps(_as_integers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()


def _as_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def key_of(entity: Fixture) -> HybridPrivateKey:
    """An entity's private key, made again from its seeds."""
    return HybridPrivateKey(bytes.fromhex(entity["ed25519_seed_hex"]), bytes.fromhex(entity["ml_dsa_65_seed_hex"]))


def public_key(value: Fixture) -> HybridPublicKey:
    """A public key from its members on the wire."""
    return HybridPublicKey(bytes_of(value["ed25519"]), bytes_of(value["ml_dsa_65"]))


def bytes_of(text: str) -> bytes:
    """The bytes of a base64 text."""
    return base64.b64decode(text, validate=True)


def context_of(value: Fixture | None) -> VerifierContext:
    """A fixture's `verifier_context`."""
    facts = dict(value or {})
    count = facts.pop("invocations_in_window_count", None)
    if count is not None:
        facts["invocations_in_window"] = partial(_counted, count)
    return VerifierContext(**facts)


def _counted(count: int, _cert_id: str, _window_s: int) -> int:
    return count


def stream_of(value: Fixture | None) -> StreamContext | None:
    """The `stream` of a fixture's options."""
    return StreamContext(bytes_of(value["stream_id"]), value["last_seen_seq"]) if value else None
