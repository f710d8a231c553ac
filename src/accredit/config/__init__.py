"""The configuration: `accredit.toml`, the environment and the command line, parsed once into frozen values.

- `load` finds the configuration and validates it.
- `build_settings` checks it against this machine (`build_all_settings` where there may be several servers).
- `build_upstream`, `build_catalog`, `build_pins`, `build_proofs`, `build_records`, `build_rounds`, `build_tokens`,
  `build_key_sources` and `build_monitoring` do so for parts of it.
- `read_lock_file` reads what is pinned. `roots_of` returns the keys of those whose delegations count, `vocabulary_of`
  the scopes that all servers accept. `store_of` parses the store's URL. `tls_context` loads the certificate.
  `try_record_signer` has the signer of records sign once.
- `changes` and `check_fixed` compare two readings of the configuration.
- `list_settings` prints it, and `named_files` lists the files that it names. `policy_digest` is the digest by which
  records name it.

Every failure is an `accredit.errors.ConfigurationError`: one line for what is wrong, one for what to do.
"""

from accredit.config.attest import (
    build_log_signer,
    build_records,
    gateway_id,
    own_key_file,
    trusted_log_keys,
    try_record_signer,
)
from accredit.config.build import build_all_settings, build_settings, build_upstream
from accredit.config.changes import changes, check_fixed, in_short
from accredit.config.conversion import convert_tables, json_schema
from accredit.config.digest import policy_digest
from accredit.config.listen import check_exposure, check_no_loop, tls_context
from accredit.config.load import Loaded, Origin, Values, load, load_command_line
from accredit.config.monitoring import MonitoringSettings, build_monitoring
from accredit.config.named_files import named_files
from accredit.config.pins import build_pins, lock_file, read_lock_file, read_pinned
from accredit.config.proofs import build_catalog, build_proofs, read_public_key, roots_of, vocabulary_of
from accredit.config.schema import Config
from accredit.config.show import SettingRow, list_settings
from accredit.config.store import build_rounds, store_of
from accredit.config.tokens import build_key_sources, build_tokens

__all__ = [
    "Config",
    "Loaded",
    "MonitoringSettings",
    "Origin",
    "SettingRow",
    "Values",
    "build_all_settings",
    "build_catalog",
    "build_key_sources",
    "build_log_signer",
    "build_monitoring",
    "build_pins",
    "build_proofs",
    "build_records",
    "build_rounds",
    "build_settings",
    "build_tokens",
    "build_upstream",
    "changes",
    "check_exposure",
    "check_fixed",
    "check_no_loop",
    "convert_tables",
    "gateway_id",
    "in_short",
    "json_schema",
    "list_settings",
    "load",
    "load_command_line",
    "lock_file",
    "named_files",
    "own_key_file",
    "policy_digest",
    "read_lock_file",
    "read_pinned",
    "read_public_key",
    "roots_of",
    "store_of",
    "tls_context",
    "trusted_log_keys",
    "try_record_signer",
    "vocabulary_of",
]
