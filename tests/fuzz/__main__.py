"""`make fuzz ARGS=600`: each fuzz target for so many seconds (60 without a number); prints a table.

I/O: processes; `.fuzz/TARGET` keeps the inputs that led somewhere new, and a later run begins with them. An input that
shows a defect is kept in `.fuzz/TARGET-crash-...`, and what it showed in `.fuzz/TARGET.log`: the exit code is 1 then.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"
TARGETS = {
    "jsonrpc": (["-m", "tests.fuzz.fuzz_jsonrpc"], 4096),
    "ratify": (["-m", "tests.fuzz.guided", "ratify"], 40_000),
    "gate": (["-m", "tests.fuzz.guided", "gate"], 40_000),
    "wrap": (["-m", "tests.fuzz.guided", "wrap"], 40_000),
    "guard": (["-m", "tests.fuzz.guided", "guard"], 40_000),
    "client": (["-m", "tests.fuzz.guided", "client"], 40_000),
}
"""How each target is started, and the bytes of its longest input."""
SPARE_SECONDS = 120
_RUNS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def fuzz(name: str, seconds: int) -> tuple[bool, str]:
    """Runs one target; whether it found nothing, and its row."""
    command, longest = TARGETS[name]
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-max_len={longest}", "-print_final_stats=1"]
    started = [sys.executable, *command, str(folder), *options, f"-artifact_prefix={KEPT}/{name}-"]
    done = subprocess.run(
        started, cwd=ROOT, capture_output=True, text=True, timeout=seconds + SPARE_SECONDS, check=False
    )
    (KEPT / f"{name}.log").write_text(done.stdout + done.stderr, "utf-8")
    runs = _RUNS.search(done.stderr)
    said = "nothing" if done.returncode == 0 else f"a defect: see {KEPT.name}/{name}.log"
    return done.returncode == 0, f"{name:10} {runs[1] if runs else '?':>12} {len(list(folder.iterdir())):>8}  {said}"


def main(arguments: list[str]) -> int:
    """Runs every target, one after the other."""
    seconds = int(arguments[0]) if arguments else 60
    print(f"{'target':10} {'runs':>12} {'inputs':>8}  found in {seconds} s each")
    sound = True
    for name in TARGETS:
        good, row = fuzz(name, seconds)
        sound = sound and good
        print(row, flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
