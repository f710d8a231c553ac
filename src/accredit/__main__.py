"""`python -m accredit` is the `accredit` command.

Like that, it imports nothing from the current folder, which `-m` puts first: somebody else may have filled it.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from accredit.cli import main

if __name__ == "__main__":
    sys.exit(main())
