"""Counts, a number a transaction: to two partitions, and as a group's offset. Killed by who runs it.

    python -m tests.crash.transactional_counter LIBRARY BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID

The group's offset says which number is next: what a transaction that was cut off has left, it writes again.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kohort import client

OPERATION_TIMEOUT_S = 10.0
ABORTED_ONE_IN = 5
QUICK_TO_RETURN = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}


def main(library: str, bootstrap: str, topic: str, group: str, transactional_id: str) -> None:
    """Count until killed; after any error from the offset that was committed last."""
    turn = {"confluent-kafka": count, "kohort": count_by_kohort}[library]
    while True:
        try:
            turn(bootstrap, topic, group, transactional_id)
        except (KafkaException, client.KohortError):
            time.sleep(0.05)


def count(bootstrap: str, topic: str, group: str, transactional_id: str) -> None:
    """Count until something fails."""
    common = {"bootstrap.servers": bootstrap, **QUICK_TO_RETURN}
    consumer = Consumer({**common, "group.id": group, "enable.auto.commit": False})
    producer = Producer(
        {**common, "transactional.id": transactional_id, "linger.ms": 0, "transaction.timeout.ms": 20_000}
    )
    try:
        producer.init_transactions(OPERATION_TIMEOUT_S)
        number = next_number(consumer, topic)
        for turn in range(1_000_000):
            is_aborted = turn % ABORTED_ONE_IN == ABORTED_ONE_IN - 1
            producer.begin_transaction()
            for index in (0, 1):
                value = b"never" if is_aborted else b"%d" % number
                producer.produce(topic, value, partition=index)
            offset = TopicPartition(topic, 0, number + 1_000 if is_aborted else number + 1)
            producer.send_offsets_to_transaction(
                [offset], consumer.consumer_group_metadata(), OPERATION_TIMEOUT_S
            )
            if is_aborted:
                producer.flush(OPERATION_TIMEOUT_S)
                producer.abort_transaction(OPERATION_TIMEOUT_S)
            else:
                producer.commit_transaction(OPERATION_TIMEOUT_S)
                number += 1
    finally:
        consumer.close()


def count_by_kohort(bootstrap: str, topic: str, group: str, transactional_id: str) -> None:
    """Count until something fails, by kohort's own client."""
    with (
        client.Producer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=20_000,
            linger_ms=0,
        ) as producer,
        client.Admin(bootstrap_servers=bootstrap) as admin,
    ):
        producer.init_transactions()
        place = client.TopicPartition(topic, 0)
        committed = admin.list_group_offsets(group).get(place)
        number = 0 if committed is None else committed.offset
        for turn in range(1_000_000):
            if turn % ABORTED_ONE_IN == ABORTED_ONE_IN - 1:
                producer.begin_transaction()
                for index in (0, 1):
                    producer.send(topic, b"never", partition=index)
                producer.send_offsets({place: number + 1_000}, group)
                producer.flush()
                producer.abort_transaction()
            else:
                with producer.transaction():
                    for index in (0, 1):
                        producer.send(topic, b"%d" % number, partition=index)
                    producer.send_offsets({place: number + 1}, group)
                number += 1


def next_number(consumer: Consumer, topic: str) -> int:
    """Return what the group has committed; librdkafka asks for it when it is stable."""
    (committed,) = consumer.committed([TopicPartition(topic, 0)], OPERATION_TIMEOUT_S)
    if committed.error is not None:
        raise KafkaException(committed.error)
    return max(0, committed.offset)


if __name__ == "__main__":
    main(*sys.argv[1:])
