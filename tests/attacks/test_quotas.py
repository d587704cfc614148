"""A client with a hundredth of the loop takes about that, whatever it asks, by many connections, too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.schema import Message
from tests.attacks.answers import codes_in
from tests.attacks.trial import SETTINGS, scratch
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess
from tests.messages import message_of
from tests.repetitions import some_by_day

CONNECTIONS = 12
WARMED_UP_S, MEASURED_S = 3.0, 6.0
CPU_PART_MAX = 0.06
"""A hundredth, what it takes to hold them back, and the broker's own: without quotas it is all of a core."""
GROUP_RESOURCE = 32

ASKED: dict[str, tuple[Message, int | None]] = {
    "ApiVersions": (ApiVersionsRequest(client_software_name="a", client_software_version="1"), None),
    "AddPartitionsToTxn": (
        message_of(
            AddPartitionsToTxnRequest,
            transactions=tuple(
                message_of(AddPartitionsToTxnTransaction, transactional_id=f"t{number}", verify_only=True)
                for number in range(500)
            ),
        ),
        4,
    ),
    "DescribeConfigs": (
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=GROUP_RESOURCE, resource_name=f"{number}", configuration_keys=None
                )
                for number in range(2_000)
            )
        ),
        None,
    ),
    "DescribeGroups": (DescribeGroupsRequest(groups=tuple(f"g{number}" for number in range(1_000))), None),
    "DescribeLogDirs": (DescribeLogDirsRequest(topics=None), None),
    "Metadata": (
        MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=f"t{number}") for number in range(5_000)),
            allow_auto_topic_creation=False,
        ),
        12,
    ),
}


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with scratch() as folder:
        process = BrokerProcess(folder, *SETTINGS)
        process.start()
        try:
            yield process
        finally:
            process.kill()


def allow(broker: BrokerProcess, percentage: float) -> None:
    """Give the attackers, by their client id, so much of the loop."""
    entity = AlterClientQuotasEntity(entity_type="client-id", entity_name="attacker")
    operation = AlterClientQuotasOperation(key="request_percentage", value=percentage, remove=False)
    entry = AlterClientQuotasEntry(entity=(entity,), ops=(operation,))
    line = Line(broker.address, client_id="admin")
    request = AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    answer = line.ask(request, AlterClientQuotasResponse)
    assert codes_in(answer) == {ErrorCode.NONE}
    line.close()


def cpu_part(pid: int, meanwhile: Callable[[float], object]) -> float:
    """Return which part of a core the process takes."""
    before_s, began_s = cpu_seconds(pid), time.monotonic()
    meanwhile(MEASURED_S)
    return (cpu_seconds(pid) - before_s) / (time.monotonic() - began_s)


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("name", some_by_day(ASKED, "ApiVersions", "DescribeConfigs"))
def test_a_hundredth_of_the_loop_is_no_more(
    broker: BrokerProcess, name: str, record_property: Callable[[str, object], None]
) -> None:
    allow(broker, 1)
    message, version = ASKED[name]
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            line = Line(broker.address, timeout_s=WARMED_UP_S + MEASURED_S)
            try:
                while not is_over.is_set():
                    line.send(message, version)
                    line.take()
            except OSError:
                pass
            finally:
                line.close()

    threads = [threading.Thread(target=ask) for _ in range(CONNECTIONS)]
    for each in threads:
        each.start()
    try:
        time.sleep(WARMED_UP_S)
        part = cpu_part(broker.pid, time.sleep)
    finally:
        is_over.set()
        for each in threads:
            each.join()
    record_property("cpu_part", round(part, 3))
    assert part < CPU_PART_MAX
    assert broker.is_running()
