"""Programs in Go, for clients that are libraries of Go: built once from `go/NAME`, kept in the user's cache.

Where there is no Go, or its modules can't be fetched, `MissingTool` says so, and the tests are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.interop.kafka_tools import MissingTool, cache_folder, put_in_place

GO_FOLDER = Path(__file__).parent / "go"
USUAL_PLACE = "/usr/local/go/bin/go"
BUILD_TIMEOUT_S = 400


def go_program(name: str) -> Path:
    """Return the program of a folder, built if need be. Raises: MissingTool."""
    go = shutil.which("go") or shutil.which(USUAL_PLACE)
    if go is None:
        raise MissingTool("Go is not installed")
    source = GO_FOLDER / name
    folder = cache_folder() / f"go-{name}-{_digest(source)}"
    if not folder.exists():
        own = folder.with_name(f"{folder.name}-new")
        command = [go, "build", "-o", str(own / name), "."]
        done = subprocess.run(
            command, cwd=source, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise MissingTool(f"Go could not build {name}: {done.stderr[-300:]}")
        put_in_place(own, folder)
    return folder / name


def _digest(folder: Path) -> str:
    """Return a short name for the sources."""
    content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    return hashlib.sha256(content).hexdigest()[:12]
