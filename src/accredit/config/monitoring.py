"""Builds the settings for monitoring a gateway, from `[admin]` and `[telemetry]`. Checks whether libraries are
installed.

Each failure is a `ConfigurationError` that names the setting at fault.
"""

from typing import NamedTuple

from accredit.base.addresses import is_loopback_host
from accredit.base.deferred import require_extra
from accredit.config.load import Loaded
from accredit.errors import ConfigurationError

_ADMIN = ("prometheus_client",)
_TELEMETRY = ("opentelemetry.proto",)


class MonitoringSettings(NamedTuple):
    """How a gateway is monitored. `admin` is the admin listener's address, if any; `endpoint` is the collector's URL,
    or ""."""

    admin: tuple[str, int] | None
    endpoint: str
    sample: float
    service_name: str

    @property
    def outside(self) -> bool:
        """Whether other machines can reach the admin listener."""
        return self.admin is not None and not is_loopback_host(self.admin[0])


def build_monitoring(loaded: Loaded) -> MonitoringSettings | None:
    """Return how a gateway is monitored, or None. Raises `ConfigurationError`."""
    admin, telemetry = loaded.config.admin, loaded.config.telemetry
    endpoint = telemetry.endpoint or ""
    if "?" in endpoint:
        raise ConfigurationError(
            "telemetry.endpoint has a query, and /v1/traces and /v1/metrics are put behind it",
            "name the collector's base URL, such as http://127.0.0.1:4318",
        )
    _check_installed("admin.port", _ADMIN if admin.port is not None else ())
    _check_installed("telemetry.endpoint", _TELEMETRY if endpoint else ())
    if admin.port is None and not endpoint:
        return None
    return MonitoringSettings(
        (admin.host, admin.port) if admin.port is not None else None,
        endpoint.rstrip("/"),
        telemetry.sample,
        telemetry.service_name,
    )


def _check_installed(key: str, modules: tuple[str, ...]) -> None:
    for module in modules:
        library = module.partition(".")[0].replace("_", "-")
        require_extra(module, "telemetry", f"{key} is set, and {library} is not installed")
