"""The evaluators of constraints that `[proofs] evaluators` names. Loads other packages' code, when the gateway starts.

- Each name belongs to exactly one entry point of the group `accredit.constraints`. The name is also the type of
  constraint that the entry point evaluates.
- The entry point can be loaded, and called.
- Its type is not evaluated already: it is neither one of Ratify's types nor one of ours.

Installed evaluators that are not named are not loaded.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError
from accredit.policy import with_own
from accredit.ratify import Evaluator

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = Deferred("importlib.metadata")  # it loads half a megabyte that a gateway has no other use for

_GROUP = "accredit.constraints"


def load_evaluators(names: Iterable[str]) -> dict[str, Evaluator]:
    """Return the named evaluators and our own, by the type of constraints that they evaluate. Raises
    `ConfigurationError`."""
    try:
        return with_own({name: _load_evaluator(name) for name in names})
    except ConfigurationError as error:
        raise ConfigurationError(f"proofs.evaluators: {error.what}", error.remedy) from None


def _load_evaluator(name: str) -> Evaluator:
    point = _point(name)
    try:
        return cast("Evaluator", point.load())
    except Exception as error:  # another package's code, which may raise anything
        raise ConfigurationError(
            f"{name!a} ({point.value}) can't be loaded: {error!a}", "repair its package, or leave it out"
        ) from None


def _point(name: str) -> "metadata.EntryPoint":
    points = list(metadata.entry_points(group=_GROUP, name=name))
    if len({point.value for point in points}) == 1:
        return points[0]
    if points:
        packages = ", ".join(sorted(point.dist.name for point in points if point.dist is not None))
        raise ConfigurationError(f"{name!a} is in several packages: {packages}", "keep one of them installed")
    installed = ", ".join(sorted({point.name for point in metadata.entry_points(group=_GROUP)})) or "none"
    raise ConfigurationError(
        f"there is no {name!a} among the installed evaluators ({installed})",
        f"install the package that has it as an entry point of the group {_GROUP}",
    )
