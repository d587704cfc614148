"""What is made of a coordinator's answers about groups."""

from kohort.client.admin_values import GroupDescription, MemberDescription
from kohort.client.errors import BrokerError
from kohort.client.group_descriptions import GROUP_TYPES
from kohort.client.values import Node
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeAssignment,
    StreamsGroupDescribeDescribedGroup,
    StreamsGroupDescribeMember,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeSubtopology,
    StreamsGroupDescribeTaskIds,
    StreamsGroupDescribeTopology,
)
from tests.messages import message_of

NODE = Node(3, "host", 9092)
STREAMS = GROUP_TYPES[3]


def tasks(subtopology_id: str, *partitions: int) -> StreamsGroupDescribeTaskIds:
    return StreamsGroupDescribeTaskIds(subtopology_id=subtopology_id, partitions=partitions)


def assignment(
    *active: StreamsGroupDescribeTaskIds, standby: tuple[StreamsGroupDescribeTaskIds, ...] = ()
) -> StreamsGroupDescribeAssignment:
    return StreamsGroupDescribeAssignment(
        active_tasks=active, standby_tasks=standby, warmup_tasks=(tasks("0", 7),)
    )


def test_a_streams_group_has_tasks_and_the_topics_of_its_topology() -> None:
    member = message_of(
        StreamsGroupDescribeMember,
        member_id="m",
        member_epoch=4,
        instance_id=None,
        rack_id="r",
        client_id="c",
        client_host="/h",
        assignment=assignment(tasks("0", 2, 1), tasks("1", 0), standby=(tasks("1", 3),)),
        target_assignment=assignment(tasks("0", 1)),
    )
    group = message_of(
        StreamsGroupDescribeDescribedGroup,
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=5,
        assignment_epoch=4,
        assignor_name=None,
        members=(member,),
        topology=StreamsGroupDescribeTopology(
            epoch=1,
            subtopologies=tuple(
                message_of(StreamsGroupDescribeSubtopology, subtopology_id=name, source_topics=topics)
                for name, topics in (("0", ("b", "a")), ("1", ("a",)))
            ),
        ),
    )
    refused = message_of(
        StreamsGroupDescribeDescribedGroup,
        error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
        error_message="Group x not found.",
        group_id="x",
    )
    found = STREAMS.read(StreamsGroupDescribeResponse(throttle_time_ms=0, groups=(group, refused)), NODE)
    described = MemberDescription(
        "m",
        None,
        "c",
        "/h",
        {"0": (1, 2), "1": (0,)},
        4,
        "r",
        ("a", "b"),
        None,
        {"0": (1,)},
        {"1": (3,)},
        {"0": (7,)},
    )
    assert found["g"] == GroupDescription("g", "Stable", "streams", "", NODE, (described,), "streams", 5, 4)
    assert isinstance(found["x"], BrokerError)
    assert found["x"].code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_streams_group_without_a_topology_reads_no_topics() -> None:
    group = message_of(
        StreamsGroupDescribeDescribedGroup, error_code=0, group_id="g", members=(), topology=None
    )
    found = STREAMS.read(StreamsGroupDescribeResponse(throttle_time_ms=0, groups=(group,)), NODE)["g"]
    assert isinstance(found, GroupDescription)
    assert found.members == ()
