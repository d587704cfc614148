"""What is asked and answered about committed offsets, without a broker."""

from types import SimpleNamespace
from typing import Never, cast

import pytest

from kohort.client.cluster import Cluster
from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    KohortError,
    NetworkError,
    RequestTimeoutError,
)
from kohort.client.offsets import LATEST, ask_committed, commit_offsets, fetch_committed, list_offsets
from kohort.client.values import Node, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.protocol.schema import Message

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Scripted:
    """Stands for the cluster: answers every request in the same way, and keeps it."""

    def __init__(self, answer: Message) -> None:
        self.answer = answer
        self.request: Message | None = None
        self.forgot = False

    async def coordinator(self, group_id: str) -> Node:
        return Node(1, "localhost", 1)

    async def connection_to(self, node: Node) -> "Scripted":
        return self

    def version_of(self, request: type[Message], highest: int) -> int:
        return highest

    async def request_coordinator(
        self, group_id: str, request: Message, answer: type[Message], *, highest: int
    ) -> Message:
        self.request = request
        return self.answer

    def forget_coordinator(self, key: str, key_type: int = 0) -> None:
        self.forgot = True

    check_coordinated = Cluster.check_coordinated


def committed(code: int = 0) -> Scripted:
    partition = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata="m", error_code=code
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=(partition,))
    group = OffsetFetchResponseGroup(group_id="g", topics=(topic,), error_code=0)
    return Scripted(OffsetFetchResponse(throttle_time_ms=0, topics=(), error_code=0, groups=(group,)))


def commit_answer(*codes: int) -> Scripted:
    partitions = tuple(
        OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate(codes)
    )
    topic = OffsetCommitResponseTopic(name="t", partitions=partitions)
    return Scripted(OffsetCommitResponse(throttle_time_ms=0, topics=(topic,)))


@pytest.mark.parametrize("require_stable", [False, True])
async def test_stable_offsets_are_requested_if_wanted(require_stable: bool) -> None:
    cluster = committed()
    found = await fetch_committed(cast(Cluster, cluster), "g", [ZERO], require_stable=require_stable)
    assert found == {ZERO: OffsetAndMetadata(5, "m", 2)}
    assert isinstance(cluster.request, OffsetFetchRequest)
    assert cluster.request.require_stable is require_stable


async def test_an_offset_in_an_open_transaction_is_retriable() -> None:
    with pytest.raises(BrokerError) as caught:
        await fetch_committed(
            cast(Cluster, committed(ErrorCode.UNSTABLE_OFFSET_COMMIT)), "g", [ZERO], require_stable=True
        )
    assert caught.value.retriable


async def test_a_partition_missing_in_the_answer_is_not_taken_for_uncommitted() -> None:
    with pytest.raises(NetworkError, match="leaves t-1 out") as caught:
        await fetch_committed(cast(Cluster, committed()), "g", [ZERO, ONE])
    assert caught.value.retriable
    silent = Scripted(OffsetFetchResponse(throttle_time_ms=0, topics=(), error_code=0, groups=()))
    answers = await ask_committed(cast(Cluster, silent), "g", iter([ZERO, ONE]))
    assert set(answers.errors) == {ZERO, ONE}


async def test_an_uncommitted_partition_is_no_error() -> None:
    none = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=0
    )
    group = OffsetFetchResponseGroup(
        group_id="g", topics=(OffsetFetchResponseTopics(name="t", partitions=(none,)),), error_code=0
    )
    cluster = Scripted(OffsetFetchResponse(throttle_time_ms=0, topics=(), error_code=0, groups=(group,)))
    assert await fetch_committed(cast(Cluster, cluster), "g", [ZERO]) == {}


async def test_a_commit_counts_only_if_the_answer_confirms_it() -> None:
    offsets = {ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(2)}
    await commit_offsets(cast(Cluster, commit_answer(0, 0)), "g", offsets)
    with pytest.raises(NetworkError, match="leaves t-1 out") as caught:
        await commit_offsets(cast(Cluster, commit_answer(0)), "g", offsets)
    assert caught.value.retriable


@pytest.mark.parametrize(
    "codes, refusal, retriable, partitions",
    [
        ((0, 22), CommitFailedError, False, (ONE,)),
        ((25, 25), CommitFailedError, False, (ZERO, ONE)),
        ((3, 0), CommitFailedError, False, (ZERO,)),
        ((16, 16), BrokerError, True, None),
        ((14, 14), BrokerError, True, None),
        ((0, 12), BrokerError, False, None),
    ],
    ids=[
        "old generation",
        "unknown member",
        "no such topic",
        "not coordinator",
        "loading",
        "metadata too large",
    ],
)
async def test_a_refused_commit_names_its_partitions_and_whether_it_is_retriable(
    codes: tuple[int, ...],
    refusal: type[BrokerError | CommitFailedError],
    retriable: bool,
    partitions: tuple[TopicPartition, ...] | None,
) -> None:
    cluster = commit_answer(*codes)
    with pytest.raises(refusal) as caught:
        await commit_offsets(
            cast(Cluster, cluster), "g", {ZERO: OffsetAndMetadata(1), ONE: OffsetAndMetadata(2)}
        )
    assert caught.value.retriable is retriable
    assert cluster.forgot is (16 in codes)
    for index, code in enumerate(codes):
        assert (f"t-{index}" in str(caught.value)) is (code != 0)
    if isinstance(caught.value, CommitFailedError):
        assert caught.value.partitions == partitions


class Moved:
    """Stands for a cluster whose metadata name a leader that is gone, until they are renewed."""

    def __init__(self, failure: KohortError) -> None:
        self.failure = failure
        self.metadata = SimpleNamespace(topics={"t": None})
        self.renewed: list[set[str]] = []

    def leader(self, partition: TopicPartition) -> SimpleNamespace:
        return SimpleNamespace(leader=1, leader_epoch=0)

    def __getattr__(self, name: str) -> Never:
        raise self.failure

    async def refresh_metadata(self, topics: set[str]) -> None:
        self.renewed.append(topics)


@pytest.mark.parametrize(
    "failure",
    [
        NetworkError("no connection"),
        RequestTimeoutError("no answer"),
        BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_failed_offset_lookup_refreshes_metadata(
    failure: KohortError,
) -> None:
    cluster = Moved(failure)
    with pytest.raises(type(failure)):
        await list_offsets(cast(Cluster, cluster), {ZERO: LATEST})
    assert cluster.renewed == [{"t"}]
