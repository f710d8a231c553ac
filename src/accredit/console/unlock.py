"""The person's key while the desk runs: locked, or in memory for a limited time.

- [plain-key] A key that was made without a passphrase is always open.
- [passphrase] Otherwise a signature needs the passphrase. The person can give it on the desk's terminal or in pinentry,
  or by `accredit desk unlock`. The prompt says what the signature is for. A signature that always needs the passphrase
  ([duration]) has a prompt of its own. If the desk was started with a passphrase file, the file answers all prompts.
- [duration] Once the passphrase was given, the key stays open for as long as `desk.toml` says, by default 15 minutes. A
  sensitive signature (`each`) needs the passphrase each time; with `unlock = "each"`, all do. A passphrase that is
  typed ahead opens the key only for the signature that the person was shown.
- [lock] `lock` forgets the key and the passphrase at once, and cancels a prompt. A signature that waits for the key is
  then not made.

The key's bytes are not wiped from memory, since Python may have made copies. The operating system keeps other programs
from reading this process's memory (`serving`).
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from accredit.console.prompts import Prompt
from accredit.errors import ConfigurationError, DeskError
from accredit.keys import LockedKeyFile, PrivateKeyFile
from accredit.keys.passphrase import passphrase_bytes, unlock, wipe
from accredit.ratify import HybridSigner

PASSPHRASE_SECONDS = 120.0
"""How long the desk waits for a passphrase that a signature needs."""
MAX_PASSPHRASE_TRIES = 3
"""After how many wrong passphrases a prompt gives up. The next signature prompts anew."""


KeyState = Literal["open", "unlocked", "asking", "locked"]


def open_key(key: PrivateKeyFile | LockedKeyFile, passphrase: str) -> HybridSigner:
    """Return the signer of a key, which is decrypted if needed; that takes a while. Raises `ConfigurationError` for a
    wrong passphrase."""
    if isinstance(key, PrivateKeyFile):
        return key.signer()
    typed = passphrase_bytes(passphrase)
    try:
        return unlock(key, typed).signer()
    finally:
        wipe(typed)


class KeyHolder:
    """Opens the key when it is needed. `on_change` is called when `state` changes."""

    def __init__(
        self,
        key: PrivateKeyFile | LockedKeyFile,
        *,
        unlock_seconds: int | None,
        prompt: Prompt | None = None,
        passphrase: str | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._key = key
        self._is_encrypted = isinstance(key, LockedKeyFile)
        self._unlock_seconds = unlock_seconds
        self._prompt = prompt
        self._passphrase = passphrase
        self._on_change = on_change
        self._open: HybridSigner | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._once: tuple[str, HybridSigner] | None = None
        self._locks = 0
        self._asking = asyncio.Lock()
        self._trying = asyncio.Lock()
        self._wanted: asyncio.Future[HybridSigner] | None = None
        self._text, self._each = "", False
        self.has_failed = False
        """Whether the last passphrase was wrong."""

    @property
    def is_for_each(self) -> bool:
        """Whether every signature needs the passphrase."""
        return self._is_encrypted and self._unlock_seconds is None

    @property
    def wanted_for(self) -> str:
        """The text of the signature that waits for the passphrase, or ""."""
        return self._text if self.state == "asking" else ""

    @property
    def state(self) -> KeyState:
        """The key's state. It is `open` for a key without a passphrase, and `asking` while a signature waits for
        one."""
        if not self._is_encrypted:
            return "open"
        if self._wanted is not None and not self._wanted.done():
            return "asking"
        return "unlocked" if self._open or self._once or self._passphrase is not None else "locked"

    @property
    def place(self) -> str:
        """Where the passphrase can be typed, in words."""
        if self._prompt is None:
            return "with `accredit desk unlock`"
        return f"{self._prompt.place}, or with `accredit desk unlock`"

    async def signer(self, text: str, *, each: bool) -> HybridSigner:
        """Return the key for one signature, which `text` describes. If the passphrase is needed, wait for it first.
        Raises `DeskError`."""
        if not self._is_encrypted:
            return await asyncio.to_thread(open_key, self._key, "")
        async with self._asking:
            if self._open is not None and not each:
                return self._open
            if self._once is not None and self._once[0] == text:
                (_, once), self._once = self._once, None
                return once
            return await self._opened(text, each=each)

    async def unlock(self, passphrase: str, wanted_for: str | None = None, beforehand: str = "") -> None:
        """Unlock the key for the waiting signature. If none waits, unlock it for as long as `desk.toml` says or, if
        each signature needs the passphrase, for the one that `beforehand` describes ("" for none). `wanted_for`
        describes the signature that the person was shown (None: none was shown); it must be the same. Raises
        `ConfigurationError` for a wrong passphrase, and `DeskError`."""
        locks = self._locks
        async with self._trying:  # each try takes 64 MiB, and any program of the user may try
            opened = await self._try(passphrase)
        waiting = self._wanted if self._wanted is not None and not self._wanted.done() else None
        for_all = self._unlock_seconds is not None and not self._each
        if waiting is not None and (for_all or wanted_for in (None, self._text)):
            waiting.set_result(opened)
        elif waiting is not None and self._unlock_seconds is None:
            raise DeskError("changed", "the desk waits for it for something else by now: see what for, and try again")
        elif self._unlock_seconds is None and (not beforehand or wanted_for not in (None, beforehand)):
            raise DeskError("nothing", "nothing waits for it, and each signature needs it: press Allow first")
        elif self._unlock_seconds is None and locks == self._locks:
            self._once = beforehand, opened
            self._close_after(PASSPHRASE_SECONDS)
        self._keep(opened, locks)

    def lock(self) -> None:
        """Forget the key, and the passphrase."""
        self._locks += 1
        self._open = self._once = self._passphrase = None
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_exception(_locked_error())
        if self._closing is not None:
            self._closing.cancel()
        self._on_change()

    async def _opened(self, text: str, *, each: bool) -> HybridSigner:
        locks = self._locks
        if self._passphrase is not None:
            opened = await asyncio.to_thread(open_key, self._key, self._passphrase)
        else:
            opened = await self._asked(text, each=each)
        if locks != self._locks:
            raise _locked_error()
        self._keep(opened, locks)
        return opened

    async def _asked(self, text: str, *, each: bool) -> HybridSigner:
        self._wanted = wanted = asyncio.get_running_loop().create_future()
        self._text, self._each, self.has_failed = text, each, False
        self._on_change()
        prompting = asyncio.ensure_future(self._prompted(text)) if self._prompt is not None else None
        try:
            async with asyncio.timeout(PASSPHRASE_SECONDS):
                await asyncio.wait(
                    [wanted, *([prompting] if prompting is not None else [])], return_when=asyncio.FIRST_COMPLETED
                )
            if wanted.done():
                return wanted.result()
            opened = prompting.result() if prompting is not None else None
            if opened is not None:
                return opened
        except TimeoutError:
            pass
        finally:
            self._wanted = None
            if prompting is not None:
                prompting.cancel()
                await asyncio.wait([prompting])
            self._on_change()
        if self.has_failed:
            raise DeskError("locked", "nothing was signed: that was not the passphrase. Press the button to try again")
        raise DeskError("locked", f"nothing was signed: the passphrase was not given {self.place}")

    async def _prompted(self, text: str) -> HybridSigner | None:
        prompt = self._prompt
        for _ in range(MAX_PASSPHRASE_TRIES if prompt is not None else 0):
            typed = await prompt.ask(text) if prompt is not None else None
            if not typed:
                return None
            try:
                return await self._try(typed)
            except ConfigurationError:
                text = f"That is not the passphrase. {text.removeprefix('That is not the passphrase. ')}"
        return None

    async def _try(self, passphrase: str) -> HybridSigner:
        """Open the key; note a wrong passphrase, for the page. Raises `ConfigurationError`."""
        self.has_failed = False
        try:
            return await asyncio.to_thread(open_key, self._key, passphrase)
        except ConfigurationError:
            self.has_failed = True
            self._on_change()
            raise

    def _keep(self, opened: HybridSigner, locks: int) -> None:
        """Keep the opened key, unless `lock` was called meanwhile. `locks` is how often it had been called when the
        opening began."""
        if self._unlock_seconds is not None and locks == self._locks:
            self._open = opened
            self._close_after(self._unlock_seconds)
        self._on_change()

    def _close_after(self, seconds: float) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._closing = asyncio.get_running_loop().call_later(seconds, self._close)

    def _close(self) -> None:
        self._open = self._once = None
        self._on_change()


def _locked_error() -> DeskError:
    return DeskError("locked", "nothing was signed: the key was locked meanwhile")
