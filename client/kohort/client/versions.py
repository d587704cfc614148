"""Chooses the version of an API for a broker, after it has returned the versions that it supports."""

from collections.abc import Mapping

from kohort.client.errors import UnsupportedVersionError
from kohort.protocol.schema import Message

__version__ = "0.2.0"  # The version of the whole distribution: `make version VERSION=...` changes it.
SOFTWARE_VERSION = __version__
FIRST_API_VERSIONS = 4  # Every broker since Kafka 4.0 supports it; an older one returns its versions.
MAX_ANSWER_BYTES = 512 << 20


def agreed_version(
    request: type[Message],
    spoken: Mapping[int, tuple[int, int]],
    highest: int | None,
    address: str,
) -> int:
    """Return the newest version of an API that both sides support, up to `highest`.

    `spoken` has the broker's lowest and highest versions by API key. Raises: UnsupportedVersionError.
    """
    declared = request.declaration()
    lowest_there, highest_there = spoken.get(declared.api_key, (0, -1))
    version = min(declared.versions.highest, highest_there)
    if highest is not None:
        version = min(version, highest)
    if version < max(declared.versions.lowest, lowest_there):
        name = declared.name.removesuffix("Request")
        raise UnsupportedVersionError(f"{address} does not speak {name} in a version known here")
    return version
