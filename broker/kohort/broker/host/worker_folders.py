"""Where the workers of one host keep their data."""

from pathlib import Path

FOLDER = "workers"
KEYS_FILE = "metadata.jsonl"


def is_of_workers(data: Path) -> bool:
    """Return whether workers have served this folder: a broker of one process lacks their metadata."""
    return (data / FOLDER / KEYS_FILE).exists()


def part(data: Path, number: int) -> Path:
    """Return the folder of a worker; the first one has number 1."""
    return data if number == 1 else data / FOLDER / str(number)
