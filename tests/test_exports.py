"""What a module says that it exports is what it has."""

import importlib
import inspect
from pathlib import Path

import pytest

import accredit

pytestmark = [
    pytest.mark.holds("attest"),
    pytest.mark.holds("policy"),
    pytest.mark.holds("ratify"),
    pytest.mark.holds("rounds"),
]

PACKAGE = Path(accredit.__file__).parent
FILES = [path for path in PACKAGE.rglob("*.py") if "\n__all__ = " in path.read_text("utf-8")]


def module_name(path: Path) -> str:
    parts = ("accredit", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", [module_name(path) for path in FILES])
def test_every_exported_name_exists_and_none_is_named_twice(name: str) -> None:
    module = importlib.import_module(name)
    exported: list[str] = module.__all__
    assert len(exported) == len(set(exported))  # ruff keeps them in order
    assert not [export for export in exported if not hasattr(module, export)]


@pytest.mark.parametrize("name", [module_name(path) for path in FILES if path.stem == "__init__"])
def test_a_package_has_no_public_name_that_it_does_not_export__people_would_come_to_rely_on_it(name: str) -> None:
    module = importlib.import_module(name)
    public = {
        found for found, value in vars(module).items() if not found.startswith("_") and not inspect.ismodule(value)
    }
    assert public <= set(module.__all__)  # what is loaded when it is asked for is not among them yet
