"""Opens the desk's page in the person's browser. I/O: a file, processes.

Anybody who has the link can sign in, and every user can read a command line. So the command line names only a file,
which only this user can read. The file redirects the browser to the link, and is removed after a while.
"""

import asyncio
import contextlib
import html
import os
import secrets
import sys
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from accredit.limits import LOGIN_LINK_SECONDS

OPENING_SECONDS = 5.0
"""How long the desk waits for the command that opens a browser. If it runs longer, it is the browser itself, showing
the page."""


_PAGE = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={link}"><title>accredit desk</title><a href="{link}">Open the desk</a>
"""


def has_browser(environ: Mapping[str, str]) -> bool:
    """Return whether there is a display to open a browser on."""
    named = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(environ.get(each) for each in named)


async def open_browser(folder: Path, link: str) -> bool:
    """Open a link. Return whether a browser could be started with it."""
    path = folder / f"open-{secrets.token_hex(8)}.html"
    try:
        _write(path, _PAGE.format(link=html.escape(link)))
    except OSError:
        return False
    asyncio.get_running_loop().call_later(LOGIN_LINK_SECONDS, _remove, path)
    opened = asyncio.get_running_loop().create_future()
    # A daemon thread that is not joined at exit: some browsers return only when they are closed.
    threading.Thread(target=_open, args=(path.as_uri(), opened), daemon=True).start()
    try:
        async with asyncio.timeout(OPENING_SECONDS):
            return await opened
    except TimeoutError:
        return True


def _open(address: str, opened: asyncio.Future[bool]) -> None:
    took = False
    with contextlib.suppress(webbrowser.Error, OSError):
        took = webbrowser.open(address)
    with contextlib.suppress(RuntimeError):  # the loop has ended
        opened.get_loop().call_soon_threadsafe(_settle, opened, took)


def _settle(opened: asyncio.Future[bool], took: bool) -> None:
    if not opened.done():
        opened.set_result(took)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def clear(folder: Path) -> None:
    """Remove files that earlier processes have left in this folder."""
    for path in folder.glob("open-*.html"):
        _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
