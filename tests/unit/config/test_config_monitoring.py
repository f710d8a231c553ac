"""From `[admin]` and `[telemetry]` to how a gateway is monitored."""

import sys
from pathlib import Path

import pytest

from accredit.config.listen import check_exposure
from accredit.config.load import load, load_command_line
from accredit.config.monitoring import MonitoringSettings, build_monitoring
from accredit.config.schema import Admin, Gateway
from accredit.errors import ConfigurationError

pytestmark = pytest.mark.holds("config/monitoring")


def monitoring(folder: Path, text: str) -> MonitoringSettings | None:
    file = folder / "accredit.toml"
    file.write_text(text)
    return build_monitoring(load(file, {}, {}))


def test_nobody_watches_unless_somebody_says_so(tmp_path: Path) -> None:
    assert build_monitoring(load_command_line({})) is None
    assert monitoring(tmp_path, '[admin]\nhost = "0.0.0.0"\n[telemetry]\nsample = 1\n') is None


def test_what_is_said_is_taken(tmp_path: Path) -> None:
    assert monitoring(tmp_path, "[admin]\nport = 9464\n") == MonitoringSettings(
        ("127.0.0.1", 9464), "", 0.01, "accredit"
    )
    text = '[telemetry]\nendpoint = "http://c:4318/x/"\nsample = 1\nservice_name = "mail"\n'
    assert monitoring(tmp_path, text) == MonitoringSettings(None, "http://c:4318/x", 1.0, "mail")


@pytest.mark.parametrize(
    "text",
    [
        '[telemetry]\nendpoint = "http://c:4318?key=secret"\n',
        '[telemetry]\nendpoint = "http://user:secret@c:4318"\n',
        '[telemetry]\nendpoint = "file:///tmp/secret"\n',
        "[telemetry]\nsample = 1.5\n",
        "[telemetry]\nsample = -0.1\n",
        "[telemetry]\nsample = nan\n",
        "[admin]\nport = 65536\n",
        '[admin]\npassword = "secret"\n',
    ],
)
def test_what_can_t_be_used_is_an_error_that_quotes_no_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        monitoring(tmp_path, text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "text", "key"),
    [
        ("prometheus_client", "[admin]\nport = 0\n", "admin.port"),
        ("opentelemetry", '[telemetry]\nendpoint = "http://127.0.0.1:4318"\n', "telemetry.endpoint"),
        ("opentelemetry.proto", '[telemetry]\nendpoint = "http://127.0.0.1:4318"\n', "telemetry.endpoint"),
    ],
)
def test_without_the_libraries_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str, key: str
) -> None:
    for name in [module, *(each for each in sys.modules if each.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError) as refused:
        monitoring(tmp_path, text)
    assert refused.value.what.startswith(f"{key} is set, and {module.partition('.')[0].replace('_', '-')} is not")
    assert 'install "accredit[telemetry]"' in refused.value.remedy


def test_the_admin_listener_is_not_exposed_without_tls() -> None:
    loopback, outside = Admin(port=1), Admin(host="0.0.0.0", port=1)
    check_exposure(Gateway(), loopback)
    check_exposure(Gateway(), Admin(host="0.0.0.0"))  # it does not listen
    check_exposure(Gateway(tls_cert_file="c", tls_key_file="k"), outside)
    with pytest.raises(ConfigurationError, match=r"^admin\.host is 0\.0\.0\.0"):
        check_exposure(Gateway(), outside)
