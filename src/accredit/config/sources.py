"""Values that are not in the configuration itself: it names an environment variable or a file that holds them. I/O:
reads the files.

Checked in this order; each failure is a `ConfigurationError`, which never quotes a value:

- the variable is set; the file exists, is no longer than `limits` says, and only its owner can read it;
- the file is UTF-8. A secret or header loses all trailing line ends. A command's variable loses only one trailing LF,
  and only if a file holds it: further ones belong to the value;
- the value can be sent: a header's is one line of ASCII, a variable's holds no NUL.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from accredit.config.values import HeaderFrom, SecretFrom, check_header_text
from accredit.errors import ConfigurationError, named_key
from accredit.keys import read_file
from accredit.limits import MAX_VALUE_FILE_BYTES

MAX_CLIENT_SECRET_BYTES = 4_096
"""The most bytes of a file with a client's secret. Generated ones have 32 to 80."""


def secret_text(source: SecretFrom, key: str, environ: Mapping[str, str]) -> str:
    """Return a secret for a header. `key` is the configuration's key that names its source. Raises
    `ConfigurationError`."""
    text = _check_text(_text(source, key, environ, MAX_CLIENT_SECRET_BYTES).rstrip("\r\n"), source, key)
    if not text:
        raise _unusable(key, source, "should not be empty")
    return text


def header_text(value: str | HeaderFrom, key: str, environ: Mapping[str, str]) -> str:
    """Return a header's value, like `secret_text`."""
    if isinstance(value, str):
        return value
    return _check_text(value.text(_text(value, key, environ, MAX_VALUE_FILE_BYTES).rstrip("\r\n")), value, key)


def variable_text(value: str | SecretFrom, key: str, environ: Mapping[str, str]) -> str:
    """Return the value of a variable for a command, like `secret_text`."""
    if isinstance(value, str):
        return value
    text = _text(value, key, environ, MAX_VALUE_FILE_BYTES)
    text = text.removesuffix("\n") if value.file else text
    if "\0" in text:
        raise _unusable(key, value, "should not hold NUL characters")
    return text


def _text(source: SecretFrom, key: str, environ: Mapping[str, str], max_bytes: int) -> str:
    """Read a value from its variable or file. A file must be UTF-8."""
    if source.env:
        text = environ.get(source.env)
        if text is None:
            raise ConfigurationError(
                f"{key} is to come from the environment, which has no {source.env}",
                f"set {source.env} before the start",
            )
        return text
    data = secret_file(Path(source.file), key, max_bytes)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _unusable(key, source, "should be UTF-8") from None


def secret_file(path: Path, key: str, max_bytes: int) -> bytes:
    """Return the content of a private file. `key` is the configuration's key that names the file. Raises
    `ConfigurationError`."""
    with named_key(key):
        content = read_file(path, max_bytes)
    if content.open_to_others:
        raise ConfigurationError(
            f"{key}: others can read {path} (mode {content.mode:04o})",
            f"chmod 600 {shlex.quote(str(path))}, and change the secret: it is known to whoever could",
        )
    return content.data


def _check_text(text: str, source: SecretFrom, key: str) -> str:
    try:
        check_header_text(text)
    except ValueError as error:
        raise _unusable(key, source, str(error)) from None
    return text


def _unusable(key: str, source: SecretFrom, why: str) -> ConfigurationError:
    where = source.env or source.file
    return ConfigurationError(f"{key}: the value of {where} {why}", f"correct {where}")
