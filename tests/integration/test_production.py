"""`accredit doctor --production` beside a gateway that runs: it asks that very gateway, and sees its processes."""

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.world.certificates import write_certificate
from tests.world.command import Serving, accredit

from accredit.config.load import load
from accredit.keys import make_key, write_key
from accredit.ops.doctor.engine import Unknown
from accredit.ops.doctor.production.facts import HealthReport
from accredit.ops.doctor.production.running import health_found, listens_outside, processes_found

pytestmark = [pytest.mark.holds("ops/doctor/production/running")]

CONFIGURATION = """
[gateway]
port = {port}
allowed_hosts = ["mcp.example.org"]
tls_cert_file = "cert.pem"
tls_key_file = "key.pem"

[upstream]
url = "http://127.0.0.1:9/mcp"

[proofs]
mode = "required"
roots = [{{ name = "Owner", public_key_file = "owner.key.pub" }}]

[store]
url = "sqlite:///accredit.db"

[attest]
mode = "durable"
key_file = "gateway.key"
"""


@pytest.mark.slow
def test_the_gateway_that_runs_is_asked_and_no_other(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    write_key(tmp_path / "gateway.key", make_key("gateway", "mail", 1))
    write_key(tmp_path / "owner.key", make_key("human", "Owner", 1))
    file = tmp_path / "accredit.toml"
    file.write_text(CONFIGURATION.format(port=1))
    with Serving("--config", str(file), folder=tmp_path) as serving:
        file.write_text(CONFIGURATION.format(port=serving.port))
        told = checks(tmp_path)
        assert told["production.ready"]["state"] == "no"
        assert "not well: upstream" in told["production.ready"]["what"]
        assert re.search(rf"\b{os.geteuid()}\b|as root", told["production.user"]["what"])
        assert told["production.descriptors"]["state"] == "ok"
        assert told["production.schema"]["state"] == "ok"
        found = processes_found(load(file, {}, {}).config)
        assert not isinstance(found, Unknown)
        assert serving.process.pid in {each.pid for each in found}

        assert told["production.keys"]["what"].startswith("the root Owner: its private half is on this machine")
        assert listens_outside(load(file, {}, {}).config) is False

        (tmp_path / "key.pem").unlink()
        write_certificate(tmp_path)
        other = health_found(load(file, {}, {}).config)
        assert isinstance(other, Unknown)
        assert "another certificate" in other.why
    gone = health_found(load(file, {}, {}).config)
    assert not isinstance(gone, HealthReport)


@pytest.mark.parametrize(("address", "is_outside"), [("127.0.0.2", False), ("0.0.0.0", True), ("::1", False)])
def test_what_listens_outside_is_seen__whatever_the_configuration_says(
    address: str, is_outside: bool, tmp_path: Path
) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((address, 0))
        listener.listen()
        (tmp_path / "accredit.toml").write_text(CONFIGURATION.format(port=listener.getsockname()[1]))
        assert listens_outside(load(tmp_path / "accredit.toml", {}, {}).config) is is_outside


def checks(folder: Path) -> dict[str, dict[str, Any]]:
    done = accredit("doctor", "--production", "--json", "--config", "accredit.toml", folder=folder)
    assert done.returncode == 1, done.stderr
    return {each["id"]: each for each in json.loads(done.stdout)["checks"]}
