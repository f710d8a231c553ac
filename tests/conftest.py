"""What all tests share: properties without deadlines, and nothing left behind by a test."""

import faulthandler
import gc
import inspect
import itertools
import logging
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings
from tests.world.children import children
from tests.world.patience import be_patient
from tests.world.prepared import prepare_once
from tests.world.warm import warm_children

from accredit.app.server import give_large_blocks_back

# A busy machine stalls for seconds: a deadline would fail tests for that, not for a defect.
settings.register_profile("accredit", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("everyday", settings.get_profile("accredit"), max_examples=50)
settings.register_profile("long", settings.get_profile("accredit"), max_examples=500)
settings.register_profile("drawn", settings.get_profile("everyday"), derandomize=True)
settings.load_profile("everyday")
be_patient()
# A shell lets what it runs in the background ignore SIGINT, and children inherit that: commands are to be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_GRACE_SECONDS = 30.0
_folders = itertools.count()
_WATCHED = pytest.StashKey[float]()
_WATCH_SECONDS, _LEEWAY_SECONDS = 960.0, 60.0
"""For a test where no signal gets through, such as in an event loop's C code: longer than any test's own timeout."""


def pytest_configure(config: pytest.Config) -> None:
    """Does once what every process of a run would do; and keeps none of the large blocks that tests make and free."""
    prepare_once(config)
    give_large_blocks_back()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Names the cases of a test alike in each run of one process, as mutmut has them: pytest keeps the ids that `ids`
    gives, and escapes again what it has kept, so that an id with a backslash finds nothing."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        object.__setattr__(mark._param_ids_from or mark, "_param_ids_generated", None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forgets what is told, and has what hangs end with a traceback. pytest's own watch begins again, with another
    thread, for each test."""
    _forget_results(item.config)
    now = time.monotonic()
    if now > item.config.stash.get(_WATCHED, 0.0) + _LEEWAY_SECONDS:
        item.config.stash[_WATCHED] = now
        told = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(_WATCH_SECONDS + _LEEWAY_SECONDS, exit=True, file=told)


def pytest_unconfigure() -> None:
    """Stops watching."""
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs as `running` runs all: in a loop of its own, or of its fixture `loop_factory`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    from tests.world.running import run  # noqa: PLC0415 - it takes the whole gateway along, which most tests do without

    given: dict[str, Any] = pyfuncitem.funcargs
    main = pyfuncitem.obj(**{name: given[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    run(main, given.get("loop_factory", uvloop.new_event_loop))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Many thousands of tests are kept to the end: looking for garbage among all of them again and again is long."""
    gc.disable()
    try:
        return (yield)
    finally:
        _forget_results(session.config)
        gc.collect(1)  # the tests that are left out: now nothing holds them, but each itself
        gc.freeze()
        gc.enable()


def _forget_results(config: pytest.Config) -> None:
    """A process that another one has started tells it each result, and prints none; pytest would have it keep all."""
    if hasattr(config, "workerinput"):
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        reporter.stats.clear()


def pytest_collectreport() -> None:
    """Frees what a file leaves that was made for its tests alone, as soon as they are made: 20 MiB in all."""
    gc.collect(0)


def _processes() -> set[int]:
    """Those of this process, and those that `Warm` has started for it."""
    return {*children(), *warm_children()}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Generator[None]:
    """Fails a test after which a thread or a child process that it started is still there."""
    threads, processes = set(threading.enumerate()), _processes()
    yield
    give_up = time.monotonic() + _GRACE_SECONDS
    while (left := [*set(threading.enumerate()) - threads, *_processes() - processes]) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not left, f"left behind: {left}"


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A test's folder, without the test's name in its path: that of a Unix socket in it has 107 bytes at most. The
    factory's own numbers are found by looking through all folders of the tests before."""
    return tmp_path_factory.mktemp(f"t{next(_folders)}", numbered=False)


@pytest.fixture(autouse=True)
def logs_as_before() -> Generator[None]:
    """Gives back the levels of logs, which a command that runs in this process sets."""
    loggers = (logging.getLogger(), logging.getLogger("accredit"))
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
