"""The obvious mistakes of the first hour, each made with the real command: one sentence says what is wrong, and what to
do."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.agents import AgentFiles, agent_files, save_delegation
from tests.world.authorization import Trust
from tests.world.command import Serving, accepts, accredit, environment, wait_until
from tests.world.connected import Connected
from tests.world.mail import MAIL, mail_server
from tests.world.ports import reserved_port
from tests.world.raw_server import PATIENCE
from tests.world.up import Newcomer, Up
from tests.world.warm import path

from accredit import __main__ as entry
from accredit.config.load import load
from accredit.config.servers import endpoints
from accredit.hosts.table import HOSTS, Places
from accredit.keys import lock_key, make_key, write_key

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow

SHIFTED = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + {seconds} * 10**9
"""
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Without())
"""


@pytest.fixture(scope="module")
def files(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> AgentFiles:
    return agent_files(tmp_path_factory.mktemp("hour"), trust, "email:read")


@pytest.fixture(scope="module")
def gateway(files: AgentFiles) -> Generator[Serving]:
    with Serving("--config", "accredit.toml", folder=files.folder) as serving:
        yield serving


def call(files: AgentFiles, url: str, *options: str) -> str:
    """What `accredit call` says on stderr."""
    done = accredit("call", "list_inbox", "--url", url, *(options or files.options), folder=files.folder)
    assert done.returncode != 0, done
    return done.stderr


def test_the_wrong_port__or_a_gateway_that_does_not_run(files: AgentFiles) -> None:
    with reserved_port() as port:
        what, remedy = call(files, f"http://127.0.0.1:{port}/mcp").splitlines()
    assert what == f"error: the gateway at 127.0.0.1:{port} can't be reached: is it running, and is the URL right?"
    assert remedy == "help: start it with `accredit up`, or `accredit serve --config FILE`, which print its URL"


def test_a_wrong_scheme_or_path_is_not_taken_for_a_server_that_is_down(gateway: Serving, files: AgentFiles) -> None:
    port = gateway.url.rpartition(":")[2].partition("/")[0]
    what, remedy = call(files, gateway.url.replace("http:", "https:")).splitlines()
    assert "does not speak TLS as it should" in what
    assert "begins with http://, write that" in what
    assert "with http or https as there" in remedy
    assert "server behind it" not in remedy
    what, remedy = call(files, f"http://127.0.0.1:{port}/").splitlines()
    assert what == "error: Not found: /"
    assert "name the endpoint that `accredit serve` prints" in remedy


def test_a_host_with_a_wrong_path_is_told_where_the_right_one_is_printed(gateway: Serving, files: AgentFiles) -> None:
    """It was answered `Not found: /mpc`, and nothing was on stderr."""
    with Connected(files.folder, gateway.url.replace("/mcp", "/mpc"), *files.options) as host:
        told = host.ask("tools/list")["error"]["message"]
        assert told.startswith("Not found: /mpc: name the endpoint that `accredit serve` prints")
        assert told in host.stderr


@pytest.mark.parametrize("command", ["init", "up"])
def test_a_server_that_is_not_running(command: str, tmp_path: Path, free_port: Callable[[], int]) -> None:
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    with reserved_port() as port:
        own = ("--port", str(free_port())) if command == "up" else ()
        done = accredit(command, f"http://127.0.0.1:{port}/mcp", *own, folder=tmp_path, env=env)
    assert done.returncode == 2
    what, remedy = done.stderr.splitlines()[-2:]
    assert what.startswith("error: the server did not list its tools: ")
    assert what.endswith(f"(at http://127.0.0.1:{port}/mcp)")
    assert remedy.startswith("help: start it, or see whether it runs")


def test_a_wrong_passphrase(tmp_path: Path) -> None:
    key = make_key("human", "Owner", 0)
    write_key(tmp_path / "owner.key", lock_key(key, bytearray(b"right words")))
    write_key(tmp_path / "agent.key", make_key("agent", "Agent", 0))
    (tmp_path / "words").write_text("wrong words")
    (tmp_path / "words").chmod(0o600)
    words = ("--agent", "agent.key.pub", "--scope", "mcp:tool", "--expires", "1d", "--out", "d.json")
    done = accredit("grant", "--issuer", "owner.key", *words, "--passphrase-file", "words", folder=tmp_path)
    assert done.returncode == 2
    assert "this is not the passphrase of Owner's key" in done.stderr
    assert "help: try again; nothing was signed" in done.stderr
    assert "wrong words" not in done.stderr


def test_two_gateways_on_one_port(files: AgentFiles, free_port: Callable[[], int]) -> None:
    port = free_port()
    words = ("serve", "--config", "accredit.toml", "--port", str(port))
    first = subprocess.Popen([sys.executable, "-m", "accredit", *words], cwd=files.folder, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: accepts(port))
        done = accredit(*words, folder=files.folder)
    finally:
        first.kill()
        first.wait()
    what, remedy = done.stderr.splitlines()[-2:]
    assert done.returncode == 2
    assert what.startswith(f"error: can't listen on 127.0.0.1 port {port}: the port is taken")
    assert remedy.endswith(", or choose another: --port 0 finds one")
    if sys.platform == "linux":
        held = f"`accredit serve` holds it (process {first.pid}, which serves {files.folder}/accredit.toml)"
        assert what.endswith(f": {held}")
        assert remedy.startswith(f"help: end that one (kill {first.pid})")


def test_a_key_that_others_can_read(gateway: Serving, files: AgentFiles, tmp_path: Path) -> None:
    key = tmp_path / "agent.key"
    key.write_bytes(files.key.read_bytes())
    key.chmod(0o644)
    what, remedy = call(files, gateway.url, "--key", str(key), "--delegation", str(files.delegation)).splitlines()
    assert what == f"error: {key} is a private key that others can read (mode 0644)"
    assert remedy.startswith(f"help: chmod 600 {key}")


def test_an_expired_delegation(gateway: Serving, files: AgentFiles, trust: Trust, tmp_path: Path) -> None:
    old = save_delegation(tmp_path / "old.json", trust.chain("email:read", ends=-1))
    what, remedy = call(files, gateway.url, "--key", str(files.key), "--delegation", str(old)).splitlines()
    assert what.startswith(f"error: {old} has expired (at 20")
    assert "this machine's clock says" in what
    assert f"--scope email:read --expires 30d --out {old} --force" in remedy


@pytest.mark.parametrize("seconds", [3_600, -3_600])
def test_a_clock_that_is_wrong_by_an_hour(seconds: int, gateway: Serving, files: AgentFiles, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHIFTED.format(seconds=seconds))
    words = [sys.executable, "-m", "accredit", "call", "list_inbox", "--url", gateway.url, *files.options]
    done = subprocess.run(
        words, cwd=files.folder, env=environment({"PYTHONPATH": str(tmp_path)}), capture_output=True, text=True,
        timeout=4 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done
    assert "compare the clocks" in done.stderr
    assert "accredit doctor" in done.stderr


def test_a_clock_behind_the_beginning_of_a_delegation(
    gateway: Serving, files: AgentFiles, trust: Trust, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SHIFTED.format(seconds=-30 * 86_400))
    chain = tuple(replace(cert, issued_at=int(time.time())) for cert in trust.chain("email:read"))
    new = save_delegation(tmp_path / "new.json", chain)
    words = ["call", "list_inbox", "--url", gateway.url, "--key", str(files.key), "--delegation", str(new)]
    done = subprocess.run(
        [sys.executable, "-m", "accredit", *words], env=environment({"PYTHONPATH": str(tmp_path)}),
        capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
    )  # fmt: skip
    what, remedy = done.stderr.splitlines()[-2:]
    assert what.startswith(f"error: {new} is not valid yet: it begins at ")
    assert "timedatectl set-ntp true" in remedy


def test_a_key_or_a_delegation_that_is_not_there(gateway: Serving, files: AgentFiles) -> None:
    key, grant = ("--key", str(files.key)), ("--delegation", str(files.delegation))
    what, remedy = call(files, gateway.url, "--key", "none.key", *grant).splitlines()
    assert what == "error: there is no key none.key"
    assert "`accredit keys new none.key --kind agent` makes one" in remedy
    what, remedy = call(files, gateway.url, *key, "--delegation", "none.json").splitlines()
    assert what == "error: there is no delegation none.json"
    named = f"--agent {files.key}.pub --scope SCOPE --expires 30d --out none.json"
    assert f"accredit grant --issuer PATH {named}" in remedy


def test_a_server_behind_the_gateway_that_is_not_running(free_port: Callable[[], int], files: AgentFiles) -> None:
    with reserved_port() as port, Serving(f"http://127.0.0.1:{port}/mcp", folder=files.folder) as serving:
        what, remedy = call(files, serving.url).splitlines()[-2:]
        wait_until(lambda: "a server behind this gateway takes no connections" in serving.stderr)
        (dead,) = [json.loads(line) for line in serving.stderr.splitlines() if "a server behind" in line]
        assert (dead["at"], dead["remedy"]) == (f"127.0.0.1:{port}", "start it: the gateway needs no restart")
        logged = [json.loads(line) for line in serving.stderr.splitlines() if "upstream_failed" in line]
        assert {each["at"] for each in logged} == {f"127.0.0.1:{port}"}  # which the client is not told
    assert what.startswith("error: Upstream unavailable")
    assert "start that server" in remedy


def test_a_host_that_was_not_restarted(gateway: Serving, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    done = accredit("install", "cursor", "--url", gateway.url, "--yes", folder=tmp_path, env=env)
    assert done.returncode == 0, done
    assert "restart cursor to have it take this up" in done.stdout
    assert f"accredit keys new {tmp_path}/.config/accredit/agent.key --kind agent" in done.stderr

    def told() -> list[dict[str, str]]:
        found = json.loads(accredit("doctor", "--json", folder=tmp_path, env=env).stdout)["findings"]
        return [each for each in found if "has not connected since" in each["what"]]

    (note,) = told()
    assert note["what"].startswith("cursor has not connected since its entry accredit was written ")
    assert (note["level"], note["remedy"]) == ("note", "restart cursor")
    entry_now = json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]["accredit"]
    words = [entry_now["command"], *entry_now["args"]]
    for _ in range(2):  # the host starts it, with its folders alone in the environment
        subprocess.run(words, stdin=subprocess.DEVNULL, env=environment(env), timeout=4 * PATIENCE, check=True)
        assert told() == []
    assert not [*(tmp_path / ".local/state/accredit").glob("*.unstarted")]


@pytest.mark.parametrize(
    ("system", "version", "what", "remedy"),
    [
        ("nt", (3, 12), "accredit runs on Linux and macOS, and not on Windows", "WSL"),
        ("posix", (3, 10), "this is Python 3.10, and accredit needs 3.11 or newer", "python3.12 -m venv .venv"),
    ],
)
def test_windows_and_a_python_that_is_too_old(
    system: str, version: tuple[int, int], what: str, remedy: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert entry._why_unfit("posix", sys.version_info[:2]) is None
    found = entry._why_unfit(system, version)
    assert found is not None
    assert found[0] == what
    assert remedy in found[1]

    def unfit(*_of_this: object) -> tuple[str, str]:
        return found

    monkeypatch.setattr(entry, "_why_unfit", unfit)
    assert entry.main() == 2
    assert capsys.readouterr().err == f"error: {found[0]}\nhelp: {found[1]}\n"


@pytest.mark.parametrize("file", ["hatch_build.py", "src/accredit/__main__.py"])
def test_a_python_that_is_too_old_is_told_by_what_pip_and_it_run_first(file: str) -> None:
    """An older pip finds no fitting version of some package, and says nothing of Python."""
    code = (
        "import runpy, sys, types\n"
        "names = [name for name in dir(sys.flags) if name[0] != '_' and name != 'safe_path']\n"
        "sys.flags = types.SimpleNamespace(**{name: getattr(sys.flags, name) for name in names})\n"
        "sys.version_info = (3, 10, 13)\n"
        f"runpy.run_path({str(ROOT / file)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in {1, 2}
    assert "this is Python 3.10" in done.stderr or "this is 3.10" in done.stderr
    assert "python3.12 -m venv .venv" in done.stderr


def test_an_endpoint_that_asks_for_no_proof_is_told(gateway: Serving, files: AgentFiles, tmp_path: Path) -> None:
    note = "note: the endpoint asked for no proof: whoever reaches it can make this call"
    with mail_server(tmp_path) as url:
        done = accredit("call", "list_inbox", "--url", url, folder=tmp_path)
    assert (done.returncode, done.stderr.splitlines()) == (0, [note])
    proved = accredit("call", "list_inbox", "--url", gateway.url, *files.options, folder=files.folder)
    assert (proved.returncode, proved.stderr) == (0, "")


@pytest.mark.parametrize(
    ("more", "paths"),
    [
        ('[upstream]\nurl = "http://127.0.0.1:9/mcp"', ["/mcp"]),
        ('[servers.a]\nurl = "http://127.0.0.1:9/"\n[servers.b]\nurl = "http://127.0.0.1:8"', ["/mcp/a", "/mcp/b"]),
        ('[servers.a]\nurl = "http://127.0.0.1:9/mcp"\n[gateway]\nmerge = true', ["/mcp", "/mcp/a"]),
        ('[gateway]\nmerge = true\n[upstream]\nurl = "http://127.0.0.1:9/mcp"', ["/mcp"]),
        (
            '[servers.a]\nprotocol = "http"\npath = "/api/a"\nurl = "http://127.0.0.1:9/"\n'
            '[servers.b]\nprotocol = "authorize"\nproxy = "nginx"\n[servers.c]\nurl = "http://127.0.0.1:8/mcp"',
            ["/api/a", "/mcp/c"],
        ),
    ],
)  # fmt: skip
def test_up_names_endpoints_that_exist(more: str, paths: list[str], tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    file.write_text(more, "utf-8")
    assert endpoints(load(file, {}, {})) == [f"http://127.0.0.1:8484{path}" for path in paths]


def test_an_entry_whose_endpoint_is_gone_since_a_second_server_was_added_is_told__and_mended(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """The gateway answered 404 there for ever, and the doctor called it well."""
    person = Newcomer(tmp_path, free_port())
    (person.home / ".cursor").mkdir()
    with mail_server(tmp_path) as server, Up(person, person.words(server)):
        assert person.run("install", "cursor", "--config", "accredit.toml", "--yes").returncode == 0
        added = person.run("add", "calendar", server, "--name-existing", "mail")
        assert added.returncode == 0, added
        out = person.own / "grants" / "calendar.json"
        assert f"accredit grant --issuer {person.own / 'owner.key'} " in added.stdout
        assert f"--out {out}" in added.stdout
        assert person.run("reload").returncode == 0
        again = person.run("up", server, "--port", str(person.port))  # the port that it has
        assert f"{person.url}/mail, {person.url}/calendar" in again.stdout, again
        told = json.loads(person.run("doctor", "--json").stdout)["findings"]
        (bad,) = [each for each in told if each["level"] == "bad"]
        assert bad["what"].startswith(f"cursor: accredit leads to {person.url}, where the gateway has nothing: ")
        mended = subprocess.run(
            shlex.split(bad["command"]), cwd=person.work, env=environment({**person.env, "PATH": path()}),
            capture_output=True, text=True, timeout=4 * PATIENCE, check=False,
        )  # fmt: skip
        assert mended.returncode == 0, mended
        assert person.run("doctor").returncode == 0


@pytest.mark.parametrize("host", ["goose", "continue"])
def test_without_the_extra_for_yaml_every_command_names_it(host: str, tmp_path: Path) -> None:
    """The doctor said that the file should be repaired."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(name="yaml"))
    env = {
        "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "",
        "PYTHONPATH": str(tmp_path),
    }  # fmt: skip
    file = HOSTS[host].file(Places(env))
    file.parent.mkdir(parents=True)
    file.write_text("name: x\n")
    install = ("install", host, "--url", "http://127.0.0.1:9/mcp", "--dry-run")
    for words in (install, ("uninstall", host), ("install", "--list"), ("doctor",)):
        done = subprocess.run(
            [sys.executable, "-m", "accredit", *words], cwd=tmp_path, env=environment(env), capture_output=True,
            text=True, timeout=4 * PATIENCE, check=False,
        )  # fmt: skip
        told = " ".join((done.stdout + done.stderr).split())
        assert "this host's file is YAML, and PyYAML is not installed" in told, done
        assert "[hosts]'" in told, done


def test_without_the_extra_for_fastmcp_its_servers_are_checked_with_a_word_of_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(name="fastmcp"))
    (tmp_path / "server.py").write_text("from fastmcp import FastMCP\nmcp = FastMCP('mail')\n")
    done = subprocess.run(
        [sys.executable, "-m", "accredit", "check", "server:mcp"], cwd=tmp_path,
        env=environment({"PYTHONPATH": str(tmp_path)}), capture_output=True, text=True, timeout=4 * PATIENCE,
        check=False,
    )  # fmt: skip
    what, remedy = done.stderr.splitlines()[-2:]
    assert what == "error: can't get server:mcp: ModuleNotFoundError: No module named 'fastmcp'"
    assert remedy.startswith('help: install "accredit[fastmcp]"')


def test_a_first_dry_run_names_the_hosts_that_would_be_offered(tmp_path: Path, free_port: Callable[[], int]) -> None:
    (tmp_path / ".cursor").mkdir()
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    words = ("up", "http://127.0.0.1:9/mcp", "--dry-run", "--json", "--port", str(free_port()))
    done = accredit(*words, folder=tmp_path, env=env)
    assert done.returncode == 0, done
    offers = [each for each in json.loads(done.stdout)["steps"] if each["what"].startswith("offer")]
    assert [each["what"] for each in offers] == ["offer cursor an entry"]
    assert offers[0]["command"] == f"accredit install cursor --config {tmp_path}/accredit.toml"


def test_up_after_adopting_a_host_s_servers_makes_no_second_agent(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """It asked for the passphrase once more, to sign for an agent that nobody uses."""
    person = Newcomer(tmp_path, free_port())
    person.env["ACCREDIT_GATEWAY__PORT"] = str(person.port)
    host = person.home / ".cursor" / "mcp.json"
    host.parent.mkdir()
    host.write_text(json.dumps({"mcpServers": {"mail": {"command": MAIL[0], "args": MAIL[1:]}}}))
    config = str(person.home / "accredit" / "accredit.toml")
    secret = ("--passphrase-file", str(person.secret))
    adopted = person.run("install", "cursor", "--adopt", "--config", config, "--yes", *secret)
    assert adopted.returncode == 0, adopted.stderr
    plan = person.run("up", "--dry-run", "--config", config)
    assert "agent.key" not in plan.stdout
    assert "sign a delegation" not in plan.stdout
    with Up(person, ["up", "--no-browser", "--config", config]):  # and no passphrase is needed
        assert not (person.own / "agent.key").exists()
