"""Key files and signers (contract, section 10): made, read and written here, and nowhere else.

`formats` says what the files hold and does no I/O; `files` reads and writes any file of `accredit`; `load` joins them.
"""

from accredit.keys.files import read_file, write_file
from accredit.keys.formats import DelegationFile, KeyFile, KeyKind, PrivateKeyFile
from accredit.keys.load import SigningKey, load_public_key, load_signing_key, make_key, public_path, read_key, write_key
from accredit.keys.signers import load_log_signer, log_key, log_signer

__all__ = [
    "DelegationFile",
    "KeyFile",
    "KeyKind",
    "PrivateKeyFile",
    "SigningKey",
    "load_log_signer",
    "load_public_key",
    "load_signing_key",
    "log_key",
    "log_signer",
    "make_key",
    "public_path",
    "read_file",
    "read_key",
    "write_file",
    "write_key",
]
