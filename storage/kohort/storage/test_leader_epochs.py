"""Leader epochs: where each begins and ends, and their checkpoint."""

import pytest

from kohort.storage.leader_epochs import LeaderEpochs


def test_an_epoch_ends_where_the_next_one_starts() -> None:
    epochs = LeaderEpochs([(2, 0), (4, 10), (7, 30)])
    assert epochs.end_offset_for(2, 50) == (2, 10)
    assert epochs.end_offset_for(3, 50) == (2, 10)
    assert epochs.end_offset_for(4, 50) == (4, 30)
    assert epochs.end_offset_for(7, 50) == (7, 50)
    assert epochs.end_offset_for(8, 50) == (-1, -1)
    assert epochs.end_offset_for(-1, 50) == (-1, -1)
    assert epochs.end_offset_for(1, 50) == (1, 0)
    assert LeaderEpochs().end_offset_for(0, 50) == (-1, -1)


def test_only_newer_epochs_are_noted_and_empty_ones_are_removed() -> None:
    epochs = LeaderEpochs()
    for epoch, offset in ((0, 0), (0, 5), (3, 10), (2, 12), (4, 10), (-1, 20)):
        epochs.assign(epoch, offset)
    assert epochs.entries == ((0, 0), (4, 10))
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 99)] == [0, 0, 4, 4]


def test_truncation_and_deletion_keep_the_epochs_between() -> None:
    epochs = LeaderEpochs([(2, 0), (4, 10), (7, 30)])
    epochs.truncate_from(30)
    assert list(epochs.entries) == [(2, 0), (4, 10)]
    epochs.delete_before(15)
    assert list(epochs.entries) == [(4, 15)]
    assert epochs.is_changed
    epochs.delete_before(15)
    assert LeaderEpochs().epoch_at(3) == -1


def test_the_checkpoint_is_kafkas_and_read_again() -> None:
    epochs = LeaderEpochs([(2, 0), (4, 10)])
    assert epochs.encode() == b"0\n2\n2 0\n4 10\n"
    found = LeaderEpochs.decode(epochs.encode())
    assert found is not None
    assert found.entries == epochs.entries


@pytest.mark.parametrize(
    "content",
    [None, b"", b"0\n2\n2 0\n", b"1\n0\n", b"0\n1\n2 0 4\n", b"0\n1\n2 x\n", b"\xff\n", b"0\n1\n2 10"],
)
def test_a_missing_or_damaged_checkpoint_is_ignored(content: bytes | None) -> None:
    assert LeaderEpochs.decode(content) is None
