"""Group descriptions in the columns of Kafka's own tool, to the byte.

Source: ConsumerGroupCommand of Apache Kafka 4.3: which columns there are and how wide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kohort.client import GroupDescription, GroupListing, MemberDescription, OffsetAndMetadata, TopicPartition

MISSING = "-"
NAME_WIDTH = 15
STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """How far a group is in one partition; `member` reads it, if somebody does."""

    group_id: str
    partition: TopicPartition
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    member: MemberDescription | None
    lag_seconds: float | None = None
    verdict: str | None = None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the log's end."""
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset


def offset_rows(
    group: GroupDescription,
    committed: dict[TopicPartition, OffsetAndMetadata],
    log_end_offsets: dict[TopicPartition, int],
) -> list[OffsetRow]:
    """Return the rows of the members, the busiest first, then of partitions that nobody reads.

    A member that reads nothing has none, as in Kafka's tool: `--members` shows it.
    """

    def row(partition: TopicPartition, member: MemberDescription | None) -> OffsetRow:
        value = committed.get(partition)
        epoch = None if value is None or value.leader_epoch < 0 else value.leader_epoch
        end = log_end_offsets.get(partition)
        return OffsetRow(
            group.group_id, partition, epoch, None if value is None else value.offset, end, member
        )

    rows: list[OffsetRow] = []
    read: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda each: -partition_count(each)):
        partitions = assigned_partitions(member)
        read.update(partitions)
        rows += (row(each, member) for each in partitions)
    return rows + [row(each, None) for each in sorted(set(committed) - read)]


def assigned_partitions(member: MemberDescription) -> list[TopicPartition]:
    """Return what a member reads, in order."""
    return [
        TopicPartition(topic, each) for topic, owned in sorted(member.assignment.items()) for each in owned
    ]


def partition_count(member: MemberDescription) -> int:
    """Return how many partitions a member reads."""
    return sum(map(len, member.assignment.values()))


def group_note(group: GroupDescription) -> str | None:
    """Return what Kafka says before the table of a group that is not stable."""
    kind = "Streams" if group.type == STREAMS else "Consumer"
    if group.state == "Empty":
        return f"{kind} group '{group.group_id}' has no active members."
    if group.state == "NotReady":
        return f"Warning: Streams group '{group.group_id}' lacks topics, or they do not fit its topology."
    if group.state in {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}:
        return f"Warning: {kind} group '{group.group_id}' is rebalancing."
    return None


def list_table(groups: Sequence[GroupListing], *, state: bool, type_: bool) -> list[str]:
    """Return the lines of a list: ids alone, or in columns with state and type."""
    if not state and not type_:
        return [each.group_id for each in groups]
    width = max([NAME_WIDTH, *(len(each.group_id) for each in groups)]) + 10
    rows = [
        ("GROUP", "TYPE", "STATE"),
        *((each.group_id, each.type.capitalize(), each.state) for each in groups),
    ]
    return [
        " ".join(
            [f"{name:<{width}}", *([f"{kind:<20}"] if type_ else []), *([f"{now:<20}"] if state else [])]
        )
        for name, kind, now in rows
    ]


def offsets_table(rows: Sequence[OffsetRow], *, verbose: bool, lag: bool = False) -> list[str]:
    """Return the lines about offsets; with `lag` two columns that Kafka's tool does not have."""
    cells = [_offset_cells(each) for each in rows]
    columns: list[tuple[str, int]] = [("GROUP", 0), ("TOPIC", 1), ("PARTITION", 2), ("LEADER-EPOCH", 3)]
    columns += [("CURRENT-OFFSET", 4), ("LOG-END-OFFSET", 5), ("LAG", 6)]
    columns += [("LAG-SECONDS", 10), ("VERDICT", 11)] if lag else []
    columns += [("CONSUMER-ID", 7), ("HOST", 8)]
    flexible = {"GROUP", "TOPIC", "CONSUMER-ID", "HOST"}
    formats = []
    for title, index in columns:
        if title == "LEADER-EPOCH" and not verbose:
            continue
        width = 10 if title in {"PARTITION", "VERDICT"} else NAME_WIDTH
        if title in flexible:
            width = max([width, *(len(each[index]) for each in cells)])
        formats.append((title, index, width))
    lines = [" ".join([*(f"{title:<{width}}" for title, _, width in formats), "CLIENT-ID"])]
    for each in cells:
        lines.append(" ".join([*(f"{each[index]:<{width}}" for _, index, width in formats), each[9]]))
    return lines


def _offset_cells(row: OffsetRow) -> tuple[str, ...]:
    member = row.member
    return (
        row.group_id,
        row.partition.topic,
        str(row.partition.partition),
        _number(row.leader_epoch),
        _number(row.current_offset),
        _number(row.log_end_offset),
        _number(row.lag),
        MISSING if member is None else member.member_id,
        MISSING if member is None else member.host,
        MISSING if member is None else member.client_id,
        MISSING if row.lag_seconds is None else f"{row.lag_seconds:.1f}",
        row.verdict or MISSING,
    )


def members_table(group: GroupDescription, *, verbose: bool) -> list[str]:
    """Return the lines about members; the instance ids have a column if somebody has one."""
    static = any(each.group_instance_id for each in group.members)
    # A group on its way from one protocol to the other has members of both.
    is_mixed = verbose and {each.upgraded for each in group.members} >= {True, False}
    titles = [
        "GROUP",
        "CONSUMER-ID",
        *(["GROUP-INSTANCE-ID"] if static else []),
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
    ]
    least = [NAME_WIDTH, NAME_WIDTH, *([17] if static else []), NAME_WIDTH, NAME_WIDTH, NAME_WIDTH]
    if verbose:
        titles += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [NAME_WIDTH, 20, NAME_WIDTH, 20]
    if is_mixed:
        titles.append("UPGRADED")
        least.append(0)
    rows = [_member_cells(group, each, static, verbose) for each in group.members]
    if is_mixed:
        for row, each in zip(rows, group.members, strict=True):
            row.append(MISSING if each.upgraded is None else str(each.upgraded).lower())
    widths = [max([width, *(len(row[index]) for row in rows)]) for index, width in enumerate(least)]
    if is_mixed:
        widths[-1] = 0  # It is the last column, and as wide as what stands in it.
    lines = [
        " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in (titles, *rows)
    ]
    # Kafka ends the short table with a blank more than the long one.
    return lines if verbose else [f"{line} " for line in lines]


def _member_cells(
    group: GroupDescription, member: MemberDescription, static: bool, verbose: bool
) -> list[str]:
    cells = [group.group_id, member.member_id, *([member.group_instance_id or ""] if static else [])]
    cells += [member.host, member.client_id, str(partition_count(member))]
    if verbose:
        # Epochs and targets belong to groups of the newer protocols: classic ones have none.
        assignment = "; ".join(
            words
            for words in (
                _assignment(member.assignment),
                _assignment(member.standby_tasks, "standby "),
                _assignment(member.warmup_tasks, "warm-up "),
            )
            if words
        )
        target = _assignment(member.target_assignment)
        cells += [_number(member.member_epoch), assignment or MISSING]
        cells += [_number(group.assignment_epoch), target or MISSING]
    return cells


def _assignment(owned: Mapping[str, Sequence[int]], role: str = "") -> str:
    """Return what is owned by topic, or by subtopology, in order."""
    told = ";".join(f"{name}:{','.join(map(str, each))}" for name, each in sorted(owned.items()))
    return f"{role}{told}" if told else ""


def state_table(group: GroupDescription, *, verbose: bool) -> list[str]:
    """Return the lines about the group itself."""
    coordinator = f"{group.coordinator.address}  ({group.coordinator.node_id})"
    width = max(25, len(coordinator))
    group_width = max(NAME_WIDTH, len(group.group_id))
    rows = [
        (
            "GROUP",
            "COORDINATOR (ID)",
            "ASSIGNMENT-STRATEGY",
            "STATE",
            "GROUP-EPOCH",
            "TARGET-ASSIGNMENT-EPOCH",
            "#MEMBERS",
        ),
        (
            group.group_id,
            coordinator,
            group.assignor or MISSING,
            group.state,
            _number(group.group_epoch),
            _number(group.assignment_epoch),
            str(len(group.members)),
        ),
    ]
    lines = []
    for name, where, assignor, state, epoch, target, members in rows:
        epochs = f"{epoch:<15} {target:<25} " if verbose else ""
        lines.append(f"{name:<{group_width}} {where:<{width}} {assignor:<20} {state:<20} {epochs}{members}")
    return lines


def _number(value: int | None) -> str:
    return MISSING if value is None else str(value)
