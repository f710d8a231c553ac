"""`python -m tests.fuzz.fuzz_ratify FOLDER [libFuzzer's options]`: fuzzes the Ratify core, guided by coverage.

The folder is first filled with inputs that our own code made, and keeps what the fuzzer finds.
"""

import importlib
import sys
from pathlib import Path

import atheris


def main(arguments: list[str]) -> None:
    with atheris.instrument_imports(include=["accredit.ratify"]):  # pyright: ignore[reportAttributeAccessIssue]
        target = importlib.import_module("tests.fuzz.fuzz_ratify_target")
    for name, data in target.corpus().items():
        Path(arguments[1], name).write_bytes(data)
    atheris.Setup(arguments, target.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
