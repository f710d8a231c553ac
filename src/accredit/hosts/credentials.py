"""Decides which texts of a server's entry may be credentials. No I/O.

Only texts that are surely harmless, by name or form, are treated as such. Any other text is taken for a credential and
stored separately, which does no harm if it is not one. A credential taken for harmless could be read by others.

- A command's variable is harmless if its name is common knowledge (`PATH`, `LOG_LEVEL`) and its value doesn't have the
  form of a credential. It is also harmless if its value is empty, a word such as `true` or `production`, or a small
  number.
- A header is harmless if its name is one of those that describe messages (`Accept`, `User-Agent`) and its value doesn't
  have the form of a credential.
- A command's word may hold a credential if it follows or belongs to an option whose name suggests one, sets a variable
  that may be one, is a URL with a user or a query, or has the form of one.
- A URL may hold one if it has a query, or if a part of its path has the form of one.
- A text has the form of a credential if it begins with a known issuer's prefix, or if it has 20 or more characters
  without a gap and is unlike any word, package name or path.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_PLAIN_VARIABLES = frozenset(
    {
        "PATH", "HOME", "USER", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "DISPLAY", "NODE_ENV",
        "NODE_OPTIONS", "NO_COLOR", "FORCE_COLOR", "DEBUG", "LOG_LEVEL", "LOGLEVEL", "LOG_FORMAT", "FASTMCP_LOG_LEVEL",
        "RUST_LOG", "RUST_BACKTRACE", "PORT", "HOST", "TRANSPORT", "MCP_TRANSPORT", "PYTHONPATH",
        "PYTHONUNBUFFERED", "VIRTUAL_ENV",
        "PYTHONIOENCODING", "PYTHONUTF8", "UV_PYTHON", "JAVA_HOME", "GOPATH", "AWS_REGION", "AWS_PROFILE",
        "AWS_DEFAULT_REGION", "MEMORY_FILE_PATH", "ALLOWED_DIRECTORIES", "DOCKER_HOST", "DOCKER_CONTEXT",
        "npm_config_yes", "npm_config_registry", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
    }
)  # fmt: skip
_PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"})
_PLAIN_VALUE = re.compile(
    r"|true|false|yes|no|on|off|none|null|auto|info|debug|warn|warning|error|trace|silent|development|production|test"
    r"|stdio|http|https|sse|localhost|127\.0\.0\.1|utf-8|[0-9]{1,6}",
    re.IGNORECASE,
)
_SPEAKS = re.compile(
    r"key|token|secret|passw|pwd|credential|bearer|auth|cookie|header|session|signature|private|dsn|connection|conn-str"
    r"|database-ur[il]|(?:^|[-_])pat(?:$|[-_])",
    re.IGNORECASE,
)
_SHORT_OPTIONS = frozenset({"-H", "-u", "-p", "-k", "-t"})
_SETS_VARIABLE = frozenset({"-e", "--env"})
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ISSUED = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|npm|hf|pypi|AKIA|ASIA|AIza|ya29|eyJ|SG|dop_v1|shp[a-z]{2}"
    r"|lin_api|secret|ntn|fc|tvly|key|pat|ctx7sk|Bearer |Basic )[-_.A-Za-z0-9]"
)
_RUN = re.compile(r"[A-Za-z0-9_+=~%.-]{20,}")
_PATH = re.compile(r"(?:~|\.{1,2}|\$\{?HOME\}?)?/[^:@?]*")
_PACKAGE = re.compile(r"@?[a-z0-9][a-z0-9._-]*(?:/[a-z0-9._-]+)*(?:@[\w.^~-]{1,20}|[=<>~]=[\w.*]{1,16})?")


def variable_is_plain(name: str, value: str) -> bool:
    """Return whether a variable of a command surely holds no credential."""
    if _PLAIN_VALUE.fullmatch(value):
        return True
    return (name in _PLAIN_VARIABLES or name.startswith("LC_")) and not _looks_secret(value) and not _url_holds(value)


def header_is_plain(name: str, value: str) -> bool:
    """Return whether a header surely holds no credential."""
    return name.lower() in _PLAIN_HEADERS and not _looks_secret(value.replace("/", " ").replace(";", " "))


def secret_parts(words: Sequence[str]) -> list[tuple[str, str]]:
    """Split each word of a command into a plain prefix and a possible credential ("" if there is none)."""
    found: list[tuple[str, str]] = []
    before = ""
    for word in words:
        found.append(_parts(word, before))
        before = word
    return found


def url_holds_secret(url: str) -> bool:
    """Return whether a URL may hold a credential."""
    return _url_holds(url) or any(_looks_secret(part) for part in urlsplit(url).path.split("/"))


def without_secrets(url: str) -> str:
    """Return a URL for display: without its query, and without parts of its path that may be credentials."""
    place, query = url.partition("?")[::2]
    parts = ["***" if _looks_secret(part) else part for part in place.split("/")]
    return "/".join(parts) + ("?***" if query else "")


def _parts(word: str, before: str) -> tuple[str, str]:
    setting = _VARIABLE.fullmatch(word) if before in _SETS_VARIABLE else None
    if setting is not None:
        name, value = setting.groups()
        return (word, "") if variable_is_plain(name, value) else (f"{name}=", value)
    option = _OPTION.fullmatch(word)
    if option is not None:
        name, value = option.groups()
        if name in _SETS_VARIABLE:
            inner = _VARIABLE.fullmatch(value)
            plain = inner is None or variable_is_plain(*inner.groups())
            return (word, "") if plain else (f"{name}={inner[1] if inner else ''}=", inner[2] if inner else "")
        holds = value != "" and not _PLAIN_VALUE.fullmatch(value) and (_SPEAKS.search(name) or _holds(value))
        return (f"{name}=", value) if holds else (word, "")
    follows = before.startswith("-") and "=" not in before
    if follows and not word.startswith("-") and (_SPEAKS.search(before) or before in _SHORT_OPTIONS):
        return (word, "") if _PLAIN_VALUE.fullmatch(word) or (before == "-p" and not _holds(word)) else ("", word)
    return ("", word) if _holds(word) else (word, "")


def _holds(text: str) -> bool:
    return _url_holds(text) or _looks_secret(text)


def _url_holds(text: str) -> bool:
    if "://" not in text:
        return False
    rest = text.partition("://")[2]
    return "?" in rest or "@" in rest.partition("/")[0]


def _looks_secret(text: str) -> bool:
    """Return whether a text has the form of a credential."""
    if _ISSUED.match(text) and len(text) >= 16:
        return True
    if _PATH.fullmatch(text):
        return False
    for run in _RUN.findall(text):
        letters, digits = re.search(r"[A-Za-z]", run), len(re.findall(r"[0-9]", run))
        if letters and digits >= 3 and not (_PACKAGE.fullmatch(run) and digits < 6 and len(run) < 32):
            return True
    return False
