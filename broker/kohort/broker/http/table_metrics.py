"""The metrics of partitions and groups, each by itself and all together. Pure: any thread may make them."""

from collections.abc import Iterator
from itertools import islice

from prometheus_client import Metric

from kohort.broker.group.state import GroupState
from kohort.broker.http import families
from kohort.broker.http.facts import Facts, states
from kohort.broker.http.metric_rows import one, rows
from kohort.broker.http.table_text import Table
from kohort.broker.lag import PartitionLag, Verdict


def tables(facts: Facts) -> Iterator[Table]:
    """Yield every family that has a row for each group, log or partition."""
    yield from _groups(facts)
    yield from _logs(facts)
    yield from _topics(facts)


def totals(facts: Facts) -> Iterator[Metric]:
    """Yield what is told of all groups together, and how much has no series of its own."""
    groups = facts.groups
    count = sum(groups.by_state.values())
    yield rows(families.GROUPS, (((state.value,), each) for state, each in groups.by_state.items()))
    yield one(families.NUM_GROUPS, count)
    for name, family in families.NUM_GROUPS_BY_STATE.items():
        yield one(family, groups.by_state.get(GroupState(name), 0))
    yield one(families.NUM_OFFSETS, groups.offsets)
    yield rows(families.GROUP_COUNT, (((name,), each) for name, each in groups.by_type.items()))
    for kind, family in families.GROUP_COUNTS_BY_STATE.items():
        counts = {state: each for (type_, state), each in groups.by_type_and_state.items() if type_ == kind}
        yield rows(family, (((state.value,), each) for state, each in counts.items()))
    yield one(families.GROUP_MEMBERS, groups.members)
    partitions = sum(len(topic.partitions) for topic in facts.topics)
    left_out = {
        "groups": groups.left_out,
        "logs": facts.partitions.left_out,
        "partitions": max(0, partitions - facts.partitions_max),
    }
    yield one(families.PARTITIONS, facts.partitions.partitions)
    yield one(families.PARTITIONS_OFFLINE, facts.partitions.offline)
    yield one(families.BROKERS, facts.brokers)
    yield rows(families.LEFT_OUT, (((kind,), each) for kind, each in left_out.items()))


def _groups(facts: Facts) -> Iterator[Table]:
    lag = facts.lag
    behind = [(each, each.lag) for each in lag if each.lag is not None]
    yield (families.CONSUMERGROUP_OFFSET, ((_place(each), each.offset) for each in lag))
    offsets = [(each, each.offset) for each in lag]
    yield (families.CONSUMERGROUP_OFFSET_SUM, _sums(offsets).items())
    yield (families.CONSUMERGROUP_LAG, ((_place(each), value) for each, value in behind))
    yield (families.CONSUMERGROUP_LAG_SUM, _sums(behind).items())
    yield (
        families.CONSUMERGROUP_LAG_SECONDS,
        ((_place(each), each.lag_seconds) for each in lag if each.lag_seconds is not None),
    )
    yield (families.CONSUMERGROUP_VERDICTS, _verdicts(lag).items())
    yield (families.CONSUMERGROUP_STALE, _stale(lag).items())
    yield (families.CONSUMERGROUP_MEMBERS, (((group,), count) for group, count in facts.members))


def _place(row: PartitionLag) -> tuple[str, ...]:
    return row.group_id, row.topic, str(row.partition)


def _sums(values: list[tuple[PartitionLag, int]]) -> dict[tuple[str, ...], float]:
    """Return the sum for each topic of each group."""
    sums: dict[tuple[str, ...], float] = {}
    for each, value in values:
        key = each.group_id, each.topic
        sums[key] = sums.get(key, 0) + value
    return sums


def _verdicts(lag: list[PartitionLag]) -> dict[tuple[str, ...], float]:
    """Return how many partitions have each verdict: zeros as well, for an alert to tell them from none."""
    counts: dict[tuple[str, ...], float] = {}
    for group_id in dict.fromkeys(each.group_id for each in lag):
        counts.update({(group_id, verdict.value.lower()): 0 for verdict in Verdict})
    for each in lag:
        if each.verdict is not None:
            counts[each.group_id, each.verdict.value.lower()] += 1
    return counts


def _stale(lag: list[PartitionLag]) -> dict[tuple[str, ...], float]:
    """Return of how many partitions of each group the lag is not that of now."""
    counts: dict[tuple[str, ...], float] = {}
    for each in lag:
        counts[(each.group_id,)] = counts.get((each.group_id,), 0) + each.is_stale
    return counts


def _logs(facts: Facts) -> Iterator[Table]:
    logs = [((each.topic, each.partition), each) for each in facts.partitions.logs]
    yield (families.LOG_START_OFFSET, ((place, each.log_start_offset) for place, each in logs))
    yield (families.LOG_END_OFFSET, ((place, each.log_end_offset) for place, each in logs))
    yield (families.HIGH_WATERMARK, ((place, each.high_watermark) for place, each in logs))
    yield (families.LOG_SIZE, ((place, each.size_bytes) for place, each in logs))


def _topics(facts: Facts) -> Iterator[Table]:
    logs = [((each.topic, each.partition), each) for each in facts.partitions.logs]
    topics = islice(facts.topics, facts.partitions_max)
    yield (families.TOPIC_PARTITIONS, (((each.name,), len(each.partitions)) for each in topics))
    yield (families.TOPIC_CURRENT_OFFSET, ((place, each.high_watermark) for place, each in logs))
    yield (families.TOPIC_OLDEST_OFFSET, ((place, each.log_start_offset) for place, each in logs))
    everywhere = list(states(facts))
    yield (families.TOPIC_LEADER, ((place, leader) for place, leader, _, _ in everywhere))
    yield (families.TOPIC_REPLICAS, ((place, replicas) for place, _, replicas, _ in everywhere))
    yield (families.TOPIC_IN_SYNC, ((place, in_sync) for place, _, _, in_sync in everywhere))
    yield (
        families.TOPIC_UNDER_REPLICATED,
        ((place, int(in_sync < replicas)) for place, _, replicas, in_sync in everywhere),
    )
