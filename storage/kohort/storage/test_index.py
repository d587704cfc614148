"""The sparse indexes: found by bisection, and never trusted when damaged."""

from kohort.storage.index import OffsetIndex, TimeIndex
from kohort.storage.memory_filesystem import MemoryFileSystem


def folder() -> MemoryFileSystem:
    file_system = MemoryFileSystem()
    file_system.make_directory("/d")
    return file_system


def test_a_lookup_gives_the_last_batch_that_can_contain_the_offset() -> None:
    index = OffsetIndex(folder(), "/d/x.index", 1000)
    for place in range(1, 50):
        index.append(1000 + place * 10, place * 100)
    assert index.lookup(1000) == index.lookup(1009) == 0
    assert index.lookup(1010) == index.lookup(1019) == 100
    assert index.lookup(5000) == index.last_position() == 4900
    index.truncate_to(1200)
    assert index.last_position() == 1900


def test_entries_are_kafkas_and_read_again() -> None:
    file_system = folder()
    index = OffsetIndex(file_system, "/d/x.index", 1000)
    index.append(1007, 4200)
    index.write()
    index.append(1009, 4300)
    index.write(sync=True)
    assert file_system.read("/d/x.index") == bytes.fromhex("00000007 00001068 00000009 000010cc")
    again = OffsetIndex(file_system, "/d/x.index", 1000)
    assert again.lookup(1008) == 4200
    again.truncate_to(1009)
    again.write()
    assert file_system.read("/d/x.index") == bytes.fromhex("00000007 00001068")


def test_an_index_that_cannot_be_the_logs_is_seen() -> None:
    file_system = folder()
    file_system.replace("/d/x.index", bytes.fromhex("00000007 00001068") + bytes(8))
    assert not OffsetIndex(file_system, "/d/x.index", 0).is_sane(10_000), "zeros, as Kafka preallocates them"
    file_system.replace("/d/x.index", bytes.fromhex("00000007 00001068"))
    assert OffsetIndex(file_system, "/d/x.index", 0).is_sane(10_000)
    assert not OffsetIndex(file_system, "/d/x.index", 0).is_sane(4000)
    file_system.replace("/d/x.index", b"123")
    assert OffsetIndex(file_system, "/d/x.index", 0).size_bytes == 0


def test_timestamps_only_grow_in_their_index() -> None:
    file_system = folder()
    index = TimeIndex(file_system, "/d/x.timeindex", 1000)
    for timestamp, offset in ((-1, 1000), (50, 1002), (50, 1004), (40, 1005), (70, 1009)):
        index.append(timestamp, offset)
    assert index.size_bytes == 24
    assert [index.lookup(timestamp) for timestamp in (49, 50, 69, 70, 99)] == [1000, 1002, 1002, 1009, 1009]
    assert index.last() == (70, 1009)
    index.truncate_to(1009)
    assert index.last() == (50, 1002)
    index.truncate_to(1000)
    assert index.last() == (-1, 1000)


def test_a_time_index_with_a_tail_of_zeros_is_not_trusted() -> None:
    file_system = folder()
    file_system.replace("/d/x.timeindex", bytes.fromhex("00000000000000320000000200") + bytes(11))
    assert not TimeIndex(file_system, "/d/x.timeindex", 0).is_sane()
