"""CRC-32C, and what its import takes along."""

import subprocess
import sys

import pytest

from kohort.protocol.checksum import crc32c

LOADED = "print(sorted({'crc32c', 'argparse', 'email', 'zipfile', 'importlib.metadata'} & set(sys.modules)))"


def said(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_checksums_equal_known_values() -> None:
    """The test vectors of RFC 3720, B.4, and parts that go on from one another."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(memoryview(b"\xff" * 32)) == 0x62A8AB43
    assert crc32c(bytes(range(16, 32)), crc32c(bytes(range(16)))) == crc32c(bytes(range(32))) == 0x46DD794E


def test_only_the_extension_is_loaded() -> None:
    assert said(f"import kohort.protocol.checksum; {LOADED}") == "[]"


@pytest.mark.parametrize("order", ["kohort.protocol.checksum, crc32c", "crc32c, kohort.protocol.checksum"])
def test_the_package_can_be_imported_too(order: str) -> None:
    same = "print(crc32c.crc32c(b'a') == kohort.protocol.checksum.crc32c(b'a') == 3251651376)"
    assert said(f"import {order}; {same}") == "True"


def test_without_the_extension_the_package_is_used() -> None:
    hide = "import importlib.util as u; u.find_spec = lambda name: None"
    found = "from kohort.protocol.checksum import crc32c; print(crc32c(b'a'), 'crc32c' in sys.modules)"
    assert said(f"{hide}; {found}") == "3251651376 True"
