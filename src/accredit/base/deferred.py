"""Modules that are loaded on first use.

This is for modules that are costly to load and that many configurations never need. A caller that knows it will need
one loads it early (`load`). Type checkers and import linters must still see the import:

    if TYPE_CHECKING:
        import jwt
    else:
        jwt = Deferred("jwt")
"""

import gc
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

from accredit.errors import ConfigurationError


def load(*names: str) -> None:
    """Load modules now, so that no call has to wait for them."""
    for name in names:
        import_module(name)


@contextmanager
def loading() -> Generator[None]:
    """Make imports in this block a tenth faster: garbage collection is off meanwhile, and later ignores the objects
    that were made in the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def require_extra(module: str, extra: str, what: str) -> None:
    """Check that a module of one of our extras is installed. If it is not, raise `ConfigurationError` with the text
    `what`."""
    from importlib.util import find_spec  # noqa: PLC0415 - takes longer than the rest of this

    try:
        found = find_spec(module)
    except (ImportError, ValueError):  # what it is in is not there; or it was taken away
        found = None
    if found is None:
        raise ConfigurationError(what, install_extra(extra))


def install_extra(extra: str) -> str:
    """Return the remedy for a missing extra. It names the place from which this copy of accredit was installed."""
    from accredit.base.origin import requirement_of  # noqa: PLC0415 - as above

    return f'install "accredit[{extra}]", for example with pip: pip install {requirement_of(extra)}'


class Deferred:
    """Stands in for a module, which is loaded when one of its attributes is first used. Threads may share it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)  # from now on it is found without coming here
        return found


def names_of(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package of ours. `modules` maps each name to its module, which is loaded when the
    name is first used."""

    def load_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load_name


class _Unopened(ModuleType):
    """A package whose `__init__` has not run. It runs when a name that is not in `_modules` is first needed;
    other threads that need one wait for it."""

    _modules: Mapping[str, str] = MappingProxyType({})
    _opening: AbstractContextManager[object]
    """The lock under which it runs; one for packages that need each other."""
    _opens = False

    def __getattr__(self, name: str) -> Any:
        if name in self._modules:
            return getattr(import_module(f"{self.__name__}.{self._modules[name]}"), name)
        with self._opening:
            if type(self) is _Unopened and not self._opens:  # the package's own code asks, too
                self._open()
        return ModuleType.__getattribute__(self, name)

    def _open(self) -> None:
        self._opens = True
        try:
            if self.__spec__ is not None and self.__spec__.loader is not None:
                self.__spec__.loader.exec_module(self)
            self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue] - it is one, as Python sees it
        finally:
            self._opens = False


def leave_unopened(*names: str, modules: Mapping[str, str] | None = None) -> None:
    """Let submodules of these packages be imported without running the packages' own `__init__`. Name parents first.
    `modules` maps each name that is needed from the package itself to the submodule that has it.

    Call it at a program's start, before there are threads. Packages that are loaded already stay as they are.
    """
    from importlib.util import find_spec, module_from_spec  # noqa: PLC0415 - takes longer than the rest of this
    from threading import RLock  # noqa: PLC0415 - the cores, which use `Deferred`, load no threads

    opening = RLock()
    for name in names:
        spec = find_spec(name) if name not in sys.modules else None
        if spec is not None:
            package = sys.modules[name] = module_from_spec(spec)
            vars(package).update(_modules=modules or {}, _opening=opening)
            package.__class__ = _Unopened
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, package)
