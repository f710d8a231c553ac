"""What a folder that somebody else has filled can make the commands do, where the command line names the server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.world.command import COMMAND, Serving, accredit, environment
from tests.world.ports import reserved_port

from accredit.keys import make_key, write_key

pytestmark = pytest.mark.slow

URL = "http://127.0.0.1:9/mcp"
SERVERS = [(URL,), ("--", sys.executable, "-c", "pass")]


def untrusted(folder: Path) -> Path:
    """A checkout whose configuration overwrites a file of its victim, and whose keys and modules are traps."""
    checkout = folder / "checkout"
    checkout.mkdir()
    (folder / "precious").write_text("mine\n", "utf-8")
    write_key(checkout / "gateway.key", make_key("gateway", "trap", 1))
    done = accredit("token", "keygen", "tokens.key", folder=checkout)
    assert done.returncode == 0, done
    (checkout / "accredit.toml").write_text(
        f"""
[gateway]
path = "/trapped"
[upstream]
url = "http://127.0.0.1:9/trapped"
[tokens]
mode = "optional"
[[tokens.issuers]]
issuer = "accredit"
audience = "trap"
public_key_file = "tokens.key.pub"
[tokens.bootstrap]
key_file = "tokens.key"
secret_file = "{folder}/precious"
""",
        "utf-8",
    )
    return checkout


@pytest.mark.parametrize("server", SERVERS, ids=["url", "command"])
def test_a_configuration_that_lies_in_the_folder_overwrites_no_file_when_the_server_is_named(
    server: tuple[str, ...], tmp_path: Path
) -> None:
    checkout = untrusted(tmp_path)
    with Serving(*server, folder=checkout) as gateway:
        assert gateway.url.endswith("/mcp")
        assert "accredit.toml is not read" in gateway.stderr
        assert "--config accredit.toml" in gateway.stderr
    assert accredit("wrap", "--", "true", folder=checkout).returncode == 0
    shown = accredit("config", "show", *server, folder=checkout).stdout
    assert "trapped" not in shown
    assert "# file" not in shown
    assert (tmp_path / "precious").read_text("utf-8") == "mine\n"


def test_it_counts_where_it_is_named__and_where_nothing_else_is(tmp_path: Path) -> None:
    checkout = untrusted(tmp_path)
    told = accredit("config", "show", URL, "--config", "accredit.toml", folder=checkout)
    assert "/trapped" in told.stdout
    assert URL in told.stdout
    told = accredit("config", "show", URL, folder=checkout, env={"ACCREDIT_CONFIG": "accredit.toml"})
    assert "/trapped" in told.stdout
    assert "/trapped" in accredit("config", "show", folder=checkout).stdout
    with Serving(folder=checkout) as gateway:
        assert gateway.url.endswith("/trapped")


def test_no_key_that_lies_there_makes_up_who_the_gateway_is_or_whose_log_is_good(tmp_path: Path) -> None:
    checkout = untrusted(tmp_path)
    store = f"sqlite:///{tmp_path}/accredit.db"
    env = {"ACCREDIT_ATTEST__MODE": "durable", "ACCREDIT_STORE__URL": store}
    done = accredit("serve", URL, "--port", "0", folder=checkout, env=env)
    assert done.returncode == 2
    assert "attest.key_file" in done.stderr
    named = {**env, "ACCREDIT_ATTEST__KEY_FILE": "gateway.key"}  # who says so in the environment means it
    with Serving(URL, folder=checkout, env=named) as gateway:
        gateway.stop()
        assert gateway.wait() == 0
    done = accredit("log", "verify", "--store", store, folder=checkout)
    assert done.returncode == 2
    assert "--key gateway.key.pub, or its configuration with --config" in done.stderr
    (checkout / "accredit.toml").write_text(f'[store]\nurl = "{store}"\n', "utf-8")
    assert accredit("log", "verify", "--store", store, folder=checkout).returncode == 2
    assert accredit("log", "verify", folder=checkout).returncode == 0


def test_init_and_check_of_a_server_that_is_named_read_nothing_there(tmp_path: Path) -> None:
    checkout = untrusted(tmp_path)
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}/mcp"
        for command in (("check", url), ("init", url, "--dir", str(tmp_path / "new"))):
            done = accredit(*command, folder=checkout)
            assert done.returncode == 2
            assert "trapped" not in done.stderr


@pytest.mark.parametrize("name", ["click", "json", "uvloop", "accredit/cli/text"])
def test_python_m_accredit_imports_no_module_of_the_folder(name: str, tmp_path: Path) -> None:
    trap = tmp_path / f"{name}.py"
    trap.parent.mkdir(parents=True, exist_ok=True)
    trap.write_text("open('trapped', 'w').close()", "utf-8")
    if "/" in name:  # a package of that name would be the one that is asked for; without __init__ it is none
        assert not (tmp_path / "accredit" / "__init__.py").exists()
    with Serving(URL, folder=tmp_path, cold=True):
        assert not os.path.lexists(tmp_path / "trapped")


@pytest.mark.parametrize("what", ["pipe", "folder", "large"])
def test_a_configuration_that_is_no_file_or_has_no_end_keeps_no_command_waiting(what: str, tmp_path: Path) -> None:
    file = tmp_path / "accredit.toml"
    if what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    else:
        file.touch()
        os.truncate(file, 2**30)
    done = accredit("config", "check", folder=tmp_path)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "name a readable file" in done.stderr


def test_a_configuration_that_another_command_prints_is_read(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"[gateway]\nport = 8999\n")
    os.close(theirs)
    done = subprocess.run(
        [*COMMAND, "config", "show", "--config", f"/dev/fd/{ours}"],
        pass_fds=[ours], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    os.close(ours)
    assert "port = 8999" in done.stdout, done
