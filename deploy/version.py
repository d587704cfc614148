"""Set the version of the next release, and cut the changelog: `make version VERSION=0.3.0`.

The version stands in one file: wheels, `kohort version` and clients read it there. The entries under
Unreleased in CHANGELOG.md become the section of the version, with today's date in UTC.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ROOT / "client" / "kohort" / "client" / "versions.py"
CHANGELOG = ROOT / "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"
VERSION = re.compile(r'^__version__ = "(.+?)"', re.MULTILINE)
NEW = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def with_version(text: str, version: str) -> str:
    """Return the text of versions.py with another version. Raises: ValueError for one that is not newer."""
    found = VERSION.search(text)
    if found is None or not NEW.fullmatch(version):
        raise ValueError(f"{version!r} is no version such as 0.3.0")
    if Version(version) <= Version(found[1]):
        raise ValueError(f"{version} is not newer than the version {found[1]}")
    return VERSION.sub(f'__version__ = "{version}"', text, count=1)


def cut(text: str, version: str, date: str) -> str:
    """Return the changelog with a section for a version. Raises: ValueError where nothing is unreleased."""
    before, heading, after = text.partition(UNRELEASED)
    unreleased = after.partition("\n## [")[0]
    if not heading or not unreleased.strip():
        raise ValueError("CHANGELOG.md has nothing under Unreleased")
    return f"{before}{UNRELEASED}\n## [{version}] - {date}\n{after}"


def main() -> int:
    """Change both files; return the exit status."""
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        versions = with_version(VERSIONS.read_text(encoding="utf-8"), version)
        changelog = cut(CHANGELOG.read_text(encoding="utf-8"), version, f"{datetime.now(UTC):%Y-%m-%d}")
    except ValueError as error:
        print(f"version: {error}", file=sys.stderr)
        return 1
    VERSIONS.write_text(versions, encoding="utf-8")
    CHANGELOG.write_text(changelog, encoding="utf-8")
    print(f"CHANGELOG.md and {VERSIONS.relative_to(ROOT)} have {version}.")
    print(f"Next: git commit, make release, git tag v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
