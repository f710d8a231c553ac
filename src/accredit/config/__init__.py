"""The configuration: `accredit.toml`, the environment and the command line, parsed once into frozen values.

`load` finds and validates, `build_settings` and `tls_context` check what it says against this machine, and
`shown` prints it. Every failure is an `accredit.errors.ConfigurationError`: one line what is wrong, one line
what to do.
"""

from accredit.config.build import build_settings
from accredit.config.listen import check_exposure, tls_context
from accredit.config.load import Loaded, Origin, Values, load
from accredit.config.schema import Config
from accredit.config.show import shown

__all__ = [
    "Config",
    "Loaded",
    "Origin",
    "Values",
    "build_settings",
    "check_exposure",
    "load",
    "shown",
    "tls_context",
]
