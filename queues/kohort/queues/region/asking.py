"""How a region stands, and what an operator asks of it."""

from typing import Unpack

from kohort.client.config import ConsumerOptions
from kohort.queues.region.alone import one_error
from kohort.queues.region.coordinating import Region
from kohort.queues.region.entries import Asked, RegionState
from kohort.queues.region.log import RegionLog
from kohort.queues.region.opening import open_states
from kohort.queues.region.view import next_command


async def region_state(region: Region, **options: Unpack[ConsumerOptions]) -> RegionState | None:
    """Return what the coordinator decided last; None before there was one. Raises: KohortError."""
    async with one_error(), RegionLog(region, options) as log:
        return log.view.state


async def ask(region: Region, asked: Asked, **options: Unpack[ConsumerOptions]) -> None:
    """Have the coordinator begin a checkpoint, or a reset. Raises: KohortError."""
    async with one_error(), RegionLog(region, options) as log:
        await log.write(next_command(log.view, asked))


async def checkpointed_states(region: Region, **options: Unpack[ConsumerOptions]) -> dict[str, bytes]:
    """Return each member's state in the last checkpoint; none before there was one. Raises: KohortError."""
    state = await region_state(region, **options)
    async with open_states(region, options) as states:
        saved = {} if state is None else state.saved
        return {name: await states.load(each) for name, each in saved.items() if each is not None}
