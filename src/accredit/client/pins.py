"""Pins the id of the gateway for which proofs may be made. Reads and writes the file of known gateways.

A proof is bound to one gateway's id. If an agent signed for any id that a server claims, a server could get a proof for
another gateway, and use it there. So the id is pinned, by the first of these rules that applies:

- [named] If the caller names an id, that is the pin.
- [remembered] Otherwise it is the id that this URL had before (`known_gateways.json` beside the agent's key). A server
  without a URL (a command, one in this process, a transport) is known by the name that the caller gave it.
- [first-use] Otherwise the first id that the URL claims becomes the pin, and is remembered: trust on first use. But an
  id that is known under another URL is refused (`gateway_mismatch`): the server may be posing as another gateway. Only
  a person can say, by [named], that both URLs lead to one gateway. Until then nothing more is sent to that server
  (`refused`), not even calls without a proof.

Once an id is pinned, another id is refused (`gateway_changed`). Two URLs are equal if they differ only by the case of
their scheme or host, by the default port, by a slash at the end, or by a name of this machine's loopback. For
[first-use] the file is read again, by one process at a time: if two processes find one id under two URLs at once, one
of them is refused.

- [no-address] Without a URL or a name, a claimed id is never pinned: a transport may lead anywhere, and a command may
  be a bridge. Nothing is signed there, unless the caller allowed unbound proofs (`unbound`): then the first id that is
  claimed is the pin for the connection.

Not checked: whether the server that was met first is the right one. If that matters, name the id from the start
(`accredit connect --gateway-id`).
"""

import errno
import json
import logging
import os
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from accredit.base.addresses import without_slash
from accredit.base.files import open_locked
from accredit.base.text import excerpt
from accredit.errors import ConfigurationError, ProofRefused, WireError
from accredit.keys import read_file, write_file
from accredit.keys.places import KNOWN_GATEWAYS, agent_folders
from accredit.limits import MAX_IDENTIFIER_LENGTH_BYTES, MAX_TOLD_URL_CHARS
from accredit.ratify.strict_json import parse
from accredit.refusals import GATEWAY_CHANGED

MAX_KNOWN_GATEWAYS_BYTES = 1_048_576
"""The most bytes of a file of known gateways: some 8,000 of them."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS = {"http": 80, "https": 443}

_READ_ONLY = frozenset({errno.ENOENT, errno.EACCES, errno.EROFS})
"""The errors of a folder that is missing, or can't be written to. Nothing can be remembered there by any process, and
`_remember` says so."""
_NO_PLACE = "a server without a URL is signed for by name: gateway_id of ProofPresenter, or known_as of the client"
_SILENT = "the gateway asks for a proof and does not say who it is"

_log = logging.getLogger("accredit.client")


class PinsInUse(Exception):
    """The file of known gateways can't be locked now. `request` is the id of the request that waits for it."""

    def __init__(self, refusal: ProofRefused) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.request: int | str = ""


class GatewayPin:
    """The id of the gateway at one URL, or under the name that stands for a URL; "" if there is neither. `id` is ""
    until it is known. With `unbound`, a server with neither URL nor name gets unbound proofs ([no-address])."""

    def __init__(
        self,
        id: str = "",
        *,
        url: str = "",
        file: Path | None = None,
        met: MutableMapping[str, str] | None = None,
        unbound: bool = False,
    ) -> None:
        """`met` has the ids that this process has met, by URL. Raises `ConfigurationError` if the file can't be
        read."""
        self._file = file if url else None
        self.url = url
        self.named = bool(id)
        """Whether the caller named the id ([named]). Otherwise the server has only claimed it."""
        self.unbound = unbound and not url
        """Whether a proof may be made before the id is known."""
        self._met: MutableMapping[str, str] = {} if met is None else met
        self.id = id or self._known_here(self._known())
        self.refused: ProofRefused | None = None
        """Why nothing is sent to this server: it has claimed an id that is known under another URL. None if it has
        not."""

    def meet(self, claimed: str) -> None:
        """Check the id that the gateway claims. Raises `ProofRefused` if another id is pinned, or if this one is known
        under another URL. Raises `PinsInUse` while the file can't be locked, mostly because another process has locked
        it: then it can be tried again."""
        if not (self.id or self.url or self.unbound):
            return
        if not self.id and claimed.isprintable() and 0 < len(claimed.encode()) <= MAX_IDENTIFIER_LENGTH_BYTES:
            with _alone(self._file) as why_not:
                if why_not:
                    raise PinsInUse(self.unknown(why_not))
                self._meet_first(claimed)
        if claimed != self.id:
            text = f"this gateway was {self.id or 'nobody'}, and now says that it is {excerpt(claimed)}"
            data = {"error": "gateway_changed", "pinned": self.id, "found": excerpt(claimed)}
            refusal = ProofRefused(data, f"gateway_changed: {text}; nothing was signed for it", GATEWAY_CHANGED)
            with suppress(ConfigurationError):
                if self._elsewhere(self._known(), claimed) is not None:
                    self.refused = refusal
            raise refusal

    def unknown(self, why: str = "") -> ProofRefused:
        """Return the refusal to sign before the gateway's id is known: such a proof would be valid at other gateways,
        too."""
        text = f"gateway_unknown: {why or (_SILENT if self.url else _NO_PLACE)}; nothing was signed for it"
        return ProofRefused({"error": "gateway_unknown"}, text, GATEWAY_CHANGED)

    def _meet_first(self, claimed: str) -> None:
        """Pin a first id, using the ids that this or any other process has remembered ([remembered] and [first-use]).
        Raises `ProofRefused`."""
        try:
            known = self._known()
        except ConfigurationError as error:
            _log.warning("the gateways that are known can't be looked at: %s", error.what)
            raise self.unknown("the file of known gateways can't be read") from None
        here = self._known_here(known)
        if here:
            self.id = here
            return
        elsewhere = self._elsewhere(known, claimed)
        if elsewhere is not None:
            self.refused = _mismatch(claimed, shown_url(self.url), shown_url(elsewhere))
            raise self.refused
        self.id = claimed
        self._remember(known, claimed)

    def _elsewhere(self, known: Mapping[str, str], claimed: str) -> str | None:
        """Return another URL under which an id is known, or None."""
        return next((url for url, id in known.items() if self.url and id == claimed), None)

    def _known(self) -> dict[str, str]:
        return dict(self._met) if self._file is None else {**self._met, **_read(self._file)}

    def _known_here(self, known: Mapping[str, str]) -> str:
        if not self.url:
            return ""
        same = _place(self.url)
        return known.get(self.url) or next((id for url, id in known.items() if _place(url) == same), "")

    def _remember(self, known: Mapping[str, str], id: str) -> None:
        if not self.url:
            return
        self._met[self.url] = id
        if self._file is None:
            return
        text = (json.dumps({**known, self.url: id}, indent=2, sort_keys=True) + "\n").encode()
        try:
            if len(text) > MAX_KNOWN_GATEWAYS_BYTES:
                raise ConfigurationError(f"{self._file} is full", "take out gateways that are gone")
            write_file(self._file, text, private=True, replace=True)
        except ConfigurationError as error:
            _log.warning("the gateway's id is pinned for this process only: %s", error.what)


def gateways_met(folder: Path) -> dict[str, str]:
    """Return the gateways that the agents in the person's folder have met, adopted ones included: ids by URL. Raises
    `ConfigurationError`."""
    folders = reversed(agent_folders(folder))
    return {url: id for each in folders for url, id in _read(each / KNOWN_GATEWAYS).items()}


def shown_url(url: str) -> str:
    """Return a URL for people: bounded, and without what may be a secret."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return excerpt(url, MAX_TOLD_URL_CHARS)
    if not parts.scheme:
        return excerpt(url, MAX_TOLD_URL_CHARS)  # a name instead of a URL
    return excerpt(f"{parts.scheme}://{host}{parts.path}{'?***' if parts.query else ''}", MAX_TOLD_URL_CHARS)


def _mismatch(claimed: str, here: str, elsewhere: str) -> ProofRefused:
    data = {"error": "gateway_mismatch", "found": excerpt(claimed), "url": here, "known_url": elsewhere}
    text = f"{here} says that it is {excerpt(claimed)}, which is known as the gateway at {elsewhere}"
    remedy = "if both lead to it, name its id (--gateway-id, or gateway_id of ProofPresenter)"
    return ProofRefused(data, f"gateway_mismatch: {text}; nothing more is sent to it; {remedy}", GATEWAY_CHANGED)


def _place(url: str) -> tuple[object, ...]:
    """Return a form of a URL that is the same for all its spellings."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return (url,)
    host = "localhost" if host in _LOOPBACK else host
    return (parts.scheme, host, port or _PORTS.get(parts.scheme), without_slash(parts.path) or "/", parts.query)


def check_name(name: str) -> None:
    """Raise `ConfigurationError` for a name that can't stand for a URL."""
    fits = name.isprintable() and 0 < len(name.encode()) <= MAX_IDENTIFIER_LENGTH_BYTES
    if not fits or any(char in name for char in ":/?#\\"):
        raise ConfigurationError(
            f"known_as can't be {excerpt(name)}", "give the server a plain name, such as mail; a URL needs none"
        )


@contextmanager
def _alone(file: Path | None) -> Generator[str]:
    """Lock the file for reading and changing it, if it has a folder that can be written to. Yield "", or why it can't
    be locked. Without the lock two processes would lose each other's pins, and trust whoever comes next."""
    path, lock, why_not = None if file is None else _lock_of(file), None, ""
    try:
        lock = None if path is None else open_locked(path)
    except BlockingIOError:
        why_not = f"another process holds {path}"
    except OSError as error:
        if error.errno not in _READ_ONLY:
            why_not = f"{path} can't be locked: {error.strerror}"
    try:
        yield why_not
    finally:
        if lock is not None:
            os.close(lock)


def _lock_of(file: Path) -> str:
    """Return the path of the lock. It is a file of its own: each change replaces the file of known gateways, and others
    must not be able to lock that."""
    folder, name = os.path.split(os.path.realpath(file))
    return os.path.join(folder, f".{name}.lock")


def _read(file: Path) -> dict[str, str]:
    with suppress(PermissionError):  # reading reports it
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
