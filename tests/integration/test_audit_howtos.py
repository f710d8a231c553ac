"""An auditor's scripts without a line of ours verify what we export, and notice a change."""

import base64
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.test_record_log_file import make_log, pruned
from tests.unit.policy.test_evidence import changes
from tests.unit.ratify.world import AGENT, HUMAN, chain
from tests.world.logs import Log
from tests.world.records import NOW_MS, gateway
from tests.world.signed_calls import SignedCall, lied, said, signed_call

from accredit.attest import CallBundle, Stored, encode_call_bundle, encode_envelope, encode_statement
from accredit.keys import KeyKind, PrivateKeyFile, log_signer, make_key
from accredit.keys.formats import KEY_FILE_VERSION, KeyFile
from accredit.stores.audit_log.reader import LogFile

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/how-to/verify-without-accredit.md").read_text("utf-8")


@pytest.fixture
def export(tmp_path: Path) -> list[bytes]:
    make_log(tmp_path / "accredit.db", 5)
    return exported(tmp_path / "accredit.db")


def exported(path: Path) -> list[bytes]:
    with LogFile(path) as log_file:
        return [encode_envelope(each.entry.envelope) for each in log_file.entries() if isinstance(each.entry, Stored)]


def verified_by_the_script(folder: Path, lines: list[bytes]) -> subprocess.CompletedProcess[str]:
    (folder / "verify.py").write_text(script("verify_log.py"), "utf-8")
    (folder / "calls.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    _, key = gateway()
    (folder / "gateway.key.pub").write_bytes(key_file(key.id, key.ed25519))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-I", "verify.py", "calls.jsonl", "gateway.key.pub"],
        check=False, capture_output=True, text=True, cwd=folder, timeout=30,
    )  # fmt: skip


def script(name: str) -> str:
    """A script of the page, with nothing of ours in it."""
    found = re.search(rf"<!-- {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert found
    assert "accredit" not in [word for line in found[1].splitlines() for word in line.split() if "import" in line]
    return found[1]


def key_file(key_id: str, ed25519: bytes) -> bytes:
    encoded = base64.b64encode(ed25519).decode()
    return f'{{"id": "{key_id}", "public_key": {{"ed25519": "{encoded}"}}}}'.encode()


def test_a_script_with_securesystemslib_alone_verifies_an_export(tmp_path: Path, export: list[bytes]) -> None:
    done = verified_by_the_script(tmp_path, export)
    assert (done.returncode, done.stdout) == (0, "ok: 10 records\n"), done.stderr


def test_that_script_notices_a_record_that_is_missing(tmp_path: Path, export: list[bytes]) -> None:
    done = verified_by_the_script(tmp_path, [*export[:3], *export[4:]])
    assert done.returncode == 1
    assert "broken at" in done.stderr


async def test_that_script_goes_on_from_a_note_of_pruning__and_takes_one_at_the_beginning_only(tmp_path: Path) -> None:
    now = [NOW_MS]

    async with Log(tmp_path / "accredit.db", clock=lambda: now[0]) as each:
        await each.call()
        now[0] += 1_000
        await each.call()
        await each.call()
    assert pruned(tmp_path / "accredit.db", NOW_MS + 500) == 2
    note, *records = exported(tmp_path / "accredit.db")
    done = verified_by_the_script(tmp_path, [note, *records])
    assert (done.returncode, done.stdout) == (0, "ok: 6 records\n"), done.stderr
    for lines in ([note, *records[1:]], [*records, note], [note, *records[:2], note, *records[2:]], records):
        done = verified_by_the_script(tmp_path, lines)
        assert (done.returncode, "broken at" in done.stderr) == (1, True)


GATE = make_key("gateway", "mail", 1)


def write_call(folder: Path, call: SignedCall, gate: PrivateKeyFile = GATE) -> None:
    """The script and its files; the call as its gateway records it."""
    envelope = log_signer(gate).record(encode_statement(call.decision))
    bundle = CallBundle((envelope,), call.certificates, proof=call.proof)
    (folder / "call.json").write_bytes(encode_call_bundle(bundle))
    (folder / "gateway.key.pub").write_bytes(GATE.public().text())
    kinds: dict[str, KeyKind] = {"owner": "human", "agent": "agent"}
    for name, key in (("owner", HUMAN), ("agent", AGENT)):
        shown = {"owner": "Ada", "agent": "Assistant"}[name]
        about = KeyFile(KEY_FILE_VERSION, kinds[name], shown, key.id, 1, key.public_key)
        (folder / f"{name}.key.pub").write_bytes(about.text())
    (folder / "verify_call.py").write_text(script("verify_call.py"), "utf-8")


def the_call(**signed: str) -> SignedCall:
    """The call of the page, with other members of what was signed."""
    made = signed_call(chain(1), AGENT, verifier_id="mail", resource_id="send_email", **signed)
    return said(made, gateway="mail", verifier_id="mail", target="send_email")


def test_a_script_with_cryptography_alone_says_who_allowed_a_call_and_who_signed_it(tmp_path: Path) -> None:
    write_call(tmp_path, the_call())
    command = next(line for line in PAGE.splitlines() if line.startswith("python verify_call.py"))
    done = subprocess.run(
        [sys.executable, "-I", "-O", "-W", "error", *command.split()[1:]],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert f"```text\n{done.stdout}```" in PAGE


def verdict(folder: Path, monkeypatch: pytest.MonkeyPatch, bundle: str = "call.json") -> str:
    """How the script ends, in this process: it is started some two hundred times."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["verify_call.py", bundle, "gateway.key.pub", "owner.key.pub"])
    try:
        runpy.run_path("verify_call.py")
    except SystemExit as end:
        return str(end.code)
    except Exception as error:
        return type(error).__name__
    return "ok"


def test_that_script_is_satisfied_by_honest_calls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is changed of what is kept, by whoever has the gateway's key and can write the record to match."""
    for honest in (the_call(), signed_call(), signed_call(chain(3))):
        write_call(tmp_path, honest)
        assert verdict(tmp_path, monkeypatch) == "ok"
    good = the_call()
    certificates, proof = json.loads(good.certificates or b""), json.loads(good.proof or b"")
    wrong = [
        *(lied(good, certificates=each) for what, each in changes(certificates) if "in another order" not in what),
        *(lied(good, proof=each) for _, each in changes(proof)),
        good._replace(proof=signed_call(chain(1), AGENT, verifier_id="mail", resource_id="other").proof),
        said(good, subject="ab" * 32, call_sha256="ab" * 32),
        *(said(good, **{name: "other"}) for name in ("target", "session", "gateway", "scope", "granted_scope")),
        said(good, received="2027-01-15T12:00:00.000Z"),
        *(the_call(**{name: "/"}) for name in ("requested_path", "workspace_id", "invocation_id")),
        said(good, method="tasks/get"),
        said(good, granted_scope=None),
    ]
    capsys.readouterr()
    for each in wrong:
        write_call(tmp_path, each)
        assert verdict(tmp_path, monkeypatch) != "ok", each
    write_call(tmp_path, good, make_key("gateway", "mail", 1))
    assert verdict(tmp_path, monkeypatch) == "InvalidSignature", "a record of somebody else"
    assert capsys.readouterr().out == "", "nobody is named before all was checked"
