"""Version ranges as Kafka's schemas write them."""

import pytest

from kohort.protocol.versions import ALL, MAX_VERSION, NONE, Versions


@pytest.mark.parametrize(
    "text, lowest, highest", [("0-4", 0, 4), ("3+", 3, MAX_VERSION), ("2", 2, 2), ("none", 0, -1)]
)
def test_a_range_is_read_and_written_alike(text: str, lowest: int, highest: int) -> None:
    versions = Versions.parse(text)
    assert versions == (lowest, highest)
    assert str(versions) == text


@pytest.mark.parametrize("text", ["", "-", "a", "1-b", "+"])
def test_an_invalid_version_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Versions.parse(text)


def test_a_range_contains_its_ends() -> None:
    assert [version in Versions(2, 4) for version in range(1, 6)] == [False, True, True, True, False]
    assert 0 not in NONE
    assert 99 in ALL
