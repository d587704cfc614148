"""`python -m kohort.broker`: the same as `kohort serve`."""

import sys

from kohort.broker.main import main

if __name__ == "__main__":
    sys.exit(main())
