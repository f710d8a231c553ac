"""The real commands about delegations: as processes, at a terminal, several at once, and beside other software."""

import json
import os
import pty
import subprocess
from codecs import getincrementaldecoder
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.world.command import COMMAND, accredit, environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import Warm

from accredit.keys import DelegationFile

pytestmark = pytest.mark.slow

SENSITIVE = ("grant", "--issuer", "owner.key", "--agent", "agent.key.pub", "--scope", "files:write", "--out", "d.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for key in (("owner.key", "--kind", "human", "--no-passphrase"), ("agent.key", "--kind", "agent")):
        done = accredit("keys", "new", *key, folder=tmp_path)
        assert done.returncode == 0, done
    return tmp_path


def at_a_terminal(arguments: Sequence[str], answer: str, folder: Path) -> tuple[int, str]:
    """Runs a command whose stdin, stdout and stderr are a terminal; answers its question. Returns code and screen."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=environment({"TERM": "xterm"}), stdin=terminal, stdout=terminal,
        stderr=terminal, start_new_session=True,
    ) as child:  # fmt: skip
        os.close(terminal)
        try:
            screen, answered = "", False
            decoder = getincrementaldecoder("utf-8")()  # a piece may end within a character
            while piece := _read(controller):
                screen += decoder.decode(piece)
                if "[y/N]" in screen and not answered:
                    os.write(controller, answer.encode())
                    answered = True
            return child.wait(PATIENCE), screen
        finally:
            child.kill()
            os.close(controller)


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65_536)
    except OSError:  # the other side is closed
        return b""


def test_a_person_is_asked_before_something_sensitive_is_signed(folder: Path) -> None:
    code, screen = at_a_terminal(SENSITIVE, "n\n", folder)
    assert code == 1
    assert "files:write is sensitive" in screen
    assert "owner (" in screen
    assert "agent (" in screen
    assert not (folder / "d.json").exists()
    code, screen = at_a_terminal(SENSITIVE, "y\n", folder)
    assert code == 0
    assert "\x1b[32md.json" in screen
    assert DelegationFile.decode((folder / "d.json").read_bytes()).delegations[0].scope == ("files:write",)


def test_nobody_is_asked_about_what_would_be_refused(folder: Path) -> None:
    refused = (*SENSITIVE[:-2], "--resource", "a:/../b", "--out", "d.json")
    code, screen = at_a_terminal(refused, "y\n", folder)
    assert code == 2
    assert "[y/N]" not in screen


def test_a_question_that_is_interrupted_signs_nothing(folder: Path) -> None:
    code, _ = at_a_terminal(SENSITIVE, "\x04", folder)
    assert code == 1
    assert not (folder / "d.json").exists()


def test_no_revocation_is_lost_when_several_revoke_at_once(folder: Path) -> None:
    ids = [f"certificate-{number}" for number in range(6)]
    children = [
        Warm(
            [*COMMAND, "revoke", cert_id, "--issuer", "owner.key", "--list", "revoked.json"],
            cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for cert_id in ids
    ]  # fmt: skip
    assert [child.wait(PATIENCE) for child in children] == [0] * len(ids)
    shown = accredit("inspect", "revoked.json", "--key", "owner.key.pub", "--json", folder=folder)
    assert sorted(json.loads(shown.stdout)["revoked_certs"]) == ids
    assert json.loads(shown.stdout)["signatures_good"] is True


def test_the_published_package_accepts_what_is_granted(folder: Path) -> None:
    peer = pytest.importorskip("ratify_protocol")
    done = accredit(
        *SENSITIVE[:-4], "--scope", "comms:email:send", "--rate", "10/1h", "--max-amount", "99.50EUR",
        "--between", "09:00-17:00@Europe/Berlin", "--resource", "git:acme:/src", "--out", "d.json", folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done
    (cert,) = json.loads((folder / "d.json").read_bytes())["delegations"]
    decoded = peer.decode_delegation_cert(json.dumps(cert))
    assert peer.verify_delegation_signature(decoded) is True
