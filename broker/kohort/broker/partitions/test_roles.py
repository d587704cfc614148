"""Which role may follow which, and what clients are answered in each."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.config import BrokerConfig, topic_config
from kohort.broker.partitions.host import NameTaken, OpenedLog
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.roles import ALLOWED, ImpossibleTransition, Role
from kohort.broker.partitions.test_support import BareHost
from kohort.protocol.errors import ErrorCode
from kohort.storage import LogConfig, PartitionLog, StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem

FAILED = StorageError("the disk")
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER
CORE = cast(Any, SimpleNamespace(high_watermark=0, state=SimpleNamespace(leader_epoch=0)))

Change = Callable[[Partition], None]

TRANSITIONS: dict[str, Change] = {
    "Alone": Partition.lead_alone,
    "Resigned": Partition.resign,
    "Idle": Partition.stand_by,
    "Leader": lambda each: each.lead(CORE),
    "Follower": lambda each: each.follow_leader(CORE),
    "Suspended": lambda each: each.failed(FAILED),
    "Closed": Partition.close,
}
"""What gives a partition each role, where that is allowed."""
WAYS: dict[str, tuple[str, ...]] = {
    "Alone": (),
    "Resigned": ("Resigned",),
    "Idle": ("Idle",),
    "Leader": ("Leader",),
    "Follower": ("Follower",),
    "Suspended": ("Leader", "Suspended"),
    "Closed": ("Closed",),
}
"""How a partition comes to each role."""
ANSWERS: dict[str, ErrorCode | None] = {
    "Alone": None,
    "Resigned": REFUSED,
    "Idle": REFUSED,
    "Leader": None,
    "Follower": REFUSED,
    "Suspended": ErrorCode.KAFKA_STORAGE_ERROR,
    "Closed": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def partition_of(host: BareHost) -> Partition:
    config = topic_config(BrokerConfig(), {})
    return Partition("t", UUID(int=1), 0, leader_epoch=0, config=config, host=host)


def open_log(partition: Partition) -> PartitionLog:
    disk = MemoryFileSystem()
    disk.make_directory("/data")
    return PartitionLog.open(
        disk,
        Path("/data/t-0"),
        topic=partition.topic,
        topic_id=partition.topic_id,
        index=partition.index,
        config=LogConfig(),
        clean=True,
        recovery_point=0,
    )


def in_role(name: str) -> Partition:
    """Return a partition that has this role, its log open before it got that."""
    partition = partition_of(BareHost(open_log))
    partition.open()
    for step in WAYS[name]:
        TRANSITIONS[step](partition)
    assert repr(partition.role).startswith(name)
    return partition


@pytest.mark.parametrize("name", ANSWERS)
def test_each_role_has_its_error_code(name: str) -> None:
    assert in_role(name).error_code is ANSWERS[name]


@pytest.mark.parametrize("before", ANSWERS)
@pytest.mark.parametrize("after", [each for each in ANSWERS if each != "Suspended"])
def test_a_role_follows_another_or_nothing_changes(before: str, after: str) -> None:
    partition = in_role(before)
    if before == "Suspended":  # It takes a role once its log is open again.
        partition.reopened(OpenedLog(partition.log))
    allowed = {each.__name__ for each in ALLOWED[type(partition.role)]}
    role, code = partition.role, partition.error_code
    if after in allowed or (after == before and after in {"Alone", "Resigned", "Idle"}):
        TRANSITIONS[after](partition)
        assert type(partition.role).__name__ == after
        assert partition.error_code is ANSWERS[after]
    else:
        with pytest.raises(ImpossibleTransition, match=r"t-0.* cannot go from"):
            TRANSITIONS[after](partition)
        assert (partition.role, partition.error_code) == (role, code)


def test_every_role_names_the_roles_that_can_follow() -> None:
    assert set(ALLOWED) == set(Role.__subclasses__())
    assert {each.__name__ for each in ALLOWED} == set(ANSWERS)


@pytest.mark.parametrize("name", ["Leader", "Follower"])
def test_without_an_open_log_a_partition_neither_leads_nor_follows(name: str) -> None:
    partition = partition_of(BareHost(open_log))
    with pytest.raises(ImpossibleTransition, match="its log is not open"):
        TRANSITIONS[name](partition)
    partition.open()
    partition.failed(FAILED)
    with pytest.raises(ImpossibleTransition, match="its log is not open"):
        TRANSITIONS[name](partition)


@pytest.mark.parametrize(
    ("before", "after"), [("Alone", "Alone"), ("Idle", "Idle"), ("Leader", "Suspended"), ("Follower", "Idle")]
)
def test_a_failed_log_ends_the_role_that_needs_it(before: str, after: str) -> None:
    partition = in_role(before)
    partition.failed(FAILED)
    assert type(partition.role).__name__ == after
    assert partition.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    partition.reopened(OpenedLog(partition.log))
    assert partition.error_code is (None if after == "Alone" else REFUSED)


def test_commit_waiters_are_informed_when_the_role_ends() -> None:
    partition = in_role("Leader")
    told: list[StorageError | None] = []
    partition.when_committed(5, told.append)
    assert told == []
    partition.failed(FAILED)
    assert told == [FAILED]


class BusyName(BareHost):
    """The files of a deleted topic are in the way the first time."""

    def __init__(self) -> None:
        super().__init__(open_log)
        self.asked = 0

    def open_log(self, partition: Partition, /) -> OpenedLog:
        self.asked += 1
        if self.asked == 1:
            raise NameTaken("t-0")
        return super().open_log(partition)


def test_a_busy_folder_name_is_tried_again_and_requests_are_refused_until_then() -> None:
    partition = partition_of(BusyName())
    partition.open()
    assert partition.error_code is REFUSED
    partition.resign()
    partition.lead_alone()
    assert partition.error_code is REFUSED, "the log is not open"
    partition.open()
    assert partition.error_code is None


class LostTail(BareHost):
    """The disk has lost what it had confirmed, and the loop raises the leader epoch at once, or later."""

    reports_lost_tails = True

    def __init__(self, *, at_once: bool) -> None:
        super().__init__(open_log)
        self._at_once = at_once

    def open_log(self, partition: Partition, /) -> OpenedLog:
        return super().open_log(partition)._replace(lost_tail=True)

    def lost_tail(self, partition: Partition, /) -> None:
        if self._at_once:
            partition.follow(partition.config, 1)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_log_that_lost_its_tail_serves_under_a_newer_leader_epoch(at_once: bool) -> None:
    partition = partition_of(LostTail(at_once=at_once))
    partition.open()
    assert partition.error_code is (None if at_once else REFUSED)
    assert partition.log.latest_epoch == int(at_once), "an epoch that comes at once is the log's as well"
    partition.follow(partition.config, 2)
    assert (partition.error_code, partition.leader_epoch) == (None, 2)


class LogOfNewerEpoch(BareHost):
    """The log knows a newer epoch than the metadata; the loop takes note at once."""

    def __init__(self) -> None:
        super().__init__(open_log)
        self.behind: list[tuple[int, bool]] = []

    def open_log(self, partition: Partition, /) -> OpenedLog:
        opened = super().open_log(partition)
        opened.log.assign_epoch(7)
        return opened

    def epoch_behind(self, partition: Partition, epoch: int, /) -> None:
        self.behind.append((epoch, partition.serving_log is not None))


def test_an_older_epoch_in_the_metadata_is_reported_of_a_log_that_is_open() -> None:
    host = LogOfNewerEpoch()
    partition = partition_of(host)
    partition.open()
    assert host.behind == [(7, True)]
    assert partition.error_code is REFUSED
    partition.follow(partition.config, 8)
    assert partition.log.latest_epoch == 8
    assert partition.error_code is ANSWERS["Alone"]


class UnopenedLog(BareHost):
    """No log can be opened."""

    def __init__(self) -> None:
        super().__init__(open_log)
        self.failed: list[tuple[bool, ErrorCode | None]] = []

    def open_log(self, partition: Partition, /) -> OpenedLog:
        raise FAILED

    def log_failed(self, partition: Partition, /) -> None:
        self.failed.append((partition.opened, partition.error_code))


def test_a_log_that_cannot_be_opened_is_offline_before_it_is_reported() -> None:
    host = UnopenedLog()
    partition_of(host).open()
    assert host.failed == [(True, ErrorCode.KAFKA_STORAGE_ERROR)]


class SettingsChange(BareHost):
    """The topic's settings change, and so does the epoch, while a worker opens the log."""

    def open_log(self, partition: Partition, /) -> OpenedLog:
        opened = super().open_log(partition)
        partition.follow(topic_config(BrokerConfig(), {"segment.bytes": "1048576"}), 3)
        return opened


def test_settings_that_change_while_a_log_is_opened_are_the_logs() -> None:
    partition = partition_of(SettingsChange(open_log))
    partition.open()
    assert partition.log.config.segment_bytes == 1_048_576
    assert partition.log.latest_epoch == 3


def test_an_epoch_that_a_followers_log_has_already_becomes_the_partitions() -> None:
    partition = partition_of(BareHost(open_log))
    partition.stand_by()
    partition.open()
    partition.follow_leader(CORE)
    partition.log.assign_epoch(5)  # By records of the leader that came before its metadata.
    partition.follow(partition.config, 5)
    assert (partition.leader_epoch, partition.is_behind) == (5, False)
