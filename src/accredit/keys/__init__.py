"""Key files and signers: the only place where they are made, read and written.

- `formats`: the files' contents, without I/O. `passphrase`: locks and unlocks people's keys.
- `files`: reads and writes any file of `accredit`. `reading`: reads a configuration's files once for many processes.
- `load`: makes, reads and writes key files, by means of these.
- `token_keys`: the keys of session tokens and issuers (PEM, JWK sets).
- `record_signers`: keys for the audit log that other services hold.
"""

from accredit.keys.files import read_file, replace_file, write_file
from accredit.keys.formats import DelegationFile, KeyFile, KeyKind, LockedKeyFile, PrivateKeyFile
from accredit.keys.load import (
    AskPassphrase,
    SigningKey,
    load_log_signer,
    load_public_key,
    load_root,
    load_signing_key,
    lock_key,
    log_key,
    log_signer,
    make_key,
    public_keys_in,
    public_path,
    read_key,
    read_private_key,
    unlock_key,
    write_key,
)
from accredit.keys.reading import FileContent, ReadFiles, is_there, memory_file, read_once, reading, reading_alike
from accredit.keys.token_keys import kept_token_key, load_key_set, load_token_key, make_token_key, write_token_key

__all__ = [
    "AskPassphrase",
    "DelegationFile",
    "FileContent",
    "KeyFile",
    "KeyKind",
    "LockedKeyFile",
    "PrivateKeyFile",
    "ReadFiles",
    "SigningKey",
    "is_there",
    "kept_token_key",
    "load_key_set",
    "load_log_signer",
    "load_public_key",
    "load_root",
    "load_signing_key",
    "load_token_key",
    "lock_key",
    "log_key",
    "log_signer",
    "make_key",
    "make_token_key",
    "memory_file",
    "public_keys_in",
    "public_path",
    "read_file",
    "read_key",
    "read_once",
    "read_private_key",
    "reading",
    "reading_alike",
    "replace_file",
    "unlock_key",
    "write_file",
    "write_key",
    "write_token_key",
]
