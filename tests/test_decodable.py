"""Every type that we decode is ready when it is imported. Two threads that decode the first object of a type that is
not end the process (`base.values.decodable`)."""

import ast
import gc
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

import accredit
from accredit.a2a.answers import METHODS
from accredit.config.schema import SECTIONS, Section
from accredit.ratify.constraints.kinds import BuiltIn, Extension
from accredit.ratify.wire import WireObject
from accredit.stores.door import rows

OF_VARIABLES: dict[str, list[Any]] = {
    "accredit.a2a.requests": [each.params for each in METHODS.values()],
    "accredit.a2a.answers": [each.result for each in METHODS.values() if each.result is not None],
    "accredit.config.conversion": [*SECTIONS.values(), Section],
    "accredit.http_api.openapi": ["_Document", "_Path"],
    "accredit.ratify.constraints.kinds": [BuiltIn, Extension],
    "accredit.ratify.wire": [WireObject],
    "accredit.stores.door.rows": [rows.KeptClient, rows.KeptCode, rows.KeptLogin, rows.KeptChain, rows.Grant],
}
"""The types that these modules decode by a variable: with a base class, all that are derived from it."""


def modules() -> list[str]:
    found = pkgutil.walk_packages(accredit.__path__, "accredit.")
    return [each.name for each in found if not each.name.endswith("__main__")]


def structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for each in get_args(kind):
        yield from structs(each)


def derived(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("accredit."):  # other tests have some of their own
            yield each
        yield from derived(each)


def decoded(module: ModuleType) -> Iterator[str]:
    """Yields what stands for the type at each place that decodes or converts to one."""
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        if function.endswith((".decode", "msgspec.convert")):
            named = [each.value for each in node.keywords if each.arg == "type"]
            second = node.args[1:2] if function == "msgspec.convert" else []
            for kind in (*named, *second):
                text = ast.unparse(kind)
                within = [each.name for each in classes if each.lineno <= node.lineno <= (each.end_lineno or 0)]
                yield within[-1] if text == "cls" else text


def is_ready(kind: type) -> bool:
    return any(type(each).__name__ == "StructInfo" for each in gc.get_referents(kind))


def test_msgspec_shows_whether_a_type_is_ready() -> None:
    class Late(msgspec.Struct):
        number: int

    assert not is_ready(Late)
    msgspec.json.Decoder(Late)
    assert is_ready(Late)


@pytest.mark.parametrize("name", modules())
def test_what_a_module_decodes_is_ready_when_it_is_imported(name: str) -> None:
    module = importlib.import_module(name)
    for text in decoded(module):
        try:
            kinds = [eval(text, vars(module))]
        except NameError:
            of_variable = OF_VARIABLES[name]
            kinds = [getattr(module, each) if isinstance(each, str) else each for each in of_variable]
            kinds += [each for kind in kinds if kind in (Section, BuiltIn, WireObject) for each in derived(kind)]
            kinds = [each for each in kinds if each not in (Section, BuiltIn, WireObject)]
        assert [each.__name__ for kind in kinds for each in structs(kind) if not is_ready(each)] == []
