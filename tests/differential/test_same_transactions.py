"""The same conversations of a transactional producer on kohort and on Apache Kafka 4.3.1, by seed, by night.

A producer asks as it should, and also by the epoch before or behind its own: late, twice, or as somebody who
is fenced. What both brokers answer has to be the same: codes, and how its epoch goes on. But for one thing:
where the old protocol has ended a transaction, Apache Kafka takes an end by the epoch before, in the new one,
for the same that is asked again. That epoch was somebody else's, who is fenced, and is told so here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest
import trio

from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import build_batch
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.differential.wire import Connection
from tests.interop.broker_process import BrokerProcess
from tests.repetitions import repetitions

SETTINGS = (
    "offsets.topic.replication.factor=1",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
)
TOPIC, GROUP = "written", "readers"
STEPS = 40
LATER = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""What both say while something is made, loaded, or ended: asked again until it is something else."""
RETRY_S, RETRIED_S, PATIENCE_S = 0.02, 2.0, 20.0
Step = tuple[str, int, int, bool]
"""What is asked, in which version, by an epoch how far from the newest, and whether to commit."""
ASKED = (
    ("InitProducerId", (4,)),
    ("InitProducerId as before", (4,)),
    ("AddPartitionsToTxn", (3,)),
    ("AddOffsetsToTxn", (3,)),
    ("Produce", (11, 12)),
    ("Produce", (11, 12)),
    ("TxnOffsetCommit", (3, 5)),
    ("EndTxn", (3, 5)),
    ("EndTxn", (3, 5, 5)),
)


def script(seed: int, *, is_mixed: bool = False) -> list[Step]:
    """Return what is asked of both: by one protocol or, as nobody should, by now the one, now the other."""
    dice = Random(seed)
    steps: list[Step] = [("InitProducerId", 4, 0, True)]
    kind = dice.choice((0, -1))  # Which protocol the producer speaks.
    asked = [each for each in ASKED if is_mixed or not kind or not each[0].startswith("Add")]
    for _ in range(STEPS):
        name, versions = dice.choice(asked)
        kind = dice.choice((0, -1)) if is_mixed else kind
        shift = dice.choice((0, 0, 0, 0, -1, -1, 1))
        if name == "Produce":  # Of one by an epoch that nobody has yet, Apache Kafka remembers the sequence.
            shift = min(0, shift)
        steps.append((name, versions[kind], shift, dice.random() < 0.6))
    return steps


class Side:
    """One broker, and the producer as that one knows it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = Connection(address)
        self._transactional_id = ""
        self._identity = (-1, -1)
        self._base = 0
        self._sequences: dict[int, int] = {}

    def close(self) -> None:
        self._connection.close()

    async def prepare(self) -> None:
        """Make the topic, which is there when this returns."""
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        message = _message(BY_NAME["CreateTopics"].request, {"topics": [topic], "timeout_ms": 10_000})
        await self._connection.ask("CreateTopics", 5, message)
        for key_type in (0, 1):  # Apache Kafka makes a coordinator's topic for who looks for it.
            look_up = _message(
                BY_NAME["FindCoordinator"].request, {"coordinator_keys": [GROUP], "key_type": key_type}
            )
            with trio.fail_after(PATIENCE_S):
                while True:
                    answer: Any = await self._connection.ask("FindCoordinator", 4, look_up)
                    if not answer.coordinators[0].error_code:
                        break
                    await trio.sleep(RETRY_S)

    async def play(self, transactional_id: str, steps: list[Step]) -> list[tuple[object, ...]]:
        """Return what each step was answered."""
        self._transactional_id, self._base, self._sequences = transactional_id, 0, {}
        self._identity = (-1, -1)
        return [await self._step(step) for step in steps]

    async def _step(self, step: Step) -> tuple[object, ...]:
        name, version, shift, is_commit = step
        api = name.partition(" ")[0]
        identity = (self._identity[0], max(0, self._identity[1] + shift))
        message = _message(BY_NAME[api].request, self._fields(name, identity, is_commit=is_commit))
        deadline_s = trio.current_time() + RETRIED_S  # Some things stay as they are.
        while True:
            answer: Any = await self._connection.ask(api, version, message)
            if _code(answer) not in LATER or trio.current_time() > deadline_s:
                break
            await trio.sleep(RETRY_S)
        code = _code(answer)
        if api == "Produce" and not code:
            self._sequences[identity[1]] = self._sequences.get(identity[1], 0) + 1
        if not code and (api == "InitProducerId" or (api == "EndTxn" and version >= 5)):
            if self._identity[0] < 0:
                self._base = answer.producer_epoch
            self._identity = (answer.producer_id, answer.producer_epoch)
        await self._settle()
        return (*step, ErrorCode(code).name, self._identity[1] - self._base)

    async def _settle(self) -> None:
        """Return when no markers are on their way: what is asked then does not depend on them."""
        message = _message(
            BY_NAME["DescribeTransactions"].request, {"transactional_ids": [self._transactional_id]}
        )
        with trio.fail_after(PATIENCE_S):
            while True:
                answer: Any = await self._connection.ask("DescribeTransactions", 0, message)
                if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
                    return
                await trio.sleep(RETRY_S)

    def _fields(self, name: str, identity: tuple[int, int], *, is_commit: bool) -> dict[str, Any]:
        transactional_id, (producer_id, epoch) = self._transactional_id, identity
        of = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}
        if name.startswith("InitProducerId"):
            fields = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
            return {**fields, "producer_id": producer_id, "producer_epoch": epoch} if " " in name else fields
        if name == "AddPartitionsToTxn":
            return {
                "v3_and_below_transactional_id": transactional_id,
                "v3_and_below_producer_id": producer_id,
                "v3_and_below_producer_epoch": epoch,
                "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
            }
        if name == "AddOffsetsToTxn":
            return {**of, "group_id": GROUP}
        if name == "TxnOffsetCommit":
            offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
            return {**of, "group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [offset]}]}
        if name == "EndTxn":
            return {**of, "committed": is_commit}
        batch = build_batch(
            [(1, None, b"v", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences.get(epoch, 0),
            is_transactional=True,
        )
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        return {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5_000, "topic_data": data}


def _is_fenced_here(own: tuple[object, ...], kafkas: tuple[object, ...]) -> bool:
    """Return whether an end by the epoch before is refused here, and would not be if it were one's own."""
    name, version, shift, _, code, *rest = own
    return (
        (name, version, code) == ("EndTxn", 5, ErrorCode.PRODUCER_FENCED.name)
        and shift == -1
        and kafkas[4] in (ErrorCode.NONE.name, ErrorCode.INVALID_TXN_STATE.name)
        and rest == list(kafkas[5:])
    )


def _message(of: type[Message], values: dict[str, Any]) -> Message:
    """Return a message of plain values, those of the structs in it as dictionaries."""
    structs = {each.name: each.struct for each in of.declaration().fields}
    return of(
        **{
            name: tuple(_message(structs[name], each) if isinstance(each, dict) else each for each in value)
            if isinstance(value, list)
            else value
            for name, value in values.items()
        }
    )


def _code(answer: Any) -> int:
    """Return the code of an answer that speaks of one thing."""
    if hasattr(answer, "responses"):
        return int(answer.responses[0].partition_responses[0].error_code)
    if hasattr(answer, "results_by_topic_v3_and_below"):
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    if hasattr(answer, "topics"):
        return int(answer.topics[0].partitions[0].error_code)
    return int(answer.error_code)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[str, int], ...]]:
    """Where kohort and Apache Kafka listen."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), *SETTINGS)
    try:
        kafka.start()
    except MissingTool as missing:
        pytest.skip(str(missing))
    kohort = BrokerProcess(tmp_path_factory.mktemp("kohort"), *SETTINGS)
    kohort.start()
    yield kohort.address, kafka.address
    kohort.stop()
    kafka.stop()


@pytest.mark.parametrize("is_mixed", [False, True], ids=["one-protocol", "both-protocols"])
@pytest.mark.parametrize("seed", range(repetitions(0, by_night=100)))
async def test_both_brokers_answer_a_transactional_producer_in_the_same_way(
    addresses: tuple[tuple[str, int], ...], seed: int, *, is_mixed: bool
) -> None:
    steps, told = script(seed, is_mixed=is_mixed), []
    for address in addresses:
        with closing(Side(address)) as side:
            await side.prepare()
            told.append(await side.play(f"id-{seed}-{is_mixed}", steps))
    for place, (own, kafkas) in enumerate(zip(*told, strict=True)):
        if is_mixed and _is_fenced_here(own, kafkas):
            continue
        assert own == kafkas, told[0][max(0, place - 4) : place + 1]
