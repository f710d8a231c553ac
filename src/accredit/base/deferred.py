"""Modules that are loaded when something of them is first used: the one place that imports by name.

For libraries that cost a process memory or its start time, and that most configurations never call. Type checkers and
import linters have to see the module all the same:

    if TYPE_CHECKING:
        import jwt
    else:
        jwt = Deferred("jwt")
"""

from importlib import import_module
from typing import Any


class Deferred:
    """Stands in for a module: its attributes are the module's, which the first one loads. Threads may share it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # from now on it is found without coming here
        return found
