"""`python -m accredit` is the `accredit` command."""

import sys

from accredit.cli import main

if __name__ == "__main__":
    sys.exit(main())
