"""Where the gateway may listen, and with which certificate. Reads the certificate and its key.

Outside loopback, a token or a proof in the clear belongs to whoever reads the network. So TLS is required, or the
operator's word (`--insecure`) that something else provides it.
"""

import os
import ssl
from pathlib import Path

from accredit.base.addresses import is_loopback_host
from accredit.base.text import one_line
from accredit.config.schema import Gateway
from accredit.errors import ConfigurationError

_OTHERS = 0o077
"""The permission bits of group and others: mode 0600 or stricter."""


def check_exposure(gateway: Gateway) -> None:
    """Refuse to listen in the clear outside loopback. Raises `ConfigurationError`."""
    if not is_loopback_host(gateway.host) and gateway.tls_cert_file is None:
        raise ConfigurationError(
            one_line(f"gateway.host is {gateway.host}: others could read and change what passes without TLS"),
            "set gateway.tls_cert_file and tls_key_file, or say --insecure behind a proxy that does TLS",
        )


def tls_context(gateway: Gateway) -> ssl.SSLContext | None:
    """Return the server's side of TLS 1.2 and later, or None if not configured. Raises `ConfigurationError`."""
    certificate, key = gateway.tls_cert_file, gateway.tls_key_file
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        present, missing = ("cert", "key") if key is None else ("key", "cert")
        raise ConfigurationError(
            f"gateway.tls_{present}_file is set and gateway.tls_{missing}_file is not",
            f"set gateway.tls_{missing}_file too, or neither",
        )
    _check_readable("tls_cert_file", certificate)
    mode = _check_readable("tls_key_file", key)
    if mode & _OTHERS:
        raise ConfigurationError(
            one_line(f"gateway.tls_key_file {key} can be read by others (mode {mode & 0o777:04o})"),
            one_line(f"chmod 600 {key}"),
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password="")  # empty: never ask the terminal for one
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else None
        raise ConfigurationError(
            one_line(f"gateway.tls_cert_file {certificate} and tls_key_file {key} can't be used: {reason}"),
            "give a PEM certificate chain, and the PEM private key that belongs to it, without a password",
        ) from None
    return context


def _check_readable(name: str, path: str) -> int:
    """Return the file's mode."""
    try:
        with Path(path).open("rb") as file:
            return os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise ConfigurationError(
            one_line(f"can't read gateway.{name} {path}: {error.strerror}"),
            f"correct gateway.{name}, a path relative to the file that names it",
        ) from None
