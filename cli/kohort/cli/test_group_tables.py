"""Lines that Kafka's own tool printed for the same groups (Apache Kafka 4.3.1), to the byte."""

from kohort.cli.group_tables import (
    group_note,
    list_table,
    members_table,
    offset_rows,
    offsets_table,
    state_table,
)
from kohort.client import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    Node,
    OffsetAndMetadata,
    TopicPartition,
)

ID = "console-consumer-f4f5ecd2-7bb2-46b6-ac90-c0e4d5edb6e1"
MEMBER = MemberDescription(
    ID,
    None,
    "console-consumer",
    "/127.0.0.1",
    {"orders": (0, 1)},
)


def group(*members: MemberDescription, state: str = "Stable") -> GroupDescription:
    coordinator = Node(1, "127.0.0.1", 39092)
    assignor = "range" if members else ""
    return GroupDescription("gclassic", state, "consumer", assignor, coordinator, members)


def rows_of(described: GroupDescription) -> list[str]:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    committed = {first: OffsetAndMetadata(20, "", 0), second: OffsetAndMetadata(0)}
    return offsets_table(offset_rows(described, committed, {first: 20, second: 0}), verbose=True)


def test_a_list_has_no_header_until_a_column_is_requested() -> None:
    groups = [GroupListing("gclassic", "consumer", "Stable", "classic")]
    assert list_table(groups, state=False, type_=False) == ["gclassic"]
    assert list_table(groups, state=True, type_=False) == [
        "GROUP                     STATE               ",
        "gclassic                  Stable              ",
    ]
    assert list_table(groups, state=True, type_=True) == [
        "GROUP                     TYPE                 STATE               ",
        "gclassic                  Classic              Stable              ",
    ]


def test_offsets_of_a_group_with_a_member() -> None:
    assert rows_of(group(MEMBER)) == [
        "GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG"
        "             CONSUMER-ID                                           HOST            CLIENT-ID",
        "gclassic        orders          0          0               20              20              0"
        f"               {ID} /127.0.0.1      console-consumer",
        "gclassic        orders          1          -               0               0               0"
        f"               {ID} /127.0.0.1      console-consumer",
    ]


def test_offsets_of_a_group_without_members() -> None:
    described = group(state="Empty")
    first = TopicPartition("orders", 0)
    rows = offset_rows(described, {first: OffsetAndMetadata(20)}, {first: 20})
    assert offsets_table(rows, verbose=False) == [
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG"
        "             CONSUMER-ID     HOST            CLIENT-ID",
        "gclassic        orders          0          20              20              0"
        "               -               -               -",
    ]
    assert group_note(described) == "Consumer group 'gclassic' has no active members."


def test_a_partition_without_a_commit_has_no_lag() -> None:
    (row, _) = offset_rows(group(MEMBER), {}, {TopicPartition("orders", 0): 20})
    assert (row.current_offset, row.log_end_offset, row.lag) == (None, 20, None)


def test_a_member_that_reads_nothing_has_no_row() -> None:
    idle = MemberDescription("idle-1", None, "idle", "/127.0.0.1", {})
    rows = offset_rows(group(idle, MEMBER), {}, {})
    assert [each.member and each.member.client_id for each in rows] == ["console-consumer"] * 2
    assert offset_rows(group(idle), {}, {}) == []


def test_members() -> None:
    assert members_table(group(MEMBER), verbose=False) == [
        "GROUP           CONSUMER-ID                                           HOST            CLIENT-ID"
        "        #PARTITIONS     ",
        f"gclassic        {ID} /127.0.0.1      console-consumer 2               ",
    ]
    assert members_table(group(MEMBER), verbose=True)[0].endswith(
        "#PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT   "
    )
    assert members_table(group(MEMBER), verbose=True)[1].endswith(
        "2               -               orders:0,1           -               -                   "
    )


def test_the_instance_id_column_is_shown_if_a_member_has_one() -> None:
    static = MemberDescription("m", "instance-1", "c", "/127.0.0.1", {})
    assert "GROUP-INSTANCE-ID" in members_table(group(static), verbose=False)[0]
    assert "GROUP-INSTANCE-ID" not in members_table(group(MEMBER), verbose=False)[0]


def test_the_state() -> None:
    assert state_table(group(MEMBER), verbose=False) == [
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS",
        "gclassic        127.0.0.1:39092  (1)      range                Stable               1",
    ]
    assert state_table(group(MEMBER), verbose=True) == [
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH"
        "     TARGET-ASSIGNMENT-EPOCH   #MEMBERS",
        "gclassic        127.0.0.1:39092  (1)      range                Stable               -"
        "               -                         1",
    ]
    assert state_table(group(state="Empty"), verbose=False)[1].split() == [
        "gclassic",
        "127.0.0.1:39092",
        "(1)",
        "-",
        "Empty",
        "0",
    ]


def test_a_group_that_rebalances_is_warned_of() -> None:
    note = group_note(group(state="PreparingRebalance"))
    assert note == "Warning: Consumer group 'gclassic' is rebalancing."
    assert group_note(group(MEMBER)) is None


NEW = MemberDescription(
    "QmBlmMLpSk-lP5EuSg64zA",
    None,
    "console-consumer",
    "/127.0.0.1",
    {"orders": (0, 1, 2, 3)},
    2,
    target_assignment={"orders": (0, 1, 2, 3)},
    upgraded=True,
)


def consumer_group(*members: MemberDescription) -> GroupDescription:
    coordinator = Node(1, "127.0.0.1", 39092)
    return GroupDescription("gnew", "Stable", "consumer", "uniform", coordinator, members, "consumer", 2, 2)


def test_the_epochs_of_a_consumer_group() -> None:
    assert members_table(consumer_group(NEW), verbose=True) == [
        "GROUP           CONSUMER-ID            HOST            CLIENT-ID        #PARTITIONS     "
        "CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT   ",
        "gnew            QmBlmMLpSk-lP5EuSg64zA /127.0.0.1      console-consumer 4               "
        "2               orders:0,1,2,3       2               orders:0,1,2,3      ",
    ]
    assert state_table(consumer_group(NEW), verbose=True)[1] == (
        "gnew            127.0.0.1:39092  (1)      uniform              Stable               2"
        "               2                         1"
    )


def test_members_of_both_protocols_are_distinguished() -> None:
    old = MemberDescription("old", None, "c", "/127.0.0.1", {}, 1, upgraded=False)
    header, new_line, old_line = members_table(consumer_group(NEW, old), verbose=True)
    assert header.endswith("TARGET-ASSIGNMENT    UPGRADED")
    assert new_line.endswith("orders:0,1,2,3       true")
    assert old_line.endswith(
        "1               -                    2               -                    false"
    )
    assert "UPGRADED" not in members_table(consumer_group(old), verbose=True)[0]
