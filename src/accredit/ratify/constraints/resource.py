"""The constraint on what a call uses: one resource, and a path in it (Ratify section 7). No I/O.

A path is compared as text, byte for byte: nothing is decoded, folded or resolved. If a path has to be decoded, the
caller must do that before it passes the path as a fact, so that what is executed is what was compared.
"""

from typing import Annotated

from msgspec import Meta

from accredit.limits import MAX_IDENTIFIER_LENGTH_BYTES
from accredit.ratify.constraints.base import BuiltIn, Outcome, denial, unverifiable
from accredit.ratify.facts import VerifierContext

_DOTS = frozenset({".", ".."})


def path_fault(path: str) -> str | None:
    """Return why a text is not a path, or None."""
    if not path:
        return "path is empty"
    if not path.startswith("/"):
        return "path must begin with '/'"
    if "\0" in path:
        return "path contains a NUL byte"
    if "\\" in path:
        return "path contains a backslash; '/' is the only separator"
    if path == "/":
        return None
    for segment in path.removesuffix("/")[1:].split("/"):
        if not segment:
            return "path contains an empty segment"
        if segment in _DOTS:
            return "path contains a dot-segment; dot-segments are rejected, never resolved"
    return None


def path_is_below(path: str, prefix: str) -> bool:
    """Return whether a path is the prefix or lies below it. For both, `path_fault` must have returned None. A trailing
    slash makes no difference."""
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(prefix + "/")


class ResourcePath(BuiltIn, frozen=True, tag="resource_path"):
    """Exactly one resource. With a `path_prefix`, only that path and what lies below it; without one, all of the
    resource."""

    resource_id: Annotated[str, Meta(min_length=1)]
    path_prefix: Annotated[str, Meta(min_length=1)] = ""

    def members(self) -> dict[str, object]:
        """Return the canonical form, with the prefix only if there is one."""
        members = super().members()
        if not self.path_prefix:
            del members["path_prefix"]
        return members

    def judge(self, facts: VerifierContext, _cert_id: str, _now: int, /) -> Outcome | None:
        """Check the resource, then the path."""
        if not (facts.has_resource and facts.requested_resource_id):
            return unverifiable("no requested resource in context")
        if not self.resource_id:
            return denial("malformed resource_path: resource_id is required")
        if len(self.resource_id.encode()) > MAX_IDENTIFIER_LENGTH_BYTES:
            return denial("malformed resource_path: resource_id exceeds MAX_IDENTIFIER_LENGTH_BYTES")
        if facts.requested_resource_id != self.resource_id:
            return denial("requested resource does not match the authorized resource")
        return self._judge_path(facts.requested_path) if self.path_prefix else None

    def _judge_path(self, path: str) -> Outcome | None:
        fault = path_fault(self.path_prefix)
        if fault:
            return denial(f"malformed path_prefix: {fault}")
        if not path:
            return unverifiable("no requested path in context")
        fault = path_fault(path)
        if fault:
            return denial(f"invalid requested path: {fault}")
        if not path_is_below(path, self.path_prefix):
            return denial(f'requested path "{path}" is outside the authorized prefix "{self.path_prefix}"')
        return None
