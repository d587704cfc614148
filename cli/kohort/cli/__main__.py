"""`python -m kohort.cli` is `kohort`, and so is this file, as spark-submit runs it."""

import os
import sys

if sys.path and sys.path[0] == os.path.dirname(__file__):
    del sys.path[0]  # The folder of a file that is run: in it queue.py would hide the standard library's.

from kohort.cli.main import main  # Behind the line that says where imports are found.

if __name__ == "__main__":
    sys.exit(main())
