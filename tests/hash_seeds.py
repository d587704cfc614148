"""Runs the same code in processes whose strings have different hashes."""

import os
import subprocess
import sys


def under_hash_seeds(code: str) -> set[str]:
    """Return the last lines that the code prints under two hash seeds of Python: one if they are equal."""
    found = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.splitlines()[-1])
    return found
