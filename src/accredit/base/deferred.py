"""Modules that are loaded when something of them is first used: the one place that imports by name.

For what costs memory or time at the start, and that many configurations never call. Who knows that calls will need a
library loads it beforehand (`load`). Type checkers and import linters have to see the module all the same:

    if TYPE_CHECKING:
        import jwt
    else:
        jwt = Deferred("jwt")
"""

from importlib import import_module
from typing import Any


def load(*names: str) -> None:
    """Load modules now, so that no call has to wait for them."""
    for name in names:
        import_module(name)


class Deferred:
    """Stands in for a module: its attributes are the module's, which the first one loads. Threads may share it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # from now on it is found without coming here
        return found
