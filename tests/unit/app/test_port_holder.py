"""Which `accredit` holds a port, from a made-up `/proc` and from the real one."""

import socket
from pathlib import Path

import pytest

from accredit.app.port_holder import find_holder

PORT = 8_400
LINE = (
    "   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1\n"
)


def make_proc(folder: Path, processes: dict[int, list[str]], *, state: str = "0A", port: int = PORT) -> Path:
    """A `/proc` in which each of these processes has the socket 77 open."""
    (folder / "net").mkdir()
    (folder / "net/tcp").write_text("  sl  local_address\n" + LINE.format(port=port, state=state, inode=77))
    for pid, words in processes.items():
        own = folder / str(pid)
        (own / "fd").mkdir(parents=True)
        (own / "fd/3").symlink_to("socket:[77]")
        (own / "cwd").symlink_to("/srv")
        (own / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    return folder


@pytest.mark.parametrize(
    ("words", "described"),
    [
        (
            ["/venv/bin/python", "/venv/bin/accredit", "serve", "--config", "mail/accredit.toml"],
            "`accredit serve` holds it (process 999999, which serves /srv/mail/accredit.toml)",
        ),
        (["python", "-P", "-m", "accredit", "serve", "--config=/etc/a.toml"],
         "`accredit serve` holds it (process 999999, which serves /etc/a.toml)"),
        (["/venv/bin/accredit", "demo"], "`accredit demo` holds it (process 999999)"),
        (["accredit", "serve", "https://me:secret@example.com/mcp"], "`accredit serve` holds it (process 999999)"),
        (["accredit", "serve", "--config", "\x1b[2J"],
         "`accredit serve` holds it (process 999999, which serves /srv/\\x1b[2J)"),
        (["nginx", "-g", "accredit"], None),
        (["accredit"], None),
    ],
)  # fmt: skip
def test_what_holds_a_port_is_told_by_process_command_and_configuration_alone(
    words: list[str], described: str | None, tmp_path: Path
) -> None:
    found = find_holder(PORT, make_proc(tmp_path, {999_999: words}))
    assert (str(found) if found is not None else None) == described


def test_of_workers_the_one_that_started_them_is_named(tmp_path: Path) -> None:
    found = find_holder(PORT, make_proc(tmp_path, {999_999: ["accredit", "serve"], 999_998: ["accredit", "serve"]}))
    assert found is not None
    assert found.pid == 999_998


@pytest.mark.parametrize(("state", "port"), [("01", PORT), ("0A", PORT + 1)])
def test_a_socket_of_another_port_or_that_does_not_listen_is_nobody_s(state: str, port: int, tmp_path: Path) -> None:
    processes = {999_999: ["accredit", "serve"]}
    assert find_holder(PORT, make_proc(tmp_path, processes, state=state, port=port)) is None


def test_where_nothing_can_be_read_nothing_is_found(tmp_path: Path) -> None:
    assert find_holder(PORT, tmp_path) is None
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text("head\nno such line\n")
    assert find_holder(PORT, tmp_path) is None
    make = tmp_path / "other"
    make.mkdir()
    make_proc(make, {999_999: ["accredit", "serve"]})
    (make / "999999/cmdline").unlink()
    assert find_holder(PORT, make) is None


def test_this_process_is_not_the_one_that_holds_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert find_holder(listener.getsockname()[1]) is None
