"""Which gateway a proof may be made for: the pin of its id. Reads and writes the file of known gateways.

A proof is bound to one gateway's id, so an agent that signed whatever id it is told could be made to sign for another
gateway. In order:

1. An id that the caller names is the pin.
2. Else the id that this URL had before is (`known_gateways.json` beside the agent's key).
3. Else the first id that the URL names becomes the pin, and is remembered: trust on first use.

From then on another id is refused. What is not checked: who was met first. Name the id from the start where that
matters (`accredit connect --gateway-id`).
"""

import json
import logging
from pathlib import Path
from typing import cast

from accredit.errors import ConfigurationError, ProofRefused, WireError
from accredit.jsonrpc.text import excerpt
from accredit.keys import read_file, write_file
from accredit.limits import MAX_IDENTIFIER_LENGTH_BYTES, MAX_KNOWN_GATEWAYS_BYTES
from accredit.ratify.strict_json import parse

KNOWN_GATEWAYS = "known_gateways.json"
GATEWAY_CHANGED = -31020
"""Code of the refusal that never leaves the client: the gateway is not the one that is pinned."""

_log = logging.getLogger("accredit.client")


class GatewayPin:
    """The id of the gateway at one URL. `id` is "" until it is known."""

    def __init__(self, id: str = "", *, url: str = "", file: Path | None = None) -> None:
        """Raises `ConfigurationError` for a file that can't be read as one of known gateways."""
        self._file = file if url else None
        self._url = url
        self.id = id or (_read(self._file).get(url, "") if self._file is not None else "")

    def meet(self, found: str) -> None:
        """The gateway says that this is its id. Raises `ProofRefused` for another one than is pinned."""
        if not self.id and found.isprintable() and 0 < len(found.encode()) <= MAX_IDENTIFIER_LENGTH_BYTES:
            self.id = found
            self._remember(found)
        if found != self.id:
            text = f"this gateway was {self.id or 'nobody'}, and now says that it is {excerpt(found)}"
            data = {"error": "gateway_changed", "pinned": self.id, "found": excerpt(found)}
            raise ProofRefused(data, f"gateway_changed: {text}; nothing was signed for it", GATEWAY_CHANGED)

    def _remember(self, found: str) -> None:
        if self._file is None:
            return
        try:
            known = _read(self._file) | {self._url: found}
            text = json.dumps(known, indent=2, sort_keys=True) + "\n"
            write_file(self._file, text.encode(), private=True, replace=True)
        except ConfigurationError as error:
            _log.warning("the gateway's id is pinned for this process only: %s", error.what)


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    remedy = f"repair {file} or delete it; it then fills anew, with the gateways that are met first"
    try:
        tree = parse(read_file(file, MAX_KNOWN_GATEWAYS_BYTES).data, MAX_KNOWN_GATEWAYS_BYTES)
    except WireError as error:
        raise ConfigurationError(f"{file} is not JSON: {error.reason}", remedy) from None
    known = cast("dict[str, object]", tree) if isinstance(tree, dict) else None
    if known is None or not all(isinstance(id, str) and id for id in known.values()):
        raise ConfigurationError(f"{file} is not an object of gateways' ids by URL", remedy)
    return cast("dict[str, str]", known)
