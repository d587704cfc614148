"""How a region stands, and what an operator asks of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

from kohort.client.aio import Admin
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ItemsError
from kohort.protocol.errors import ErrorCode
from kohort.queues.options import shared_options
from kohort.queues.region.alone import one_error
from kohort.queues.region.coordinating import Region, members_reports
from kohort.queues.region.entries import Asked, RegionState, Report
from kohort.queues.region.log import RegionLog
from kohort.queues.region.opening import open_states
from kohort.queues.region.view import next_command


async def region_state(region: Region, **options: Unpack[ConsumerOptions]) -> RegionState | None:
    """Return what the coordinator decided last; None before there was one. Raises: KohortError."""
    async with one_error(), RegionLog(region, options) as log:
        return log.view.state


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """What was decided last, what each member says by its name, and how many coordinators run."""

    state: RegionState | None
    members: Mapping[str, Report]
    coordinators: int


async def region_status(region: Region, **options: Unpack[ConsumerOptions]) -> RegionStatus:
    """Return how a region, its members and its coordinators stand. Raises: KohortError."""
    async with one_error(), RegionLog(region, options) as log, Admin(**shared_options(options)) as admin:
        state, view = log.view.state, log.view
        reports = view.reports.values() if state is None else members_reports(state, view.reports)
        coordinators = await _members_of(admin, region.coordinators_group_id)
        return RegionStatus(state, {each.name: each for each in reports}, coordinators)


async def _members_of(admin: Admin, group_id: str) -> int:
    try:
        return len((await admin.describe_groups(group_id))[group_id].members)
    except ItemsError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return 0


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
