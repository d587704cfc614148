"""axe-core, which finds what keeps people with disabilities from a page. npm fetches it once.

Then it is in the user's cache.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.page.browser import Browser

VERSION = "4.10.3"
INSTALL_SECONDS_MAX = 120


class NoAxe(Exception):
    """There is no axe-core here, and none can be had; the message says why."""


def axe_script() -> str:
    """Return its text. Raises: NoAxe."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "kohort" / f"axe-core-{VERSION}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        _install(folder)
    return script.read_text(encoding="utf-8")


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxe("there is no npm to fetch axe-core with: install Debian's package `npm`")
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--no-save")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Test processes that come together fetch it once.
        try:
            subprocess.run(
                [npm, "install", *options, f"axe-core@{VERSION}"],
                check=True,
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS_MAX,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise NoAxe(f"npm cannot fetch axe-core: {error}") from error


def violations(page: Browser, script: str) -> list[str]:
    """Return in words what is wrong with the page as it stands."""
    if not page.run("typeof axe === 'object'"):
        page.run(f"{script}; undefined")
    found: list[Any] = page.run(
        """axe.run(document).then(({ violations }) => violations.flatMap((each) => each.nodes.map((node) =>
          [each.id, each.impact, node.target.join(" "), node.html.slice(0, 200),
           node.any.map((one) => one.message).join(" ").slice(0, 300)].join(", "))))"""
    )
    return [str(each) for each in found]
