"""What may change when a running gateway reads its configuration again, and what did change. No I/O but that of
`ReadFiles`.

Some things are decided once, when the gateway starts: where it listens, where it keeps its state, who it is, who signs
its log, and how it is monitored. A file that changes one of them is refused as a whole.
"""

from collections.abc import Iterator, Sequence

from accredit.base.text import one_line
from accredit.base.toml import read_toml
from accredit.config.attest import build_log_signer, gateway_id
from accredit.config.load import Loaded
from accredit.config.schema import SECTIONS, Gateway
from accredit.errors import ConfigurationError
from accredit.keys import ReadFiles, reading
from accredit.limits import MAX_RELOAD_TEXT

MAX_RELOAD_CHANGES = 40
"""How many changed keys are named. The rest are only counted."""


_FIXED = {
    "gateway": ("host", "port"),
    "store": ("url", "replicas", "max_spent", "password"),
    "attest": ("mode", "key_file", "signer", "signer_public_key_file", "public_key_files"),
    "tokens": ("bootstrap",),
    "admin": ("host", "port"),
    "telemetry": ("endpoint", "sample", "service_name"),
}
"""Keys that need a restart, by section."""


def check_fixed(before: Loaded, was: ReadFiles, after: Loaded, files: ReadFiles) -> None:
    """Refuse a change of keys that need a restart. `was` and `files` are the files read for the configurations `before`
    and `after`. Raises `ConfigurationError`."""
    for section, names in _FIXED.items():
        for name in names:
            if getattr(getattr(before.config, section), name) != getattr(getattr(after.config, section), name):
                raise _fixed_key_error(f"{section}.{name}")
    for name in _FIXED["gateway"]:  # also where the command line or the environment has another
        if _value_in_file(before, name) != _value_in_file(after, name):
            raise _fixed_key_error(f"gateway.{name}")
    if (before.config.gateway.tls_cert_file is None) != (after.config.gateway.tls_cert_file is None):
        raise _fixed_key_error("gateway.tls_cert_file", "switches TLS on or off")
    old, new = _identity(before, was), _identity(after, files)
    if before.config.gateway.id != after.config.gateway.id and (not old[0] or old[0] != new[0]):
        raise _fixed_key_error("gateway.id")
    if old[0] and old[0] != new[0]:
        raise _fixed_key_error("gateway.id", "is that of another key now")
    if old[1] != new[1]:
        raise _fixed_key_error("attest.key_file", "holds another key")


def changes(before: Loaded, after: Loaded) -> Iterator[str]:
    """Yield the names of keys whose values differ. Values are not included: they may be secret or long."""
    for section in SECTIONS:
        old, new = dict(getattr(before.config, section).items()), dict(getattr(after.config, section).items())
        for key in dict.fromkeys((*new, *old)):
            if key not in old:
                yield f"{section}.{key} (added)"
            elif key not in new:
                yield f"{section}.{key} (removed)"
            elif old[key] != new[key]:
                yield f"{section}.{key}"


def in_short(names: Sequence[str]) -> str:
    """Return names in one line of bounded length."""
    more = f" and {len(names) - MAX_RELOAD_CHANGES} more" if len(names) > MAX_RELOAD_CHANGES else ""
    return one_line(", ".join(names[:MAX_RELOAD_CHANGES]))[: MAX_RELOAD_TEXT // 4] + more


def _value_in_file(loaded: Loaded, name: str) -> object:
    """Return a key of `[gateway]` as the file has it, else its default. The environment and the command line are
    ignored."""
    gateway: dict[str, object] = read_toml(loaded.content).get("gateway", {})
    return gateway.get(name, getattr(Gateway(), name))


def _identity(loaded: Loaded, files: ReadFiles) -> tuple[str, str]:
    """Return the ids of the gateway and of the key that signs its log, "" for a missing one."""
    with reading(files):
        try:
            id = gateway_id(loaded)
        except ConfigurationError:
            id = ""
        return id, build_log_signer(loaded).id if loaded.config.attest.mode != "off" else ""


def _fixed_key_error(key: str, how: str = "is another") -> ConfigurationError:
    return ConfigurationError(
        f"{key} {how}, and what it was holds until the gateway is started anew",
        "put back what was there, or restart the gateway",
    )
