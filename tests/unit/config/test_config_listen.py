"""Where the gateway may listen, and with which certificate."""

import os
import ssl
import stat
from pathlib import Path

import pytest
from tests.world.certificates import write_certificate

from accredit.base.addresses import is_loopback_host
from accredit.config.listen import check_exposure, check_no_loop, tls_context
from accredit.config.schema import Gateway
from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream

pytestmark = pytest.mark.holds("config/listen")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert is_loopback_host(host)
    check_exposure(Gateway(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", "localhost.example.com", "0", "127.1"])
def test_anything_else_does(host: str) -> None:
    assert not is_loopback_host(host)
    with pytest.raises(ConfigurationError, match="TLS"):
        check_exposure(Gateway(host=host))
    check_exposure(Gateway(host=host, tls_cert_file="c", tls_key_file="k"))


def configured(folder: Path) -> Gateway:
    return Gateway(tls_cert_file=str(folder / "cert.pem"), tls_key_file=str(folder / "key.pem"))


def test_a_certificate_and_its_key(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    context = tls_context(configured(tmp_path))
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert tls_context(Gateway()) is None


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o610, 0o602, 0o777])
def test_a_key_that_others_can_touch_is_refused(mode: int, tmp_path: Path) -> None:
    write_certificate(tmp_path)
    (tmp_path / "key.pem").chmod(mode)
    with pytest.raises(ConfigurationError, match=f"{mode:04o}"):
        tls_context(configured(tmp_path))


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_of_one_user_is_not(mode: int, tmp_path: Path) -> None:
    write_certificate(tmp_path)
    (tmp_path / "key.pem").chmod(mode)
    assert stat.S_IMODE(os.stat(tmp_path / "key.pem").st_mode) == mode
    assert tls_context(configured(tmp_path))


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    (tmp_path / "cert.pem").write_text("nothing", "ascii")
    with pytest.raises(ConfigurationError, match=r"can't be used: (?!None)"):
        tls_context(configured(tmp_path))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    write_certificate(tmp_path, password=b"secret")
    with pytest.raises(ConfigurationError, match=r"can't be used: (?!None)"):
        tls_context(configured(tmp_path))


def test_a_key_that_is_not_pem_is_refused(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    (tmp_path / "key.pem").write_text('{"kind":"gateway"}', "ascii")
    with pytest.raises(ConfigurationError, match=r"can't be used: one of them is no such file"):
        tls_context(configured(tmp_path))


@pytest.mark.parametrize(
    ("host", "url", "is_itself"),
    [
        ("127.0.0.1", "http://127.0.0.1:8484/mcp", True),
        ("127.0.0.1", "http://localhost:8484/mcp/a", True),
        ("0.0.0.0", "https://127.0.0.1:8484/x", True),
        ("::", "http://[::1]:8484/mcp", True),
        ("gate.example", "http://Gate.example:8484/mcp", True),
        ("127.0.0.1", "http://127.0.0.1:8485/mcp", False),
        ("127.0.0.1", "http://127.0.0.2:8484/mcp", False),
        ("127.0.0.1", "http://gate.example:8484/mcp", False),
        ("0.0.0.0", "http://10.0.0.7:8484/mcp", False),
        *(
            ("127.0.0.1", f"http://{each}:8484/mcp", True)
            for each in ("127.1", "0x7f000001", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]")
        ),
        ("::1", "http://[::]:8484/mcp", True),
        *((each, "http://127.0.0.1:8484/mcp", True) for each in ("::ffff:127.0.0.1", "127.1", "0", "::0")),
        ("0:0:0:0:0:0:0:1", "http://[::1]:8484/mcp", True),
        ("127.0.0.1", "http://localhost.:8484/mcp", True),
        ("gate.example.", "http://gate.example:8484/mcp", True),
        ("127.0.0.1", "http://[::1]:8484/mcp", False),
    ],
)
def test_a_server_that_is_the_gateway_itself_would_make_one_request_fill_all_of_its_room(
    host: str, url: str, is_itself: bool
) -> None:
    servers = [GatewaySettings(HttpUpstream("http://a:1/", {}, (url,)), "b", "/mcp/b")]
    if is_itself:
        with pytest.raises(ConfigurationError, match=r"servers\.b: its URL leads to this gateway"):
            check_no_loop(Gateway(host=host), servers)
    else:
        check_no_loop(Gateway(host=host), servers)
