"""What `make dist` makes: the same bytes anywhere, all that is needed in it, and nothing that is not.

It is installed by the real installers, without a network, from wheels of what is installed here (`wheels`): so what is
not declared is not there.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.world.built import GIT, ROOT, SOURCES, WHO, environment_of, made, metadata_of, run
from tests.world.calls import initialize
from tests.world.command import Serving, environment
from tests.world.raw_server import PATIENCE

from accredit.base.version import version_text

pytestmark = pytest.mark.slow

URL = '[upstream]\nurl = "http://127.0.0.1:1/mcp"\n'
CHECK = ("config", "check", "--config", "some.toml")
EXTRAS = [
    ("postgres", '[store]\nurl = "postgresql://a@b/c"\n', CHECK),
    ("telemetry", "[admin]\nport = 0\n", CHECK),
    ("telemetry", '[telemetry]\nendpoint = "http://127.0.0.1:1"\n', CHECK),
    ("hosts", "", ("install", "goose", "--url", "http://127.0.0.1:1/mcp", "--yes")),
]
"""What needs an extra: in a configuration, or by a command."""
LIBRARIES = {"fastmcp"}
"""Extras of modules that no command uses."""


@pytest.fixture
def wheel(built: Path) -> Path:
    return next((built / "one" / "dist").glob("*.whl"))


@pytest.fixture
def sdist(built: Path) -> Path:
    return next((built / "one" / "dist").glob("*.tar.gz"))


def commit(built: Path) -> str:
    """As a build says it."""
    if not GIT:
        return ""
    return f" (commit {run(GIT, 'rev-parse', 'HEAD', folder=built / 'one', env=WHO).stdout[:12]})"


def test_two_builds_in_other_folders_at_other_times_have_the_same_bytes(built: Path) -> None:
    one, two = built / "one" / "dist", built / "far" / "off" / "two" / "dist"
    names = {file.name for file in one.iterdir()}
    assert names == {file.name for file in two.iterdir()} == {"SHA256SUMS", *names}
    version = "accredit-0.1.0"
    packages = {f"{version}-py3-none-any.whl", f"{version}.tar.gz", "accredit-connect-0.1.0.mcpb"}
    assert names == {*packages, "Containerfile", "gateway.txt", "SHA256SUMS"}
    sums = (one / "SHA256SUMS").read_text()
    assert sums == (two / "SHA256SUMS").read_text()
    assert {line.split()[1] for line in sums.splitlines()} == names - {"SHA256SUMS"}
    for line in sums.splitlines():
        digest, name = line.split()
        assert hashlib.sha256((one / name).read_bytes()).hexdigest() == digest


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path, built: Path) -> None:
    source = built / "one"
    package = {f"accredit/{each.relative_to(source / 'src/accredit')}" for each in files(source / "src/accredit")}
    examples = {f"accredit/examples/{each.name}" for each in files(source / "examples")}
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"}
    inside = set(zipfile.ZipFile(wheel).namelist())
    found = {each for each in inside if ".dist-info/" not in each}
    assert found == package | examples | ({"accredit/commit.txt"} if GIT else set())
    assert {each.partition(".dist-info/")[2] for each in inside - found} == about
    assert {"accredit/py.typed", "accredit/console/static/index.html", "accredit/examples/story.py"} < found


def test_the_sdist_has_what_a_build_needs_and_no_tests(sdist: Path, built: Path) -> None:
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {name.partition("/")[0] for name in names} == {*SOURCES, "pyproject.toml", ".gitignore", "PKG-INFO"}
    source = built / "one"
    assert {str(each.relative_to(source)) for name in ("src", "examples") for each in files(source / name)} < names


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


@pytest.mark.skipif(not GIT, reason="git is not installed")
def test_a_build_of_what_is_not_committed_says_so(built: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(built / "one", changed)
    (changed / "examples" / "story.py").write_text("")
    wheel = next(made(changed).glob("*.whl"))
    assert zipfile.ZipFile(wheel).read("accredit/commit.txt").decode().endswith("+changes\n")


def test_the_version_names_the_commit__also_of_a_checkout(built: Path) -> None:
    said = run(built / "bare" / "bin" / "accredit", "--version", folder=built).stdout
    assert said == f"accredit 0.1.0{commit(built)}\n"
    ours = version_text()
    assert re.fullmatch(r"0\.1\.0( \(a checkout of commit [0-9a-f]{12}\))?", ours)
    assert "commit" in ours or not GIT or not (ROOT / ".git").exists()


IMPORTS = """
import importlib, importlib.metadata, json, pkgutil, accredit
failed = {}
for each in pkgutil.walk_packages(accredit.__path__, "accredit."):
    if not each.name.startswith("accredit.examples"):
        try:
            importlib.import_module(each.name)
        except ImportError as error:
            failed[each.name] = str(error)
print(json.dumps([failed, importlib.metadata.version("accredit")]))
"""
HELP = """
import json
import click
from click.testing import CliRunner
from accredit.cli import app

def walk(command, *words):
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), *words, name)

print(json.dumps({" ".join(words): CliRunner().invoke(app, [*words, "--help"]).exit_code for words in walk(app)}))
"""


def test_every_module_can_be_imported_with_what_is_declared(built: Path) -> None:
    failed, version = json.loads(run(built / "bare" / "bin" / "python", "-c", IMPORTS, folder=built).stdout)
    assert version == "0.1.0"
    (module, said), *others = failed.items()
    assert (module, others) == ("accredit.server.fastmcp", [])
    what, _, command = said.partition(" for example with pip: pip install ")
    assert what == 'accredit.server.fastmcp needs FastMCP 4: install "accredit[fastmcp]",'
    assert re.fullmatch(r"'accredit\[fastmcp\] @ file:///[^' ]+\.whl'", command), command


def test_every_command_has_its_help(built: Path) -> None:
    codes = json.loads(run(built / "bare" / "bin" / "python", "-c", HELP, folder=built).stdout)
    assert len(codes) > 30
    assert set(codes.values()) == {0}


def test_a_gateway_serves(built: Path, tmp_path: Path) -> None:
    server = (
        "env",
        f"PYTHONPATH={ROOT}",
        sys.executable,
        "-m",
        "tests.world.honest_server",
        str(tmp_path / "received"),
    )
    own = [str(built / "bare" / "bin" / "accredit")]
    with (
        Serving("--", *server, folder=tmp_path, command=own) as gateway,
        closing(HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)) as client,
    ):
        asked = initialize()
        client.request("POST", "/mcp", asked.body, dict(asked.headers))
        answer = client.getresponse()
        assert (answer.status, b'"protocolVersion"' in answer.read()) == (200, True), gateway.stderr


def test_each_extra_is_tried_here(wheel: Path) -> None:
    assert {*metadata_of(wheel).get_all("Provides-Extra", ())} == {extra for extra, *_ in EXTRAS} | LIBRARIES


@pytest.mark.parametrize(("extra", "text", "words"), EXTRAS)
def test_what_needs_an_extra_says_which(
    extra: str, text: str, words: Sequence[str], built: Path, tmp_path: Path
) -> None:
    (tmp_path / "some.toml").write_text(f"{URL}{text}")
    done = subprocess.run(
        [built / "bare" / "bin" / "accredit", *words], cwd=tmp_path, timeout=60, capture_output=True, text=True,
        env=environment({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    error, remedy = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert f'install "accredit[{extra}]"' in remedy


def test_what_is_built_from_the_sdist_is_what_the_wheel_has(
    built: Path, sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    """As `pip install .` does: with a build of its own."""
    environment_of(tmp_path / "new", sdist, built / "wheels", "--no-deps")
    (installed,) = (tmp_path / "new").glob("lib/*/site-packages")
    of_the_installer = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}
    found = {
        str(each.relative_to(installed)): each.read_bytes()
        for each in files(installed)
        if each.name not in of_the_installer
    }
    with zipfile.ZipFile(wheel) as packed:
        inside = {name: packed.read(name) for name in packed.namelist() if not name.endswith("/RECORD")}
    assert found == inside
    assert (tmp_path / "new" / "bin" / "accredit").exists()


@pytest.mark.long
def test_the_sdist_is_built_and_installed_in_a_new_environment(built: Path, sdist: Path, tmp_path: Path) -> None:
    """As `pip install .` does: with a build of its own."""
    environment_of(tmp_path / "new", sdist, built / "wheels")
    said = run(tmp_path / "new" / "bin" / "accredit", "--version", folder=tmp_path).stdout
    assert said == f"accredit 0.1.0{commit(built)}\n"


def test_uvx_runs_it_from_the_file(built: Path, wheel: Path, tmp_path: Path) -> None:
    words = ["tool", "run", "--no-index", "--find-links", built / "wheels", "--python", sys.executable, "--from", wheel]
    uv = Path(sys.executable).with_name("uv")
    said = run(
        uv, "--no-config", *words, "accredit", "--version", folder=tmp_path, env={"UV_CACHE_DIR": str(built / "cache")}
    )
    assert said.stdout == f"accredit 0.1.0{commit(built)}\n"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pipx") is None, reason="pipx is not installed (Debian: apt-get install pipx)")
def test_pipx_installs_it_from_the_file(built: Path, wheel: Path, tmp_path: Path) -> None:
    env = {
        "PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "HOME": str(tmp_path),
        "PIP_FIND_LINKS": str(built / "wheels"),
    }  # fmt: skip
    run("pipx", "install", "--python", sys.executable, wheel, folder=tmp_path, env=env)
    assert run(tmp_path / "bin" / "accredit", "--version", folder=tmp_path).stdout == f"accredit 0.1.0{commit(built)}\n"
