"""Kafka's tool for transactions prints the same against kohort and Apache Kafka.

As `test_same_prints.py` has it for topics and groups. What is each broker's own (ids of producers, times) is
left out of the tables. `make interop` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from tests.interop.test_same_prints import Pair, refusal, two_brokers

TOOL = "kafka-transactions"
STATE = ("transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1")
TIMEOUT_S = 30.0
OPEN, COMMITTED, ABORTED = "open-1", "committed-1", "aborted-1"
OWN = {"ProducerId", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "LastTimestamp"}
REFUSED = {
    "an id that nobody has": ("describe", "--transactional-id", "nobody"),
    "a state that there is not": ("list", "--transactional-id-pattern", "("),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two brokers, on each of which one transaction is open, one was committed and one aborted."""
    with two_brokers(tmp_path_factory, of_kafka=STATE) as found:
        open_ones = [begin_transactions(each) for each in found.addresses.values()]
        yield found
        del open_ones


def begin_transactions(bootstrap: str) -> Producer:
    """Bring a broker into the state; return the producer whose transaction is open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", 2, 1)]).values():
        made.result(TIMEOUT_S)
    producers = {}
    for transactional_id in (COMMITTED, ABORTED, OPEN):
        producer = producers[transactional_id] = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", b"1", partition=0)
        assert not producer.flush(TIMEOUT_S)
        if transactional_id == COMMITTED:
            producer.commit_transaction(TIMEOUT_S)
        elif transactional_id == ABORTED:
            producer.abort_transaction(TIMEOUT_S)
    return producers[OPEN]


def tables(pair: Pair, *arguments: str) -> list[list[dict[str, str]]]:
    """Return the rows that the tool prints against each broker, without what is a broker's own."""
    found = []
    for address in pair.addresses.values():
        answer = pair.tools.run(TOOL, "--bootstrap-server", address, *arguments)
        assert answer.status == 0, answer
        head, *rows = answer.rows() or [[]]
        found.append(
            sorted(
                (
                    {name: value for name, value in zip_longest(head, row, fillvalue="") if name not in OWN}
                    for row in rows
                ),
                key=str,
            )
        )
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("describe", "--transactional-id", OPEN),
        ("describe", "--transactional-id", COMMITTED),
        ("describe", "--transactional-id", ABORTED),
        ("describe-producers", "--topic", "orders", "--partition", "0"),
        ("describe-producers", "--topic", "orders", "--partition", "1"),
        ("find-hanging", "--topic", "orders"),
        ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1"),
    ],
    ids=" ".join,
)
def test_transaction_commands_print_the_same(pair: Pair, arguments: tuple[str, ...]) -> None:
    ours, theirs = tables(pair, *arguments)
    assert ours == theirs


@pytest.mark.parametrize("what", REFUSED)
def test_refused_commands_are_refused_in_the_same_way(pair: Pair, what: str) -> None:
    ours, theirs = (pair.printed(where, TOOL, *REFUSED[what]) for where in pair.addresses)
    assert ours[0] == theirs[0]
    assert refusal(ours) == refusal(theirs)


def test_a_manual_abort_has_the_same_result(pair: Pair) -> None:
    row = ("--topic", "orders", "--partition", "0")
    before, same = tables(pair, "describe-producers", *row)
    assert before == same
    [start] = {each["CurrentTransactionStartOffset"] for each in before} - {"None"}
    pair.same(TOOL, "abort", *row, "--start-offset", start)
    ours, theirs = tables(pair, "describe-producers", *row)
    assert ours == theirs
    assert {each["CurrentTransactionStartOffset"] for each in ours} == {"None"}


def test_a_forced_termination_has_the_same_result(pair: Pair) -> None:
    pair.same(TOOL, "forceTerminateTransaction", "--transactionalId", OPEN)
    ours, theirs = tables(pair, "describe", "--transactional-id", OPEN)
    assert ours == theirs
    assert ours[0]["TransactionState"] == "Empty"
