"""`python -m tests.fuzz.guided TARGET FOLDER [libFuzzer's options]`: fuzzes one target, guided by coverage.

The folder is first filled with what the target begins with, and keeps what the fuzzer finds.
"""

import importlib
import logging
import sys
from pathlib import Path

import atheris

INSTRUMENTED = {"ratify": "accredit.ratify", **dict.fromkeys(("gate", "wrap", "guard", "client"), "accredit")}
"""The code whose coverage guides each target."""


def main(arguments: list[str]) -> None:
    name, folder = arguments[1:3]
    with atheris.instrument_imports(include=[INSTRUMENTED[name]]):  # pyright: ignore[reportAttributeAccessIssue]
        target = importlib.import_module(f"tests.fuzz.fuzz_{name}_target")
    for told, data in target.corpus().items():
        Path(folder, told).write_bytes(data)
    for logger in ("accredit", "mcp", "fastmcp"):  # in this process alone: what refusals log is of no interest
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    atheris.Setup([arguments[0], *arguments[2:]], lambda data: target.one_input(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
