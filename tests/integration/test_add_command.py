"""`accredit add` as a process: one more server into a file that somebody wrote, and what a death half-way leaves."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.world import dying
from tests.world.changing_server import Listed, definitions, described
from tests.world.command import Serving, accredit, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm, python

from accredit.config.load import load
from accredit.config.pins import build_pins, read_lock_file
from accredit.config.renaming import means_renamed
from accredit.config.servers import views

pytestmark = [pytest.mark.slow, pytest.mark.holds("setup/add")]
ROOT = Path(__file__).parents[2]
PROGRAM = ("-m", "tests.world.changing_server")
COMMENT = re.compile(r"#[^\n]*")


class Configured:
    """A folder in which `accredit init` has been, and another server to add."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.lock = folder, folder / "accredit.toml", folder / "accredit.lock"
        aside = folder / "servers"
        aside.mkdir()
        self.old, self.new = Listed(aside / "old.json"), Listed(aside / "new.json")
        self.new.say(described("list_inbox", "The days."))
        self.commands = {
            name: [python(), *PROGRAM, str(aside / "received"), str(listed.path), "--legacy"]
            for name, listed in (("old", self.old), ("new", self.new))
        }
        done = accredit("init", "--dir", str(folder), "--", *self.commands["old"], folder=ROOT)
        assert done.returncode == 0, done.stderr
        (folder / "owner.key.pub").write_bytes(b"")

    def add(self, *options: str, name: str = "calendar") -> subprocess.CompletedProcess[str]:
        """Run `accredit add` for the new server."""
        return accredit("add", name, *options, "--config", str(self.file), "--", *self.commands["new"], folder=ROOT)

    def state(self) -> dict[str, bytes]:
        """Every file, by its name."""
        return {each.name: each.read_bytes() for each in self.folder.iterdir() if each.is_file()}


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    return Configured(tmp_path)


def test_the_old_server_gets_a_name_and_the_new_one_its_tables__and_each_comment_is_there(
    configured: Configured,
) -> None:
    mine = "# mine\n[gateway]   # odd   spacing\nupstream_timeout_seconds = 7 # slow\n"
    before = configured.file.read_text("utf-8").replace("[gateway]\n", mine)
    configured.file.write_text(before, "utf-8")
    configured.file.chmod(0o640)
    done = configured.add("--name-existing", "mail")
    assert done.returncode == 0, done.stderr
    after = configured.file.read_text("utf-8")
    tables = tomllib.loads(after)
    added = tables["servers"].pop("calendar")
    assert tables == means_renamed(tomllib.loads(before), "mail")
    assert tables["servers"]["mail"]["timeout_seconds"] == 7
    assert added["command"] == configured.commands["new"]
    assert added["cwd"] == str(ROOT)
    assert added["tools"]["list_inbox"] == {"scope": "mcp:tool"}
    assert added["tools"]["pay"] == {"scope": "custom:calendar:pay", "sensitive": True}
    comments = COMMENT.findall(after)
    assert [each for each in COMMENT.findall(before) if each not in comments] == []
    assert configured.file.stat().st_mode & 0o777 == 0o640
    pinned = read_lock_file(configured.lock)
    assert {name: each.set_sha256 for name, each in pinned.items()} == {
        "mail": definitions().set_sha256,
        "calendar": definitions(described("list_inbox", "The days.")).set_sha256,
    }
    assert "[upstream] is [servers.mail] now" in done.stderr
    assert "whoever holds mcp:tool for mail may use list_inbox of calendar as well" in done.stderr
    assert accredit("config", "check", folder=configured.folder).returncode == 2  # the owner's key is still to be made
    assert accredit("check", folder=configured.folder).returncode == 0
    shown = accredit("config", "show", folder=configured.folder).stdout.splitlines()
    assert [line for line in shown if line.startswith('servers.calendar.tools.pay = {"scope": "custom:calendar:pay"')]


def test_to_a_file_with_several_it_appends__and_what_was_there_stays_byte_for_byte(configured: Configured) -> None:
    assert configured.add("--name-existing", "mail").returncode == 0
    before = configured.file.read_bytes().replace(b"\n", b"\r\n") + b"\r\n# the end"
    configured.file.write_bytes(before)
    done = configured.add("--json", name="files")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["server"], told["renamed"]) == ("files", None)
    assert {"name": "pay", "scope": "custom:files:pay", "sensitive": True} in told["tools"]
    after = configured.file.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(b"\r\n")
    assert set(read_lock_file(configured.lock)) == {"mail", "calendar", "files"}


def test_a_header_is_written_by_its_variable_and_a_gateway_serves_both(configured: Configured) -> None:
    proofs_off = configured.file.read_text("utf-8").replace('mode = "required" ', 'mode = "off" ')
    configured.file.write_text(proofs_off, "utf-8")
    assert configured.add("--name-existing", "mail").returncode == 0
    with Serving("--config", str(configured.file), folder=configured.folder) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp/calendar"
        command = ["add", "remote", url, "--config", str(configured.file)]
        refused = accredit(*command, "--header", "X-Api-Key=of-mine", folder=ROOT)
        assert refused.returncode == 2
        env = {"CALENDAR_KEY": "of-the-calendar"}
        done = accredit(*command, "--header", "X-Api-Key=env:CALENDAR_KEY", folder=ROOT, env=env)
        assert done.returncode == 0, done.stderr
    remote = tomllib.loads(configured.file.read_text("utf-8"))["servers"]["remote"]
    assert remote["url"] == url
    assert remote["headers"] == {"X-Api-Key": {"env": "CALENDAR_KEY"}}


REFUSED = {
    "without a name for the old one": ((), "calendar", "", "--name-existing NAME"),
    "a name twice": (("--name-existing", "calendar"), "calendar", "", "can't be called calendar"),
    "the lock's name of the old one": (("--name-existing", "mail"), "upstream", "", "can't be called upstream"),
    "no name": (("--name-existing", "mail"), "Calendar", "", "should have a name of"),
    "no name for the old one": (("--name-existing", "../x"), "calendar", "", "should have a name of"),
    "paths for one server": (
        ("--name-existing", "mail"), "calendar", '[gateway]\npassthrough = ["/x"]\n', "gateway.passthrough is set",
    ),
    "no TOML": (("--name-existing", "mail"), "calendar", "[upstream\n", "is not TOML"),
    "somebody else's file": (("--name-existing", "mail"), "calendar", "[project]\nname = 'x'\n", "no such key"),
    "several already": (
        ("--name-existing", "mail"), "calendar", "[servers.files]\nurl = 'http://127.0.0.1:9/mcp'\n", "there is none",
    ),
    "a server of that name": ((), "calendar", "[servers.calendar]\nurl = 'http://127.0.0.1:9/mcp'\n", "already"),
    "servers in one line": ((), "calendar", "servers = { a = { url = 'http://127.0.0.1:9/mcp' } }\n", "in a form that"),
    "a server in one line": (
        ("--name-existing", "mail"), "calendar",
        "upstream = { url = 'http://127.0.0.1:9/mcp' }\n[tools.a]\nscope = 'email:send'\n", "in a form that",
    ),
    "a catalog of no server": (
        ("--name-existing", "mail"), "calendar", "[tools.a]\nscope = 'email:send'\n", "there is none",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Configured:
    """One folder for all that change nothing in it."""
    return Configured(tmp_path_factory.mktemp("unchanged"))


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_done_is_told_before_anybody_is_asked__and_nothing_changes(
    case: str, unchanged: Configured
) -> None:
    options, name, text, said = REFUSED[case]
    configured, whole = unchanged, unchanged.file.read_bytes()
    if text.startswith("[gateway]"):
        old = configured.file.read_text("utf-8").replace("[gateway]\n", text)
        configured.file.write_text(old, "utf-8")
    elif text:
        configured.file.write_text(text, "utf-8")
    (configured.folder / "servers/received").unlink(missing_ok=True)
    before = configured.state()
    done = configured.add(*options, name=name)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert configured.state() == before
    assert not (configured.folder / "servers/received").exists()
    configured.file.write_bytes(whole)


def test_a_broken_lock_and_what_the_environment_says_of_one_server_are_told(configured: Configured) -> None:
    before = configured.file.read_bytes()
    command = [
        "add",
        "calendar",
        "--name-existing",
        "mail",
        "--config",
        str(configured.file),
        "--",
        *configured.commands["new"],
    ]
    done = accredit(*command, folder=ROOT, env={"ACCREDIT_UPSTREAM__MAX_IN_FLIGHT": "3"})
    assert (done.returncode, "ACCREDIT_UPSTREAM__MAX_IN_FLIGHT" in done.stderr) == (2, True)
    configured.lock.write_bytes(configured.lock.read_bytes().replace(b"list_inbox", b"list_outbox", 1))
    lock = configured.lock.read_bytes()
    done = configured.add("--name-existing", "mail")
    assert (done.returncode, "accredit.lock can't be taken" in done.stderr) == (2, True)
    assert (configured.file.read_bytes(), configured.lock.read_bytes()) == (before, lock)


def test_links_are_followed_and_the_lock_is_that_beside_the_link(configured: Configured) -> None:
    real = configured.folder / "servers/real.toml"
    configured.file.rename(real)
    configured.file.symlink_to(real)
    assert configured.add("--name-existing", "mail").returncode == 0
    assert configured.file.is_symlink()
    assert set(tomllib.loads(real.read_text("utf-8"))["servers"]) == {"mail", "calendar"}
    assert set(read_lock_file(configured.lock)) == {"mail", "calendar"}


def test_without_a_lock_there_still_is_none__so_that_the_old_servers_start(configured: Configured) -> None:
    configured.lock.unlink()
    done = configured.add("--name-existing", "mail")
    assert done.returncode == 0, done.stderr
    assert not configured.lock.exists()
    assert "nothing is pinned" in done.stderr
    assert [build_pins(each) for each in views(load(configured.file, {}, {}))] == [None, None]


@pytest.mark.parametrize("existing", ["mail", pytest.param("", marks=pytest.mark.long)])
def test_killed_at_any_moment_it_leaves_a_gateway_that_starts_with_all_pinned(
    existing: str, configured: Configured
) -> None:
    options = ["--name-existing", existing] if existing else []
    name = "calendar"
    if not existing:
        assert configured.add("--name-existing", "mail").returncode == 0
        name = "files"
    before = {each: each.read_bytes() for each in (configured.file, configured.lock)}
    found: set[bytes] = set()
    for number in range(1, 40):
        for path, data in before.items():
            path.write_bytes(data)
        words = ["add", name, *options, "--config", str(configured.file), "--", *configured.commands["new"]]
        with Warm(
            [sys.executable, dying.__file__, str(configured.folder), str(number), *words],
            cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            _, stderr = process.communicate(timeout=PATIENCE)
        found.add(configured.file.read_bytes())
        servers = views(load(configured.file, {}, {}))
        pins = {each.server: build_pins(each) for each in servers}
        assert {name: pinned and pinned.tools["pay"] for name, pinned in pins.items()} == dict.fromkeys(
            pins, definitions().tools["pay"].sha256
        )
        if process.returncode == 0:
            break
        assert process.returncode == -9, stderr
    else:
        pytest.fail("it never came to its end")
    assert number > 4
    assert len(found) == 2
    assert set(read_lock_file(configured.lock)) == ({"mail", "calendar"} if existing else {"mail", "calendar", "files"})
    left = [each for each in os.listdir(configured.folder) if each.startswith(".accredit")]
    assert all((configured.folder / each).stat().st_mode & 0o077 in (0, 0o044) for each in left)
