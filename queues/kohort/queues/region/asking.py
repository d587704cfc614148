"""How a region stands, and what an operator asks of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from kohort.client.aio import Admin
from kohort.client.config import ConsumerOptions
from kohort.client.errors import BrokerError, ItemsError
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
    """What was decided last, what each member says by its name, and how many coordinators run.

    `absent` are members whose process is not in its consumer group, or was replaced by one that is refused.
    """

    state: RegionState | None
    members: Mapping[str, Report]
    coordinators: int
    absent: tuple[str, ...] = ()


async def region_status(region: Region, **options: Unpack[ConsumerOptions]) -> RegionStatus:
    """Return how a region, its members and its coordinators stand. Raises: KohortError."""
    async with one_error(), RegionLog(region, options) as log, Admin(**shared_options(options)) as admin:
        state, view = log.view.state, log.view
        reports = list(view.reports.values()) if state is None else members_reports(state, view.reports)
        coordinators = await _members_of(admin, region.coordinators_group_id)
        present = {each: await _who_is_in(admin, each) for each in {report.group_id for report in reports}}
        here = {each.name for each in reports if is_in_group(each, present[each.group_id])}
        names = here if state is None else state.members
        members = {each.name: each for each in reports}
        return RegionStatus(state, members, len(coordinators), tuple(sorted(set(names) - here)))


def is_in_group(report: Report, instance_ids: Sequence[str | None] | None) -> bool:
    """Return whether this process is in its group, as far as that is known."""
    if instance_ids is None or not report.group_instance_id:
        return True
    return report.group_instance_id in instance_ids


async def _who_is_in(admin: Admin, group_id: str) -> list[str | None] | None:
    """Return the group.instance.id of each member; None where no group is named, or we may not look."""
    if not group_id:
        return None
    try:
        return await _members_of(admin, group_id)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise
        return None


async def _members_of(admin: Admin, group_id: str) -> list[str | None]:
    """Return the group.instance.id of each member of a group; none of a group that there is not.

    Raises: KohortError.
    """
    try:
        members = (await admin.describe_groups(group_id))[group_id].members
    except ItemsError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []
    return [each.group_instance_id for each in members]


async def ask(region: Region, asked: Asked, without: str = "", **options: Unpack[ConsumerOptions]) -> None:
    """Have the coordinator begin a checkpoint, a reset, or a restart without that member.

    Raises: KohortError.
    """
    async with one_error(), RegionLog(region, options) as log:
        await log.write(next_command(log.view, asked, without))


async def checkpointed_states(region: Region, **options: Unpack[ConsumerOptions]) -> dict[str, bytes]:
    """Return each member's state in the last checkpoint; none before there was one. Raises: KohortError."""
    state = await region_state(region, **options)
    async with open_states(region, options) as states:
        saved = {} if state is None else state.saved
        return {name: await states.load(each) for name, each in saved.items() if each is not None}
