"""Runs the same code in processes whose strings have different hashes."""

import os
import subprocess
import sys


def under_hash_seeds(code: str, *hash_seeds: int) -> set[str]:
    """Return the last lines that the code prints, a process for each hash seed: one line if all are equal."""
    found = set()
    for hash_seed in map(str, hash_seeds or (1, 2)):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.splitlines()[-1])
    return found
