"""Several processes behind one address: what is spread over them, who dies, and what is found again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_of
from prometheus_client.parser import text_string_to_metric_families as metrics_of

from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.workers.workers_process import PATIENCE_SECONDS, WorkersProcess, is_there

PARTITIONS = 8
GROUPS = 12


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[WorkersProcess]:
    """Two workers."""
    process = WorkersProcess(tmp_path)
    process.start()
    yield process
    end(process)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersProcess]:
    """Two workers for all tests that leave them running; each makes topics and groups of its own."""
    process = WorkersProcess(tmp_path_factory.mktemp("calm"))
    process.start()
    yield process
    end(process)


def end(process: WorkersProcess) -> None:
    """Kill the supervisor, and return when its workers have ended by themselves."""
    process.kill()
    wait_until(lambda: not any(map(is_there, process.pids())), "the workers end", PATIENCE_SECONDS)


def create(bootstrap: str, name: str, partitions: int = PARTITIONS, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(PATIENCE_SECONDS)


def leaders(bootstrap: str, name: str) -> dict[int, int]:
    """Return who leads each partition, -1 for nobody."""
    listed = AdminClient({"bootstrap.servers": bootstrap}).list_topics(name, timeout=PATIENCE_SECONDS)
    return {index: each.leader for index, each in listed.topics[name].partitions.items()}


def produce(bootstrap: str, name: str, values: range, partitions: int = PARTITIONS) -> None:
    """Write values, as many to each partition, and return when all are acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(
            name,
            str(value),
            partition=value % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert failed == []


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )


def read(reader: Consumer, count: int) -> set[int]:
    """Return the values of the next records, committed. Raises: AssertionError where one comes twice."""
    found: Counter[int] = Counter()

    def has_all() -> bool:
        for message in reader.consume(count - found.total(), 0.2):
            assert message.error() is None
            found[int(message.value() or b"-1")] += 1
        return found.total() >= count

    wait_until(has_all, f"{count} records are read", PATIENCE_SECONDS)
    assert set(found.values()) == {1}
    reader.commit(asynchronous=False)
    return set(found)


def coordinator(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    return int(described.coordinator.id)


# -- what is spread ---------------------------------------------------------------------------------------


def test_partitions_and_groups_are_spread_over_the_workers(calm: WorkersProcess) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    assert Counter(leaders(calm.bootstrap, name).values()) == {1: 4, 2: 4}
    produce(calm.bootstrap, name, range(80))
    where = Counter[int]()
    for group in (f"{name}-{number}" for number in range(GROUPS)):
        reader = consumer(calm.bootstrap, group)
        reader.subscribe([name])
        assert read(reader, 80) == set(range(80))
        where[coordinator(calm.bootstrap, group)] += 1
        reader.close()
    assert set(where) == {1, 2}


def test_each_worker_has_its_own_port_beside_the_shared_one(calm: WorkersProcess) -> None:
    brokers = AdminClient({"bootstrap.servers": calm.bootstrap}).list_topics(timeout=PATIENCE_SECONDS).brokers
    assert set(brokers) == {1, 2}
    ports = {each.port for each in brokers.values()}
    assert len(ports) == 2
    assert calm.address[1] not in ports


def test_one_member_reads_partitions_of_both_workers_with_kafka_python(calm: WorkersProcess) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    writer = kafka.KafkaProducer(bootstrap_servers=calm.bootstrap)
    for value in range(40):
        writer.send(name, str(value).encode(), partition=value % PARTITIONS)
    writer.flush(PATIENCE_SECONDS)
    writer.close()
    reader = kafka.KafkaConsumer(
        name, bootstrap_servers=calm.bootstrap, group_id=name, auto_offset_reset="earliest"
    )
    found: set[int] = set()

    def has_all() -> bool:
        polled = reader.poll(200)
        found.update(int(record.value) for records in polled.values() for record in records)
        return len(found) >= 40

    wait_until(has_all, "all is read", PATIENCE_SECONDS)
    reader.commit()
    reader.close()
    assert found == set(range(40))


def test_members_share_partitions_of_both_workers_with_aiokafka(calm: WorkersProcess) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    produce(calm.bootstrap, name, range(40))

    async def shared() -> list[int]:
        members = [
            aiokafka.AIOKafkaConsumer(
                name, bootstrap_servers=calm.bootstrap, group_id=name, auto_offset_reset="earliest"
            )
            for _ in range(2)
        ]
        found: list[int] = []
        try:
            for each in members:
                await each.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not all(len(each.assignment()) == PARTITIONS // 2 for each in members):
                    await asyncio.sleep(0.05)
                while len(set(found)) < 40:
                    for each in members:
                        polled = await each.getmany(timeout_ms=100)
                        found += [int(record.value) for records in polled.values() for record in records]
        finally:
            for each in members:
                await each.stop()
        return found

    assert set(asyncio.run(shared())) == set(range(40))


def test_workers_of_one_host_do_not_replicate(calm: WorkersProcess) -> None:
    with pytest.raises(KafkaException, match="workers of one host are one"):
        create(calm.bootstrap, uuid4().hex, 2, replicas=2)


def test_a_transaction_over_both_workers_is_atomic(calm: WorkersProcess) -> None:
    source, name = uuid4().hex, uuid4().hex
    create(calm.bootstrap, source)
    create(calm.bootstrap, name)
    produce(calm.bootstrap, source, range(16))
    for number, is_aborted in enumerate((False, True, False, True, False, False)):
        writer = Producer({"bootstrap.servers": calm.bootstrap, "transactional.id": f"{name}-{number}"})
        reader = consumer(calm.bootstrap, f"{name}-{number}")
        reader.subscribe([source])
        read(reader, 16)
        writer.init_transactions(PATIENCE_SECONDS)
        writer.begin_transaction()
        for partition in range(PARTITIONS):
            writer.produce(name, str(number * PARTITIONS + partition), partition=partition)
        offsets = [TopicPartition(source, index, 1) for index in range(PARTITIONS)]
        writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE_SECONDS)
        if is_aborted:
            writer.abort_transaction(PATIENCE_SECONDS)
        else:
            writer.commit_transaction(PATIENCE_SECONDS)
        expected = 2 if is_aborted else 1
        committed = reader.committed(offsets, PATIENCE_SECONDS)
        assert [each.offset for each in committed] == [expected] * PARTITIONS
        reader.close()
    reader = consumer(calm.bootstrap, name)
    reader.subscribe([name])
    rounds = (0, 2, 4, 5)
    assert read(reader, 32) == {each * PARTITIONS + index for each in rounds for index in range(PARTITIONS)}
    reader.close()


def test_the_command_line_sees_one_cluster(calm: WorkersProcess) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    produce(calm.bootstrap, name, range(8))
    reader = consumer(calm.bootstrap, name)
    reader.subscribe([name])
    read(reader, 8)
    reader.close()
    told = kohort(calm, "cluster", "describe", "--json")
    assert [each["id"] for each in json.loads(told)["brokers"]] == [1, 2]
    assert name in kohort(calm, "groups", "list")
    wait_until(lambda: "joined" in kohort(calm, "groups", "explain", name), "why is told", PATIENCE_SECONDS)


def kohort(process: BrokerProcess, *arguments: str) -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "kohort.cli", *arguments, "--bootstrap-server", process.bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


# -- who dies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
def test_a_killed_worker_is_restarted_with_its_data_and_no_group_rebalances(
    workers: WorkersProcess, number: int
) -> None:
    create(workers.bootstrap, "orders")
    produce(workers.bootstrap, "orders", range(80))
    readers = {}
    for group in (f"group-{each}" for each in range(4)):
        readers[group] = consumer(workers.bootstrap, group)
        readers[group].subscribe(["orders"])
        read(readers[group], 80)
    admin = AdminClient({"bootstrap.servers": workers.bootstrap})

    workers.kill_worker(number)

    wait_until(
        lambda: set(leaders(workers.bootstrap, "orders").values()) == {1, 2}, "all are led", PATIENCE_SECONDS
    )
    produce(workers.bootstrap, "orders", range(80, 160))
    for group, reader in readers.items():
        assert read(reader, 80) == set(range(80, 160)), "from where the group had come to"
        (described,) = admin.describe_consumer_groups([group]).values()
        assert described.result(PATIENCE_SECONDS).state == ConsumerGroupState.STABLE
        reader.close()
    began = [each for each in workers.log_lines() if "rebalance begins" in each and "a member joined" in each]
    assert len(began) == len(readers)


def test_a_worker_that_is_killed_repeatedly_is_restarted_each_time(
    workers: WorkersProcess,
) -> None:
    create(workers.bootstrap, "orders")
    for round_ in range(3):
        produce(workers.bootstrap, "orders", range(round_ * 8, round_ * 8 + 8))
        workers.kill_worker(2)
    reader = consumer(workers.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, 24) == set(range(24))
    reader.close()


def test_both_workers_are_killed_at_once_and_restarted(workers: WorkersProcess) -> None:
    create(workers.bootstrap, "orders")
    produce(workers.bootstrap, "orders", range(80))
    for pid in [workers.worker_pid(1), workers.worker_pid(2)]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(workers.starts()) == 4, "both serve again", PATIENCE_SECONDS)
    reader = consumer(workers.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, 80) == set(range(80))
    reader.close()


def test_a_killed_supervisor_ends_its_workers_and_the_next_one_has_their_data(
    workers: WorkersProcess,
) -> None:
    create(workers.bootstrap, "orders")
    produce(workers.bootstrap, "orders", range(80))
    reader = consumer(workers.bootstrap, "readers")
    reader.subscribe(["orders"])
    read(reader, 80)
    reader.close()
    before = leaders(workers.bootstrap, "orders")
    pids = workers.pids()

    workers.kill()
    workers.start()  # While the workers may still write what they have.

    wait_until(lambda: not any(map(is_there, pids)), "the first workers have ended", PATIENCE_SECONDS)
    wait_until(lambda: leaders(workers.bootstrap, "orders") == before, "all are led", PATIENCE_SECONDS)
    produce(workers.bootstrap, "orders", range(80, 160))
    reader = consumer(workers.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, 80) == set(range(80, 160)), "what was committed counts"
    reader.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_stops_all_workers_cleanly(workers: WorkersProcess, how: signal.Signals) -> None:
    create(workers.bootstrap, "orders")
    produce(workers.bootstrap, "orders", range(80))
    assert workers.stop(how) == 0
    assert not any(map(is_there, workers.pids()))
    parts = [workers.data, workers.data / "workers" / "2"]
    assert all((each / ".kafka_cleanshutdown").exists() for each in parts)
    workers.start()
    reader = consumer(workers.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, 80) == set(range(80))
    reader.close()


def test_a_worker_killed_during_a_transaction_leaves_it_atomic(
    workers: WorkersProcess,
) -> None:
    create(workers.bootstrap, "orders")
    kept: set[int] = set()
    for number in range(4):
        writer = Producer({"bootstrap.servers": workers.bootstrap, "transactional.id": f"writer-{number}"})
        writer.init_transactions(PATIENCE_SECONDS)
        writer.begin_transaction()
        values = {number * PARTITIONS + partition for partition in range(PARTITIONS)}
        for value in values:
            writer.produce("orders", str(value), partition=value % PARTITIONS)
        assert writer.flush(PATIENCE_SECONDS) == 0
        os.kill(workers.worker_pid(1 + number % 2), signal.SIGKILL)
        try:
            writer.commit_transaction(PATIENCE_SECONDS)
            kept |= values
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            writer.abort_transaction(PATIENCE_SECONDS)
        wait_until(lambda wanted=3 + number: len(workers.starts()) >= wanted, "it is back", PATIENCE_SECONDS)  # type: ignore[misc]
    produce(workers.bootstrap, "orders", range(1_000, 1_008))
    kept |= set(range(1_000, 1_008))
    reader = consumer(workers.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, len(kept)) == kept
    reader.close()


# -- how many ---------------------------------------------------------------------------------------------


def refusal(process: WorkersProcess) -> str:
    """Return what it says where it does not start."""
    with pytest.raises(AssertionError):
        process.start()
    process.kill()
    return process.log_lines()[-1]


def test_workers_can_be_added_and_only_empty_ones_removed(tmp_path: Path) -> None:
    two = WorkersProcess(tmp_path)
    two.start()
    create(two.bootstrap, "orders")
    produce(two.bootstrap, "orders", range(80))
    assert two.stop() == 0

    three = WorkersProcess(tmp_path, 3)
    three.start()
    create(three.bootstrap, "payments", 9)
    assert Counter(leaders(three.bootstrap, "payments").values()) == {1: 3, 2: 3, 3: 3}
    assert set(leaders(three.bootstrap, "orders").values()) == {1, 2}
    assert three.stop() == 0

    assert "give --workers 3" in refusal(two)
    assert "give --workers 3" in refusal(WorkersProcess(tmp_path, None))

    three.start()
    kohort(three, "cluster", "reassign", "--without", "3", "--wait")
    assert three.stop() == 0

    two.start()
    reader = consumer(two.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, 80) == set(range(80))
    reader.close()
    end(two)


def test_the_first_worker_has_the_data_of_a_single_process(tmp_path: Path) -> None:
    alone = WorkersProcess(tmp_path, None)
    alone.start()
    create(alone.bootstrap, "orders")
    produce(alone.bootstrap, "orders", range(80))
    reader = consumer(alone.bootstrap, "readers")
    reader.subscribe(["orders"])
    read(reader, 80)
    reader.close()
    assert alone.starts() == [], "one process is today's broker"
    assert alone.stop() == 0

    two = WorkersProcess(tmp_path)
    two.start()
    wait_until(lambda: set(leaders(two.bootstrap, "orders").values()) == {1}, "all are led", PATIENCE_SECONDS)
    produce(two.bootstrap, "orders", range(80, 160))
    reader = consumer(two.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert read(reader, 80) == set(range(80, 160))
    reader.close()
    create(two.bootstrap, "payments")
    assert set(leaders(two.bootstrap, "payments").values()) == {1, 2}
    end(two)


def test_two_supervisors_do_not_share_a_folder(workers: WorkersProcess, tmp_path: Path) -> None:
    assert "is in use by another process" in refusal(WorkersProcess(tmp_path))


# -- the pages --------------------------------------------------------------------------------------------


def get(process: BrokerProcess, path: str, accept: str = "*/*") -> str:
    """Return what an HTTP client hears at a path."""
    asked = Request(f"http://{process.http}{path}", headers={"accept": accept})
    with urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize("accept", ["*/*", "application/openmetrics-text; version=1.0.0"])
def test_metrics_include_all_workers_with_their_numbers(calm: WorkersProcess, accept: str) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    produce(calm.bootstrap, name, range(80))
    sizes: dict[str, str] = {}

    def are_all_there() -> bool:
        page = get(calm, "/metrics", accept)
        parse = openmetrics_of if accept != "*/*" else metrics_of
        families = list(parse(page))
        assert len({each.name for each in families}) == len(families), "each metric stands in one place"
        samples = [sample for family in families for sample in family.samples]
        assert {sample.labels.get("worker") for sample in samples} == {"1", "2"}
        ends = {
            (sample.labels["partition"], sample.labels["worker"]): sample.value
            for sample in samples
            if sample.name == "kohort_log_end_offset" and sample.labels["topic"] == name
        }
        sizes.update(dict(ends.keys()))
        return len(ends) == PARTITIONS and set(ends.values()) == {10}

    wait_until(are_all_there, "what was written is counted", PATIENCE_SECONDS)
    assert sizes == {str(index): str(each) for index, each in leaders(calm.bootstrap, name).items()}


def test_groups_of_all_workers_are_at_one_address(calm: WorkersProcess) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    produce(calm.bootstrap, name, range(8))
    groups = [f"{name}-{number}" for number in range(GROUPS)]
    for group in groups:
        reader = consumer(calm.bootstrap, group)
        reader.subscribe([name])
        read(reader, 8)
        reader.close()
    told = json.loads(get(calm, "/api/v1/groups"))
    assert set(groups) <= {each["group_id"] for each in told["groups"]}
    assert told["loading"] == []
    for group in groups:
        assert json.loads(get(calm, f"/api/v1/groups/{group}"))["group_id"] == group
    with pytest.raises(HTTPError, match="404"):
        get(calm, f"/api/v1/groups/{uuid4().hex}")
    by_worker = [json.loads(get(calm, f"/workers/{each}/api/v1/groups"))["groups"] for each in (1, 2)]
    seen = [{each["group_id"] for each in some} & set(groups) for some in by_worker]
    assert all(seen)
    assert seen[0] | seen[1] == set(groups)
    assert not seen[0] & seen[1]


def test_the_lag_of_a_group_is_that_in_the_partitions_of_all_workers(calm: WorkersProcess) -> None:
    name = uuid4().hex
    create(calm.bootstrap, name)
    assert len(set(leaders(calm.bootstrap, name).values())) > 1
    produce(calm.bootstrap, name, range(10 * PARTITIONS))
    reader = consumer(calm.bootstrap, name)
    reader.commit(offsets=[TopicPartition(name, index, 1) for index in range(PARTITIONS)], asynchronous=False)
    reader.close()
    found = json.loads(get(calm, f"/api/v1/groups/{name}"))
    assert found["lag"] == 9 * PARTITIONS
    assert {(each["lag"], each["lag_seconds"] is None) for each in found["offsets"]} == {(9, False)}


def test_the_page_of_each_worker_lists_the_others(calm: WorkersProcess) -> None:
    for path in ("/", "/workers/1/", "/workers/2/"):
        assert '<meta name="workers" content="1 2">' in get(calm, path, "text/html")
    assert json.loads(get(calm, "/workers/2/api/v1/live/groups"))["groups"] is not None
    for path in ("/workers/3/", "/workers/2/api/v1/live/groups/events", "/workers/2/nothing"):
        with pytest.raises(HTTPError, match="404"):
            get(calm, path)


def test_readiness_covers_all_workers_and_names_those_not_ready(workers: WorkersProcess) -> None:
    assert json.loads(get(workers, "/health/ready")) == {"status": "ready", "reasons": []}
    os.kill(workers.worker_pid(2), signal.SIGSTOP)
    with pytest.raises(HTTPError, match="503") as refused:
        get(workers, "/health/ready")
    assert json.load(refused.value)["reasons"] == ["worker 2: it does not answer"]
    assert 'worker="1"' in get(workers, "/metrics")
    os.kill(workers.worker_pid(2), signal.SIGCONT)
    wait_until(lambda: is_ready(workers), "all are ready", PATIENCE_SECONDS)


def is_ready(process: BrokerProcess) -> bool:
    try:
        return bool(json.loads(get(process, "/health/ready"))["status"] == "ready")
    except HTTPError:
        return False
