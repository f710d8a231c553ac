"""Where this copy of accredit was installed from. Reads a file that the installer wrote.

An installer records its source in `direct_url.json` (PEP 610), unless that was a package index.
"""

import shlex
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from msgspec import DecodeError, json


def requirement_of(extra: str) -> str:
    """Return the words after `pip install` that install this copy once more, with one of its extras."""
    try:
        said = distribution("accredit").read_text("direct_url.json")
        found = json.decode(said, type=dict[str, Any]) if said is not None else {}
    except (PackageNotFoundError, DecodeError, OSError, ValueError):
        found = {}
    text = found.get("url")
    url = urlsplit(text) if isinstance(text, str) and text.isprintable() else urlsplit("")
    if url.scheme == "file" and "dir_info" in found:
        is_editable = found["dir_info"] == {"editable": True}
        return f"{'-e ' if is_editable else ''}{shlex.quote(f'{unquote(url.path)}[{extra}]')}"
    if not url.scheme or "@" in url.netloc or url.query:  # an index; or an address that may hold a secret
        return f'"accredit[{extra}]"'
    source = found.get("vcs_info")
    if isinstance(source, dict):
        kind, commit = (str(cast("dict[str, object]", source).get(name, "")) for name in ("vcs", "commit_id"))
        return shlex.quote(f"accredit[{extra}] @ {kind}+{text}@{commit}")
    return shlex.quote(f"accredit[{extra}] @ {text}")
