"""GetTelemetrySubscriptions and PushTelemetry, while nothing is asked for and while something is."""

import sys
from pathlib import Path
from uuid import UUID

from kohort.broker.handlers.administration.test_admin_support import AdminWorld
from kohort.broker.metadata import ConfigResource, Mutation, ResourceType, update
from kohort.broker.telemetry.test_otlp import metric, metrics_data, point
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kohort.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kohort.protocol.schema import ZERO_UUID

DATA = metrics_data(metric("a", point(2.0)), attributes=[("group_id", "billing")])


async def subscribe(world: AdminWorld, **configs: str) -> None:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "one")
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    await update(world.store, lambda _: Mutation(configs={resource: settings}))


async def ask(world: AdminWorld, instance_id: UUID = ZERO_UUID) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    return await world.ask(request, GetTelemetrySubscriptionsResponse)


async def push(world: AdminWorld, asked: GetTelemetrySubscriptionsResponse, data: bytes = DATA) -> int:
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=asked.subscription_id,
        terminating=False,
        compression_type=0,
        metrics=data,
    )
    return (await world.ask(request, PushTelemetryResponse)).error_code


async def test_a_client_is_given_an_id_and_asked_for_nothing_until_somebody_wants_something(
    tmp_path: Path,
) -> None:
    world = await AdminWorld(tmp_path).start()
    asked = await ask(world)
    assert asked.error_code == ErrorCode.NONE
    assert asked.client_instance_id.version == 4
    assert (asked.push_interval_ms, asked.requested_metrics) == (300_000, ())
    assert tuple(asked.accepted_compression_types) == (4, 3, 1, 2)
    assert (asked.telemetry_max_bytes, asked.delta_temporality) == (1_048_576, True)
    again = await ask(world, asked.client_instance_id)
    assert again.client_instance_id == asked.client_instance_id
    assert again.subscription_id == asked.subscription_id
    assert await push(world, asked, b"") == ErrorCode.NONE
    assert world.administration.telemetry.current() is None


async def test_metrics_are_asked_for_and_taken_and_no_longer(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await subscribe(world, metrics="a", interval_ms="1000", match="client_id=test")
    asked = await ask(world)
    assert (asked.push_interval_ms, tuple(asked.requested_metrics)) == (1_000, ("a",))
    assert await push(world, asked) == ErrorCode.NONE
    assert await push(world, asked) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (await ask(world, asked.client_instance_id)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    taken = world.administration.telemetry.current()
    assert taken is not None
    assert [each.values for each in taken.reports.values(world.now_ms)] == [{("a", ()): (2.0, False)}]
    await world.start()  # Another change of the metadata is no other subscription.
    world.now_ms += 1_000
    assert await push(world, asked) == ErrorCode.NONE
    await subscribe(world)
    assert await push(world, asked) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert (await ask(world, asked.client_instance_id)).requested_metrics == ()


def test_a_broker_that_is_asked_for_nothing_imports_nothing_of_it() -> None:
    """Every client of Java and librdkafka asks: it must cost no more than the answer."""
    import subprocess

    code = (
        "import sys, kohort.broker.handlers.administration.get_telemetry_subscriptions;"
        "sys.exit(any(each.startswith('kohort.broker.telemetry') for each in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
