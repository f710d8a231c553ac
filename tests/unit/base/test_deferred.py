"""What is loaded later is loaded once, and is then what it would have been."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from accredit.base.deferred import Deferred, loading, names_of


def run(statements: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", statements], cwd=folder, check=True, timeout=60)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package whose own code loads much, and has a name that no module has."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").write_text("from outer import much\nNAME = much\n")
    (tmp_path / "outer" / "much.py").write_text("")
    (tmp_path / "outer" / "inner" / "__init__.py").write_text("import outer.much\nNAME = 2\n")
    (tmp_path / "outer" / "inner" / "part.py").write_text("PART = 1\n")
    return tmp_path


def test_a_part_of_a_package_is_imported_without_what_the_package_loads(package: Path) -> None:
    run(
        "import sys; from accredit.base.deferred import leave_unopened\n"
        "leave_unopened('outer', 'outer.inner', 'no_such_package')\n"
        "from outer.inner.part import PART\n"
        "assert PART == 1 and 'outer.much' not in sys.modules\n",
        package,
    )


def test_it_is_whole_for_whoever_asks_for_what_was_left_out(package: Path) -> None:
    run(
        "import sys; from accredit.base.deferred import leave_unopened\n"
        "leave_unopened('outer', 'outer.inner')\n"
        "import outer.inner.part\n"
        "from outer.inner import NAME\n"
        "assert NAME == 2 and outer.NAME is sys.modules['outer.much'] and outer.inner.part.PART == 1\n"
        "assert type(outer) is type(sys) and not hasattr(outer, 'no_such_name')\n",
        package,
    )


def test_a_name_whose_module_is_known_opens_nothing(package: Path) -> None:
    run(
        "import sys; from accredit.base.deferred import leave_unopened\n"
        "leave_unopened('outer', 'outer.inner', modules={'PART': 'part'})\n"
        "from outer.inner import PART\n"
        "assert PART == 1 and 'outer.much' not in sys.modules\n",
        package,
    )


def test_a_second_thread_waits_for_the_whole_of_a_package_that_a_first_one_opens(package: Path) -> None:
    (package / "outer" / "__init__.py").write_text("import __main__; __main__.let_second_ask()\nNAME = 1\n")
    run(
        "import sys, threading; from accredit.base.deferred import leave_unopened\n"
        "leave_unopened('outer'); import outer; found = []\n"
        "second = threading.Thread(target=lambda: found.append(getattr(outer, 'NAME', 'half a package')))\n"
        "def let_second_ask():\n"
        "    second.start()\n"
        "    while second.is_alive() and sys._current_frames()[second.ident].f_code.co_name != '__getattr__': pass\n"
        "assert outer.NAME == 1\n"
        "second.join(); assert found == [1], found\n",
        package,
    )


@pytest.mark.slow
def test_the_official_sdk_is_whole__too(tmp_path: Path) -> None:
    run(
        "import sys; from accredit.base.deferred import leave_unopened\n"
        "leave_unopened('mcp', 'mcp.client')\n"
        "import mcp.client.streamable_http\n"
        "assert 'mcp.client.client' not in sys.modules\n"
        "from mcp.client import Client\n"
        "assert Client is mcp.Client is sys.modules['mcp.client.client'].Client and mcp.types.Tool\n",
        tmp_path,
    )


def test_a_package_that_is_loaded_stays_as_it_is(package: Path) -> None:
    run(
        "import outer, outer.inner; from accredit.base.deferred import leave_unopened\n"
        "leave_unopened('outer', 'outer.inner')\n"
        "assert vars(outer)['NAME'] and vars(outer.inner)['NAME'] == 2\n",
        package,
    )


def test_a_package_has_no_other_names_than_its_own() -> None:
    lookup = names_of("accredit.rounds", {"elicit": "requests"})
    assert lookup("elicit") is Deferred("accredit.rounds.requests").elicit
    with pytest.raises(AttributeError, match="no attribute 'driver_of'"):
        lookup("driver_of")


def test_garbage_is_looked_for_again_even_if_an_import_failed() -> None:
    def load() -> None:
        with loading():
            assert not gc.isenabled()
            raise ImportError

    with pytest.raises(ImportError):
        load()
    assert gc.isenabled()
    gc.unfreeze()
