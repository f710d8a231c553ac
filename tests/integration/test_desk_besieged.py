"""The desk's process, besieged: by its environment, by programs that ask without end, by strangers at its port."""

import http.client
import socket
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.world.browser import chromium
from tests.world.command import accredit, wait_until
from tests.world.desk import Agent, Desk, Line
from tests.world.household import told_by
from tests.world.raw_server import PATIENCE

from accredit.console.admission import EVERY_ANSWER
from accredit.console.serving import MAX_PAGE_CONNECTIONS
from accredit.console.socket import MAX_ASKING_CONNECTIONS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("console/browser"),
    pytest.mark.holds("console/serving"),
    pytest.mark.holds("console/serving"),
    pytest.mark.holds("console/socket"),
]


def memory_kib(desk: Desk) -> int:
    status = Path(f"/proc/{desk.process.pid}/status").read_text("utf-8")
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.holds("console/serving", "shutdown")
def test_a_browser_that_stays_in_the_foreground_keeps_no_desk_from_ending(tmp_path: Path) -> None:
    program, opened = tmp_path / "browser", tmp_path / "opened"
    program.write_text(f"#!/bin/sh\ntouch {opened}\nexec sleep 120\n")
    program.chmod(0o755)
    with Desk(tmp_path, env={"BROWSER": str(program)}) as desk:
        wait_until(opened.exists)
        assert desk.stop() == 0


def test_a_folder_that_is_not_the_desks_keeps_its_mode__it_may_be_everybodys(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    env = Desk(tmp_path).env | {"ACCREDIT_DESK_SOCKET": str(shared / "desk.sock")}
    done = accredit("desk", "--port", "0", "--no-browser", folder=tmp_path, env=env)
    assert (done.returncode, "can be entered by others" in done.stderr) == (2, True)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


@pytest.mark.holds("console/socket", "bounds")
@pytest.mark.holds("console/socket", "permissions")
def test_what_is_no_socket_is_not_removed_for_one__it_may_be_the_persons_letters(tmp_path: Path) -> None:
    letters = tmp_path / "own" / "letters.txt"
    letters.parent.mkdir(mode=0o700)
    letters.write_text("Dear Ada", "utf-8")
    env = Desk(tmp_path).env | {"ACCREDIT_DESK_SOCKET": str(letters)}
    done = accredit("desk", "--port", "0", "--no-browser", folder=tmp_path, env=env)
    assert (done.returncode, "is no socket" in done.stderr) == (2, True)
    assert letters.read_text("utf-8") == "Dear Ada"


def test_one_call_made_a_hundred_times_at_once_leaves_room_for_the_persons_commands(desk: Desk) -> None:
    ask = Agent().ask()
    with ExitStack() as stack:
        told = [stack.enter_context(Line(desk.socket)).tell({"ask": ask.to_dict()}) for _ in range(110)]
        assert [each.get("state") for each in told].count("pending") == MAX_ASKING_CONNECTIONS
        assert {each["error"] for each in told if "error" in each} == {"busy"}
        assert accredit("deny", ask.code, folder=desk.folder, env=desk.env).returncode == 0


def test_a_call_that_is_denied_unseen_without_end_takes_no_memory(desk: Desk) -> None:
    agent, params = Agent(), {"name": "x", "arguments": {"b": "y" * 60_000}}
    ask = agent.ask(params)
    desk.tell({"ask": ask.to_dict()})
    desk.tell({"deny": ask.code})

    def again() -> None:
        assert line.tell({"ask": agent.ask(params).to_dict()})["state"] == "denied"
        assert line.next()["answer"]["decision"] == "deny"

    with Line(desk.socket) as line:
        for _ in range(40):
            again()
        before = memory_kib(desk)
        for _ in range(160):
            again()
        assert memory_kib(desk) - before < 160 * 60 / 2


@pytest.mark.holds("console/serving", "bound")
def test_strangers_who_hold_connections_to_the_page_make_room(desk: Desk) -> None:
    with ExitStack() as stack:
        for _ in range(2 * MAX_PAGE_CONNECTIONS):
            stack.enter_context(socket.create_connection(("127.0.0.1", desk.port))).sendall(b"GET / HTTP/1.1\r\nHo")
        connection = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=PATIENCE)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert (answer.status, b"accredit desk" in answer.read()) == (200, True)
        connection.close()


@pytest.mark.holds("console/serving", "bound", "idle")
@pytest.mark.parametrize("how", ["asks without end and reads nothing", "never ends its request"])
def test_strangers_who_keep_the_page_at_work_make_room_as_well(desk: Desk, how: str) -> None:
    host, origin = f"Host: 127.0.0.1:{desk.port}", f"Origin: {desk.url}"
    write = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: 4000"
    asked = {
        "asks without end and reads nothing": f"GET /static/desk.css HTTP/1.1\r\n{host}\r\n\r\n" * 5_000,
        "never ends its request": f"POST /api/login HTTP/1.1\r\n{host}\r\n{origin}\r\n{write}\r\n\r\n",
    }[how].encode()
    page = told_by(desk)
    with ExitStack() as stack:
        for _ in range(MAX_PAGE_CONNECTIONS + 10):
            stranger = stack.enter_context(socket.socket())
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            stranger.connect(("127.0.0.1", desk.port))
            stranger.setblocking(False)
            with suppress(OSError):
                stranger.send(asked)
        for _ in range(3):
            assert page.get("/api/people")[0] == 200


@pytest.mark.holds("console/serving", "not-http")
@pytest.mark.parametrize("head", [b"GET / HTTP/9\r\nx\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"x" * 70_000])
def test_what_is_no_http_has_the_headers_of_every_answer__and_the_terminal_says_nothing_of_it(
    desk: Desk, head: bytes
) -> None:
    before = desk.stderr
    with socket.create_connection(("127.0.0.1", desk.port), PATIENCE) as connection:
        connection.sendall(head)
        answer = b""
        while part := _received(connection):
            answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    for name, value in EVERY_ANSWER:
        assert name + b": " + value in answer
    assert desk.stderr == before  # anybody on the machine could fill the person's terminal, or the log of a desk


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""


def test_values_that_stand_deep_are_not_shown_alike(desk: Desk) -> None:
    def nested(value: Any) -> dict[str, Any]:
        for name in "fedcba":
            value = {name: value}
        return {"name": "x", "arguments": value}

    seen = set[str]()
    with chromium() as browser:
        context = browser.new_context()
        page = desk.page(context)
        for value in ({"x": {"y": {"k": 1, "z": 1}}}, {"x": {"y": {"k": 1}, "z": 1}}, {"x": {"y": {}, "k": 1, "z": 1}}):
            ask = Agent().ask(nested(value))
            desk.tell({"ask": ask.to_dict()})
            page.goto(f"{desk.url}/a/{ask.code}")
            page.wait_for_selector(".args dl")
            seen.add(page.inner_text(".args"))
        context.close()
    assert len(seen) == 3
