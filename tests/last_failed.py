"""Say which tests failed in the last run of pytest, a line each; the status is 1 where it says none.

Tests that did not run since a worker crashed are among them (tests/not_run.py).
"""

import json
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")


def last_failed(path: Path = LAST_FAILED) -> list[str]:
    """Return the node ids that pytest's cache has; none where the run was ended from outside."""
    try:
        return sorted(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    failed = last_failed()
    sys.stdout.writelines(f"{each}\n" for each in failed)
    sys.exit(not failed)
