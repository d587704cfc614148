from pathlib import Path

import pytest

from kohort.broker.handlers.data import init_producer_id
from kohort.broker.partitions.test_support import World
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def ask(
    world: World, *, transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1
) -> InitProducerIdResponse:
    message = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    answer = await init_producer_id.handle(world.family, message, world.request("InitProducerId"))
    assert answer is not None
    return answer


async def test_every_producer_gets_an_id_of_its_own(world: World) -> None:
    answers = [await ask(world) for _ in range(5)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [
        (0, number, 0) for number in range(5)
    ]
    assert world.metadata.allocations == 3  # Blocks of two.


async def test_an_idempotent_producer_that_sends_its_id_gets_a_new_one(world: World) -> None:
    await ask(world)
    assert (await ask(world, producer_id=0, epoch=3)).producer_id == 1


@pytest.mark.parametrize("producer_id, epoch", [(1, -1), (-1, 1)])
async def test_half_an_identity_is_invalid(world: World, producer_id: int, epoch: int) -> None:
    assert (await ask(world, producer_id=producer_id, epoch=epoch)).error_code == ErrorCode.INVALID_REQUEST


async def test_an_empty_transactional_id_is_invalid(world: World) -> None:
    assert (await ask(world, transactional_id="")).error_code == ErrorCode.INVALID_REQUEST
