"""`python -m tests.fuzz.fuzz_gate FOLDER [libFuzzer's options]`: fuzzes the gate as a whole, guided by coverage.

The folder is first filled with what `fuzz_gate_target` begins with, and keeps what the fuzzer finds.
"""

import importlib
import sys
from pathlib import Path

import atheris


def main(arguments: list[str]) -> None:
    with atheris.instrument_imports(include=["accredit"]):  # pyright: ignore[reportAttributeAccessIssue]
        target = importlib.import_module("tests.fuzz.fuzz_gate_target")
    for name, data in target.corpus().items():
        Path(arguments[1], name).write_bytes(data)
    atheris.Setup(arguments, lambda data: target.one_input(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
