"""Merges the servers' answers to `server/discover` and `initialize`. No I/O.

1. A capability is stated if any server has it and the merged endpoint serves it: experimental ones and unknown
   extensions may use names that would have to be mapped.
2. Instructions are each server's, under its name, up to an equal part of `MAX_MERGED_INSTRUCTIONS_CHARS`.
3. A version is supported if all that answered support it; the request's own always is.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.objects import as_string, is_object, members
from accredit.jsonrpc.result_types import TASKS_EXTENSION
from accredit.policy.merging import merged_name

MAX_MERGED_INSTRUCTIONS_CHARS = 65_536
"""Characters of the servers' instructions at the merged endpoint, in equal parts: clients put them into a model's
context."""


Results = Mapping[str, Mapping[str, Raw]]
"""The members of each server's result, by server name."""

_FLAGS = {
    "tools": ("listChanged",),
    "prompts": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "logging": (),
    "completions": (),
}
"""The capabilities that the merged endpoint serves, each with its boolean members."""

_decode_texts = msgspec.json.Decoder(list[str]).decode


def merged_capabilities(results: Results) -> dict[str, dict[str, object]]:
    """Return the union of the capabilities (rule 1)."""
    merged: dict[str, dict[str, object]] = {}
    for result in results.values():
        said = _object(result.get("capabilities"))
        for name, flags in _FLAGS.items():
            if not is_object(said.get(name)):
                continue
            own, known = _object(said[name]), merged.setdefault(name, {})
            known |= {flag: True for flag in flags if flag in own and bytes(own[flag]) == b"true"}
        _add_tasks(merged, said)
    return merged


def _add_tasks(merged: dict[str, dict[str, object]], said: Mapping[str, Raw]) -> None:
    """Add one server's statement about tasks: a capability in 2025-11-25, an extension in 2026-07-28."""
    tasks = said.get("tasks")
    if is_object(tasks):
        own, known = _object(tasks), merged.setdefault("tasks", {})
        known |= {name: {} for name in ("list", "cancel") if is_object(own.get(name))}
        if is_object(_object(_object(own.get("requests")).get("tools")).get("call")):
            known["requests"] = {"tools": {"call": {}}}
    if is_object(_object(said.get("extensions")).get(TASKS_EXTENSION)):
        merged.setdefault("extensions", {})[TASKS_EXTENSION] = {}


def merged_instructions(results: Results) -> str | None:
    """Return all instructions joined (rule 2), or None if there are none."""
    said = {server: as_string(result.get("instructions")) for server, result in results.items()}
    most = MAX_MERGED_INSTRUCTIONS_CHARS // max(len(said), 1)
    parts = [
        f"{server} (its tools and prompts begin with {merged_name(server, '')}):\n{text[:most]}"
        for server, text in said.items()
        if text
    ]
    return "\n\n".join(parts) or None


def merged_versions(results: Results, asked: str | None) -> list[str]:
    """Return the versions that all support, in the order of the first (rule 3)."""
    listed = [_texts(result.get("supportedVersions")) for result in results.values()]
    common = [each for each in listed[0] if all(each in others for others in listed)] if listed else []
    return common if asked is None or asked in common else [*common, asked]


def _object(value: Raw | None) -> dict[str, Raw]:
    try:
        return members(value) if value is not None and is_object(value) else {}
    except FrameError:
        return {}


def _texts(value: Raw | None) -> Iterable[str]:
    try:
        return dict.fromkeys(_decode_texts(value)) if value is not None else ()
    except (msgspec.MsgspecError, RecursionError):
        return ()
