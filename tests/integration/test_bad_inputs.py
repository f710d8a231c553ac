"""Whatever is in the place of a file, a name or a store, and wherever it runs, a command ends, and says why in words.

Every day each command meets a pipe, where it opens something, and one of the other kinds in turn; `make test-long` has
all of them.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from tests.world.bad_inputs import (
    CONFIGURED,
    KINDS,
    OF_FILES,
    OF_NAMES,
    OF_NOTHING,
    OF_STORES,
    configure,
    furnish,
    line,
)
from tests.world.command import accredit, environment
from tests.world.odd_place import ODD
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm

pytestmark = [pytest.mark.holds("__main__"), pytest.mark.holds("base/toml")]

Words = tuple[str, ...]
PLACES = (*OF_FILES, *OF_STORES, *OF_NAMES)
BY_HARM: tuple[tuple[Words, str], ...] = (
    *((each, "a pipe") for each in (*OF_FILES, *OF_STORES)),
    *((each, "nested TOML") for each in OF_FILES if "--config" in each),
    (("keys", "new", "{}", "--kind", "agent"), "no name"),
    (("keys", "new", "{}", "--kind", "agent"), "the root"),
    (("token", "keygen", "{}"), "no name"),
    (("reload", "--config", "{}"), "a loop of links"),
    (("reload", "--config", "{}"), "a long name"),
    (("doctor", "--config", "{}"), "a long name"),
    (("log", "verify", "--store", "sqlite:///{}", "--key", "gateway.key.pub"), "a long name"),
    (("revoke", "0" * 32, "--issuer", "owner.key", "--store", "sqlite:///{}"), "a long name"),
    (("config", "check", "--config", "{}"), "dotted keys"),
)
"""What once hung, or ended with a traceback."""
IN_PLACE = [(command, odd) for command in OF_NOTHING for odd in ODD]
ONE_EACH = {(command, odd) for command, odd in zip(OF_NOTHING, cycle(ODD), strict=False)} | {
    (each, odd) for each in OF_NOTHING[:4] for odd in ("gone", "little memory")
}


def everyday() -> Iterator[tuple[Words, str]]:
    """What harmed, and each kind in turn."""
    yield from BY_HARM
    yield from zip(PLACES, cycle(KINDS), strict=False)


def cases() -> Iterator[object]:
    """All of them; what is not for every day is marked."""
    chosen = {*everyday()}
    for command in dict.fromkeys((*PLACES, *(each for each, _ in BY_HARM))):
        for kind in KINDS:
            marks = () if (command, kind) in chosen else pytest.mark.long
            yield pytest.param(command, kind, marks=marks, id=f"{' '.join(command)}-{kind}")


def check(done: "subprocess.CompletedProcess[str]") -> None:
    """It has ended by itself, with one of its own codes, and with words that steer no terminal."""
    assert done.returncode in (0, 1, 2), done
    assert "Traceback" not in done.stderr, done
    assert not [each for each in done.stderr.splitlines() if not each.isprintable()], done
    if done.returncode == 2:
        assert re.search(r"^error: .+\nhelp: .+", done.stderr, re.MULTILINE), done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    furnish(tmp_path)
    (tmp_path / "home").mkdir()
    return tmp_path


@pytest.mark.parametrize(("command", "kind"), [*cases()])
def test_whatever_lies_there_in_its_stead_a_command_ends_and_says_why(command: Words, kind: str, folder: Path) -> None:
    bad = KINDS[kind](folder / "bad")
    check(accredit(*line(command, bad), folder=folder, env={"HOME": str(folder / "home")}))


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "no text"])  # TOML is UTF-8
@pytest.mark.parametrize(
    "lines",
    [pytest.param(each, marks=() if number in (0, 10) else pytest.mark.long) for number, each in enumerate(CONFIGURED)],
)
def test_whatever_a_configuration_names_its_check_and_the_doctor_end(lines: str, kind: str, folder: Path) -> None:
    configure(folder, lines, KINDS[kind](folder / "bad"))
    doctor = ("doctor", "--production", "--config", "accredit.toml")
    for command in (("config", "check"), *((doctor,) if "sqlite" in lines else ())):
        check(accredit(*command, folder=folder, env={"HOME": str(folder / "home")}))


@pytest.mark.parametrize(
    ("command", "odd"),
    [pytest.param(*each, marks=() if each in ONE_EACH else pytest.mark.long) for each in IN_PLACE],
)
def test_wherever_it_is_started_a_command_ends_and_says_why(command: Words, odd: str, folder: Path) -> None:
    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-m", "tests.world.odd_place", odd, *command]
    with Warm(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env=environment({"HOME": str(folder / "home"), "PYTHONPATH": root}),
    ) as process:  # fmt: skip
        stdout, stderr = process.communicate(timeout=PATIENCE)
    done = subprocess.CompletedProcess(words, process.returncode, stdout, stderr)
    if odd == "closed":
        assert (done.returncode in (0, 1, 2), stdout, stderr) == (True, "", "")
        return
    check(done)
    if odd == "gone" and done.returncode == 2 and "current folder" in stderr:
        assert stderr.endswith("help: go to one that is there\n")


@pytest.mark.slow
def test_what_python_could_not_do_is_told_with_its_place__and_a_defect_is_not_hidden(folder: Path) -> None:
    program = (
        "import sys; import accredit.cli as cli; from accredit.__main__ import main\n"
        "def fails(): raise {}\n"
        "cli.main = fails\n"
        "sys.exit(main())"
    )
    told = {
        "MemoryError": "there is too little memory",
        "RecursionError": "nested too deep",
        "OSError(5, 'bad\\x1b', 'a\\x1b[31m')": "bad\\\\x1b: 'a\\\\x1b[31m'",
        "RuntimeError('can\\'t start new thread')": "too little memory",
    }
    for error, words in told.items():
        with Warm(
            [sys.executable, "-c", program.format(error)], stderr=subprocess.PIPE, text=True, cwd=folder,
            env=environment(),
        ) as process:  # fmt: skip
            _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 2, stderr
        assert re.fullmatch(r"error: [^\n]+ \([^()\n]*:2\)\nhelp: [^\n]+\n", stderr), stderr
        assert words.replace("\\\\", "\\") in stderr
    with Warm(
        [sys.executable, "-c", program.format("ValueError('a defect')")], stderr=subprocess.PIPE, text=True, cwd=folder,
        env=environment(),
    ) as process:  # fmt: skip
        _, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Traceback" in stderr) == (1, True)


def test_as_a_module_it_is_the_same_command(folder: Path) -> None:
    words = [sys.executable, "-m", "accredit", "--version"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["accredit"])
    assert subprocess.run([*words[:3], "keys"], cwd=folder, capture_output=True, check=False).returncode == 2
