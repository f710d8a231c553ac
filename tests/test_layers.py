"""The layers hold at run time too: a core loads nothing of the world, and `import accredit` loads nothing at all."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import accredit

pytestmark = pytest.mark.slow

PACKAGE = Path(accredit.__file__).parent
CONTRACTS = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
    "contracts"
]
CORES = [
    name
    for name in ("jsonrpc", "ratify", "tokens", "attest", "rounds", "consent", "pins", "oauth")
    if (PACKAGE / name).is_dir()
]
PURE_LIBRARIES = {
    # simdjson loads pathlib, for a way to read files that nothing here uses; not every machine has it
    "jsonrpc": "msgspec, simdjson" if importlib.util.find_spec("simdjson") else "msgspec",
    # zoneinfo reads the time zone data of constraints, and loads what finds it
    "ratify": "msgspec, zoneinfo, importlib.resources, cryptography.exceptions, "
    "cryptography.hazmat.primitives.asymmetric.mldsa, nacl.bindings, nacl.exceptions",
    # jwt brings a client for key sets, which nothing here uses; hashlib is the standard library's
    "tokens": "msgspec, jwt, hashlib, base64",
    "attest": "msgspec, rfc8785, cryptography.exceptions, "
    "cryptography.hazmat.primitives.asymmetric.mldsa, nacl.bindings, nacl.exceptions",
    # the SDK's types are models of pydantic
    "rounds": "msgspec, mcp_types.methods, pydantic.json_schema, cryptography.exceptions, "
    "cryptography.hazmat.primitives.ciphers.aead",
}
PURE_LIBRARIES["pins"] = f"json, unicodedata, {PURE_LIBRARIES['jsonrpc']}"
PURE_LIBRARIES["consent"] = f"rfc8785, {PURE_LIBRARIES['ratify']}, {PURE_LIBRARIES['pins']}"
PURE_LIBRARIES["oauth"] = PURE_LIBRARIES["tokens"]
ABOVE = {"consent": {"ratify", "jsonrpc", "pins"}, "pins": {"jsonrpc"}, "oauth": {"tokens"}}
"""Cores that are above others, and above which."""
BELOW = {
    *("accredit.base", "accredit.base.caching", "accredit.base.deferred", "accredit.base.steps", "accredit.base.text"),
    *(
        "accredit.base.addresses",
        "accredit.base.ed25519",
        "accredit.base.values",
        "accredit.canonical",
        "accredit.errors",
        "accredit.limits",
        "accredit.refusals",
    ),
}
"""What is everybody's and touches nothing. The clock is only for who verifies without saying what time it is."""
WORLD = {
    *(
        "asyncio",
        "concurrent",
        "http",
        "logging",
        "multiprocessing",
        "random",
        "secrets",
        "select",
        "selectors",
        "signal",
    ),
    *("smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "urllib"),
}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def modules_of(core: str) -> list[str]:
    return [f"accredit.{core}.{path.stem}" for path in (PACKAGE / core).glob("*.py") if path.stem != "__init__"]


def test_importing_the_package_loads_nothing_else__a_library_must_not_change_its_host() -> None:
    assert loaded_by("import accredit") - loaded_by("") == {"accredit"}


@pytest.mark.parametrize("core", CORES)
def test_a_core_loads_nothing_of_the_world__what_it_decides_depends_on_its_arguments_only(core: str) -> None:
    libraries = loaded_by(f"import {PURE_LIBRARIES[core]}")
    loaded = loaded_by(f"import {', '.join(modules_of(core))}") - libraries
    assert not {name for name in loaded if name.partition(".")[0] in WORLD}


@pytest.mark.parametrize("core", CORES)
def test_a_core_loads_no_other_package_of_ours_and_no_library_that_is_not_pure(core: str) -> None:
    libraries = loaded_by(f"import {PURE_LIBRARIES[core]}")
    loaded = loaded_by(f"import {', '.join(modules_of(core))}") - libraries
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"accredit"}
    below = {core} | ABOVE.get(core, set())
    others = {name for name in loaded if name.startswith("accredit.") and name.split(".")[1] not in below}
    assert others <= BELOW | ({"accredit.base.clock"} if core in {"ratify", "consent"} else set())


def test_every_package_has_its_layer__one_that_is_not_named_is_not_checked() -> None:
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    (layers,) = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    assert found - {"__init__", "__main__"} <= set(re.findall(r"accredit\.(\w+)", " ".join(layers)))


def test_every_core_is_forbidden_the_world() -> None:
    forbidding = [contract for contract in CONTRACTS if "nothing of the world" in contract["name"]]
    cores = [module for contract in forbidding for module in contract["source_modules"]]
    assert sorted(cores) == sorted(f"accredit.{core}" for core in CORES)
