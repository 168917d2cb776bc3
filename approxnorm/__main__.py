"""``python -m approxnorm``: the command line."""

import sys

from approxnorm.cli import main

if __name__ == "__main__":
    sys.exit(main())
