"""Ids given by their first characters. I/O: stderr."""

from collections.abc import Mapping

from accredit.cli.actions.output import tell
from accredit.limits import MAX_TOLD_CANDIDATES


def the_one(prefix: str, candidates: Mapping[str, str], what: str, remedy: str) -> str | None:
    """Return the candidate that equals `prefix`, else the only one that begins with it.

    `candidates` maps ids to descriptions. If there is none, or more than one, says so on stderr and returns None; the
    command then ends with exit code 1. `what` is the kind of id, such as "call"; `remedy` is the help if there is none.
    """
    if prefix in candidates:
        return prefix
    matches = sorted(each for each in candidates if prefix and each.startswith(prefix))
    if len(matches) == 1:
        return matches[0]
    if not matches:
        tell(f"error: no record of {what} {prefix}")
        tell(f"help: {remedy}")
        return None
    tell(f"error: the ids of {len(matches)} {what}s begin with {prefix}")
    tell("help: write more of the one that is meant")
    for each in matches[:MAX_TOLD_CANDIDATES]:
        tell(f"  {each}  {candidates[each]}".rstrip())
    if len(matches) > MAX_TOLD_CANDIDATES:
        tell(f"  and {len(matches) - MAX_TOLD_CANDIDATES} more")
    return None
