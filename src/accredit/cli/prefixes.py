"""Ids that are given by how they begin. I/O: stderr."""

from collections.abc import Mapping

from accredit.cli.actions.output import tell
from accredit.limits import MAX_TOLD_CANDIDATES


def the_one(prefix: str, candidates: Mapping[str, str], what: str, remedy: str) -> str | None:
    """The candidate that is `prefix`, else the only one that begins so.

    `candidates` are ids with what is known of them. None: there is none, or there are several, as stderr says; for that
    commands end with exit code 1. `what` is said of one id, as in "call", and `remedy` where there is none.
    """
    if prefix in candidates:
        return prefix
    found = sorted(each for each in candidates if prefix and each.startswith(prefix))
    if len(found) == 1:
        return found[0]
    if not found:
        tell(f"error: no record of {what} {prefix}")
        tell(f"help: {remedy}")
        return None
    tell(f"error: the ids of {len(found)} {what}s begin with {prefix}")
    tell("help: write more of the one that is meant")
    for each in found[:MAX_TOLD_CANDIDATES]:
        tell(f"  {each}  {candidates[each]}".rstrip())
    if len(found) > MAX_TOLD_CANDIDATES:
        tell(f"  and {len(found) - MAX_TOLD_CANDIDATES} more")
    return None
