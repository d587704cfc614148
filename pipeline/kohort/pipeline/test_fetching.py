"""Fetching one range from a broker that a test plays: what it tells, and how it fails."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from kohort.client.batch_table import read_batches
from kohort.client.columns import decode_batches
from kohort.client.errors import BrokerError, RequestTimeoutError
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.extents import extent
from kohort.pipeline.fetching import fetch_range
from kohort.pipeline.options import read_options
from kohort.pipeline.ranges import OffsetRange
from kohort.protocol.errors import ErrorCode
from kohort.protocol.framing import FrameReader
from kohort.protocol.headers import RequestHeader, ResponseHeader
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.records import ControlType, build_batch, build_transaction_marker
from kohort.protocol.registry import APIS
from kohort.protocol.schema import ZERO_UUID, Message

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 1, 2, 3, 18
SPOKEN = {FETCH: (4, 12), LIST_OFFSETS: (1, 7), METADATA: (4, 9), API_VERSIONS: (0, 3)}
Answer = PartitionData | None  # None: the connection breaks.


class PlayedBroker:
    """One partition, t-0, whose fetches a test answers; the rest is answered as any broker would."""

    def __init__(self, fetch: Callable[[int], Answer], log: tuple[int, int] = (0, 100)) -> None:
        self.fetched: list[int] = []
        self._fetch = fetch
        self._log = log
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            with peer, suppress(ConnectionError):  # Whoever has enough closes with bytes still on their way.
                self._talk(peer)

    def _talk(self, peer: socket.socket) -> None:
        reader = FrameReader(1 << 20)
        while data := peer.recv(65536):
            for frame in reader.receive(data):
                answer = self._answer(bytes(frame))
                if answer is None:
                    return
                peer.sendall(len(answer).to_bytes(4, "big") + answer)

    def _answer(self, frame: bytes) -> bytes | None:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        api = APIS[key]
        header_version = api.request_header_version(version)
        header = RequestHeader.decode(
            frame[: 8 + 2 + len("kohort-spark") + header_version - 1], header_version
        )
        body = frame[8 + 2 + len("kohort-spark") + header_version - 1 :]
        if key == API_VERSIONS and version > SPOKEN[key][1]:
            refused = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_versions()
            ).encode(0)
            return header.correlation_id.to_bytes(4, "big") + refused
        message = self._message(key, body, version)
        if message is None:
            return None
        prefix = ResponseHeader(correlation_id=header.correlation_id).encode(
            api.response_header_version(version)
        )
        return prefix + message.encode(version)

    def _message(self, key: int, body: bytes, version: int) -> Message | None:
        if key == API_VERSIONS:
            return ApiVersionsResponse(error_code=0, api_keys=_versions())
        if key == METADATA:
            return _metadata(self.port)
        if key == LIST_OFFSETS:
            asked = ListOffsetsRequest.decode(body, version).topics[0].partitions[0]
            offset = self._log[0] if asked.timestamp == -2 else self._log[1]
            told = ListOffsetsPartitionResponse(partition_index=0, error_code=0, timestamp=-1, offset=offset)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=(told,)),))
        wanted = FetchRequest.decode(body, version).topics[0].partitions[0]
        self.fetched.append(wanted.fetch_offset)
        data = self._fetch(wanted.fetch_offset)
        if data is None:
            return None
        return FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            responses=(FetchableTopicResponse(topic="t", topic_id=ZERO_UUID, partitions=(data,)),),
            node_endpoints=(),
        )


def _versions() -> tuple[ApiVersion, ...]:
    return tuple(
        ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in SPOKEN.items()
    )


def _metadata(port: int) -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,), offline_replicas=()
    )
    topic = MetadataResponseTopic(
        error_code=0, name="t", topic_id=ZERO_UUID, is_internal=False, partitions=(partition,)
    )
    broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
    return MetadataResponse(brokers=(broker,), cluster_id="c", controller_id=1, topics=(topic,))


def data(records: bytes = b"", code: int = 0, aborted: tuple[AbortedTransaction, ...] = ()) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=100,
        diverging_epoch=FetchResponseEpochEndOffset(),
        current_leader=FetchResponseLeaderIdAndEpoch(),
        snapshot_id=SnapshotId(),
        aborted_transactions=aborted,
        records=records,
    )


def batch(first: int, count: int, *, producer_id: int = -1) -> bytes:
    records = [(0, None, b"%d" % offset, ()) for offset in range(first, first + count)]
    of_producer = {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    }
    return build_batch(records, base_offset=first, **(of_producer if producer_id >= 0 else {}))  # type: ignore[arg-type]


@contextmanager
def played(fetch: Callable[[int], Answer], log: tuple[int, int] = (0, 100)) -> Iterator[PlayedBroker]:
    broker = PlayedBroker(fetch, log)
    yield broker
    broker.close()


def read(broker: PlayedBroker, start: int, end: int, **options: str) -> list[int]:
    """Return the offsets that a task reads of t-0."""
    given = {"bootstrap": f"127.0.0.1:{broker.port}", "topics": "t", "timeout_ms": "3000"} | options
    found: list[int] = []
    for fetched in fetch_range(read_options(given), OffsetRange("t", 0, start, end)):
        chunks = decode_batches(
            fetched.batches,
            fetch_offset=fetched.position,
            check_crcs=True,
            aborted=fetched.aborted,
            max_chunk_bytes=1 << 20,
        )
        found += [offset for chunk in chunks for offset in chunk.offsets.tolist() if offset < end]
    return found


def test_a_range_is_fetched_batch_after_batch_and_no_further_than_its_end() -> None:
    with played(lambda offset: data(batch(offset // 10 * 10, 10))) as broker:
        assert read(broker, 5, 35) == list(range(5, 35))
        assert broker.fetched == [5, 10, 20, 30]


def test_the_next_fetch_is_sent_before_the_current_one_is_used() -> None:
    with played(lambda offset: data(batch(offset, 10))) as broker:
        given = {"bootstrap": f"127.0.0.1:{broker.port}", "topics": "t"}
        fetches = fetch_range(read_options(given), OffsetRange("t", 0, 0, 20))
        assert next(fetches).position == 0
        for _ in range(1_000):
            if broker.fetched == [0, 10]:
                break
            threading.Event().wait(0.01)
        assert broker.fetched == [0, 10]
        fetches.close()


def test_a_broken_connection_loses_no_records() -> None:
    answers: Iterator[Answer] = iter([data(batch(0, 10)), None, None, data(batch(10, 10))])
    with played(lambda _offset: next(answers)) as broker:
        assert read(broker, 0, 20) == list(range(20))
        assert broker.fetched == [0, 10, 10, 10]


def test_a_moved_leader_is_looked_up_again() -> None:
    moved = data(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answers: Iterator[Answer] = iter([data(batch(0, 10)), moved, data(batch(10, 10))])
    with played(lambda _offset: next(answers)) as broker:
        assert read(broker, 0, 20) == list(range(20))


def test_aborted_transactions_are_skipped() -> None:
    end = build_transaction_marker(
        ControlType.ABORT, timestamp_ms=0, producer_id=7, producer_epoch=0, coordinator_epoch=0, base_offset=6
    )
    records = batch(0, 3, producer_id=7) + batch(3, 3) + end + batch(7, 2, producer_id=7)
    aborted = (AbortedTransaction(producer_id=7, first_offset=0),)
    with played(lambda _offset: data(records, aborted=aborted)) as broker:
        assert read(broker, 0, 9) == [3, 4, 5, 7, 8]


def test_records_deleted_during_a_task_are_an_error_unless_allowed() -> None:
    def fetch(offset: int) -> Answer:
        return data(code=ErrorCode.OFFSET_OUT_OF_RANGE) if offset < 10 else data(batch(offset, 10))

    with played(fetch, log=(10, 100)) as broker:
        with pytest.raises(
            DataLossError, match="t-0 holds offsets from 10 up to 100: from 0 on they were deleted"
        ):
            read(broker, 0, 20)
        assert read(broker, 0, 20, fail_on_data_loss="false") == list(range(10, 20))
    with played(fetch, log=(0, 5)) as broker:
        assert read(broker, 7, 9, fail_on_data_loss="false") == []


def test_a_broker_without_records_is_given_up() -> None:
    with (
        played(lambda _offset: data()) as broker,
        pytest.raises(RequestTimeoutError, match="gave nothing at offset 0"),
    ):
        read(broker, 0, 10, timeout_ms="200")


def test_a_refusal_is_an_error_at_once() -> None:
    with (
        played(lambda _offset: data(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)) as broker,
        pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        read(broker, 0, 10)
    assert broker.fetched == [0]


def test_the_extent_ends_before_a_truncated_batch_or_one_beyond_the_range() -> None:
    def found(records: bytes, position: int, end: int) -> tuple[int, int]:
        reached = extent(read_batches(memoryview(records)), position, end)
        return reached.batches.size_bytes, reached.next_offset

    records = batch(0, 3) + batch(5, 2) + batch(9, 1)
    size = len(batch(0, 3))
    assert found(records, 0, 100) == (len(records), 10)
    assert found(records[:-1], 0, 100) == (len(records) - len(batch(9, 1)), 7)
    assert found(records, 0, 3) == (size, 3)
    assert found(records, 0, 4) == (size, 4), "a gap of compaction lies at the end"
    assert found(b"", 4, 10) == (0, 4)


def test_records_before_a_damaged_batch_are_read() -> None:
    with played(lambda offset: data(batch(0, 3) + b"\0" * 100 if offset == 0 else b"\0" * 100)) as broker:
        given = {"bootstrap": f"127.0.0.1:{broker.port}", "topics": "t", "timeout_ms": "500"}
        fetches = fetch_range(read_options(given), OffsetRange("t", 0, 0, 20))
        assert next(fetches).batches.next_offsets.tolist() == [3]
        with pytest.raises(BrokerError, match="t-0: record batches of magic 0"):
            next(fetches)
