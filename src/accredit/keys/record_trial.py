"""A trial of a signer of records before anything depends on it, in a process of its own. Forks before any loop runs.

What such a signer brings along (connections, threads, an HSM's module) would not survive the fork of workers, and one
that hangs or crashes must not take the gateway with it. What it prints goes to stderr: stdout may be a conversation.
"""

import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

from accredit.errors import ConfigurationError
from accredit.keys.record_signers import sign_trial
from accredit.limits import SIGNER_TRIAL_SECONDS

_REACHABLE = "see that the service behind it can be reached, and that what it needs is installed as a whole"


def try_signer(uri: str, public_key_file: Path, folder: Path) -> None:
    """Have the signer sign once, and its public key verify that. Raises `ConfigurationError`, which says why not."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(theirs, uri, public_key_file, folder), daemon=True)
    process.start()
    theirs.close()
    scheme = uri.partition(":")[0]
    try:
        if not ours.poll(SIGNER_TRIAL_SECONDS):
            raise ConfigurationError(
                f"attest.signer: the {scheme}: signer has not signed in {SIGNER_TRIAL_SECONDS:g} s", _REACHABLE
            )
        fault: tuple[str, str] | None = ours.recv()
    except EOFError:
        raise ConfigurationError(f"attest.signer: the {scheme}: signer has crashed its process", _REACHABLE) from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if fault is not None:
        raise ConfigurationError(*fault)


def _try(answer: Connection, uri: str, public_key_file: Path, folder: Path) -> None:
    os.dup2(2, 1)
    try:
        sign_trial(uri, public_key_file, folder)
    except ConfigurationError as error:
        answer.send((error.what, error.remedy))
    except BaseException:  # its text could hold anything, so it is not logged
        os._exit(1)
    else:
        answer.send(None)
