"""`python -m kohort.broker`: the same as `kohort serve`."""

import sys

from kohort.broker.runtime.garbage import without_collections

with without_collections():  # All that is imported stays.
    from kohort.broker.main import main

if __name__ == "__main__":
    sys.exit(main())
