"""Share groups (KIP-932) as unmodified clients use them: KafkaShareConsumer, librdkafka's and franz-go's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.interop.conftest import MakeTopic
from tests.interop.kafka_tools import MissingTool, Output, Tools
from tests.interop.share_members import (
    ShareMember,
    configure,
    go_share_member,
    java_share_member,
    kohort_share_member,
    produce,
    python_share_member,
    wait_for,
)
from tests.interop.waiting import wait_until

Start = Callable[..., ShareMember]


@pytest.fixture
def java(bootstrap: str, group: str) -> Iterator[Start]:
    """Return a function that starts a Java member of the group."""
    started: list[ShareMember] = []

    def start(topic: str, mode: str = "implicit", *settings: str) -> ShareMember:
        try:
            started.append(java_share_member(bootstrap, group, topic, mode, *settings))
        except MissingTool as missing:
            pytest.skip(str(missing))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.mark.requirement("R32")
def test_two_java_members_share_the_records_and_each_is_delivered_once(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start
) -> None:
    topic = make_topic(2)[0].topic
    configure(bootstrap, group)
    before, after = ([f"{when}-{index}" for index in range(200)] for when in ("before", "after"))
    produce(bootstrap, topic, before)
    one, two = java(topic), java(topic)
    wait_for(one, two, values=before)
    produce(bootstrap, topic, after)
    wait_for(one, two, values=after)
    one.close()
    two.close()
    assert sorted(one.values + two.values) == sorted(before + after)
    assert {each.deliveries for each in one.deliveries + two.deliveries} == {1}
    assert not one.failures + two.failures


@pytest.mark.requirement("R32")
def test_a_java_member_releases_rejects_and_renews(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start
) -> None:
    topic = make_topic(1)[0].topic
    configure(bootstrap, group)
    values = [f"{what}-{index}" for index in range(5) for what in ("accept", "release", "reject", "renew")]
    produce(bootstrap, topic, values)
    member = java(topic, "explicit")
    wait_for(member, values=values)
    wait_until(lambda: sum(member.counts[f"release-{index}"] for index in range(5)) == 10, "deliveries")
    member.close()
    assert not member.failures
    again = java(topic, "explicit")
    produce(bootstrap, topic, ["last"])
    wait_for(again, values=["last"])
    assert again.values == ["last"], "nothing of it is handed out once more"
    deliveries = {(each.value, each.deliveries) for each in member.deliveries}
    for index in range(5):
        assert {(f"release-{index}", 1), (f"release-{index}", 2)} <= deliveries
        assert (f"reject-{index}", 2) not in deliveries
        assert (f"renew-{index}", 2) not in deliveries, "renewed is not delivered again"


@pytest.mark.requirement("R32")
def test_a_record_that_no_member_accepts_is_archived_at_its_delivery_limit(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start
) -> None:
    topic = make_topic(1)[0].topic
    configure(bootstrap, group, share_delivery_count_limit="2")
    produce(bootstrap, topic, ["release"])
    member = java(topic, "explicit")
    wait_until(lambda: len(member.deliveries) == 2, "two deliveries")
    assert [each.deliveries for each in member.deliveries] == [1, 2]


def test_strict_members_get_at_most_the_requested_number_of_records(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start
) -> None:
    topic = make_topic(1)[0].topic
    configure(bootstrap, group)
    values = [str(index) for index in range(50)]
    produce(bootstrap, topic, values)
    member = java(topic, "implicit", "share.acquire.mode=record_limit", "max.poll.records=7")
    wait_for(member, values=values)
    member.close()
    assert sorted(member.values) == sorted(values)


def test_librdkafkas_member_shares_with_javas_and_with_kohorts(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start
) -> None:
    topic = make_topic(4)[0].topic
    configure(bootstrap, group)
    values = [str(index) for index in range(300)]
    produce(bootstrap, topic, values)
    one, two = java(topic), python_share_member(bootstrap, group, topic)
    own = kohort_share_member(bootstrap, group, topic)
    more = [f"more-{index}" for index in range(300)]
    wait_until(lambda: one.has_subscribed and own.has_subscribed, "they take part")
    produce(bootstrap, topic, more)
    wait_for(one, two, own, values=values + more)
    for each in (one, two, own):
        each.close()
    assert sorted(one.values + two.values + own.values) == sorted(values + more)


def test_records_released_by_kohorts_member_go_to_javas_and_rejected_ones_to_nobody(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start
) -> None:
    topic = make_topic(1)[0].topic
    configure(bootstrap, group)
    values = [f"{what}-{index}" for index in range(20) for what in ("release", "reject", "plain")]
    produce(bootstrap, topic, values)
    members = [kohort_share_member(bootstrap, group, topic, "explicit"), java(topic, "explicit")]
    released = {each for each in values if each.startswith("release")}
    wait_until(
        lambda: all(sum(each.counts[value] for each in members) == 2 for value in released),
        "each comes again",
    )
    for each in members:
        each.close()
    counts = sum((each.counts for each in members), Counter[str]())
    assert counts == Counter({each: 2 if each in released else 1 for each in values})
    assert not [failure for each in members for failure in each.failures]


@pytest.fixture
def franz_go(bootstrap: str, group: str) -> Iterator[Start]:
    """Return a function that starts a member of franz-go's in the group."""
    started: list[ShareMember] = []

    def start(topic: str, mode: str = "implicit") -> ShareMember:
        try:
            started.append(go_share_member(bootstrap, group, topic, mode))
        except MissingTool as missing:
            pytest.skip(str(missing))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.mark.requirement("R32")
def test_two_members_of_franz_go_share_the_records_and_each_is_delivered_once(
    bootstrap: str, group: str, make_topic: MakeTopic, franz_go: Start
) -> None:
    topic = make_topic(2)[0].topic
    configure(bootstrap, group)
    before, after = ([f"{when}-{index}" for index in range(200)] for when in ("before", "after"))
    produce(bootstrap, topic, before)
    one, two = franz_go(topic), franz_go(topic)
    wait_for(one, two, values=before)
    produce(bootstrap, topic, after)
    wait_for(one, two, values=after)
    one.close()
    two.close()
    assert sorted(one.values + two.values) == sorted(before + after)
    assert {each.deliveries for each in one.deliveries + two.deliveries} == {1}
    assert one.acknowledged + two.acknowledged > 0
    assert not one.failures + two.failures


@pytest.mark.requirement("R32")
def test_a_member_of_franz_go_releases_rejects_and_renews(
    bootstrap: str, group: str, make_topic: MakeTopic, franz_go: Start
) -> None:
    topic = make_topic(1)[0].topic
    configure(bootstrap, group)
    values = [f"{what}-{index}" for index in range(5) for what in ("accept", "release", "reject", "renew")]
    produce(bootstrap, topic, values)
    member = franz_go(topic, "explicit")
    wait_for(member, values=values)
    wait_until(lambda: sum(member.counts[f"release-{index}"] for index in range(5)) == 10, "deliveries")
    member.close()
    assert not member.failures
    again = franz_go(topic, "explicit")
    produce(bootstrap, topic, ["last"])
    wait_for(again, values=["last"])
    assert again.values == ["last"], "nothing of it is handed out once more"
    deliveries = {(each.value, each.deliveries) for each in member.deliveries}
    assert deliveries == {(each, 1) for each in values} | {(f"release-{index}", 2) for index in range(5)}


def test_records_of_a_killed_franz_go_member_go_to_kohorts(
    bootstrap: str, group: str, make_topic: MakeTopic, franz_go: Start
) -> None:
    topic = make_topic(1)[0].topic
    configure(bootstrap, group)
    one, own = franz_go(topic), kohort_share_member(bootstrap, group, topic)
    values: list[str] = []

    def both_have_some() -> bool:
        more = [str(index) for index in range(len(values), len(values) + 50)]
        produce(bootstrap, topic, more)
        values.extend(more)
        return bool(one.values and own.values)

    wait_until(both_have_some, "both have records")
    one.kill()
    produce(bootstrap, topic, ["last"])
    wait_for(one, own, values=[*values, "last"])
    own.close()
    again = set(one.values) & set(own.values)
    assert {each.deliveries for each in own.deliveries if each.value in again} <= {2}, "what it had open"
    assert max(own.counts.values()) == 1


def test_kafkas_tool_lists_describes_resets_and_deletes(
    bootstrap: str, group: str, make_topic: MakeTopic, java: Start, tools: Tools
) -> None:
    def run(*arguments: str) -> Output:
        return tools.run("kafka-share-groups", "--bootstrap-server", bootstrap, *arguments)

    topic = make_topic(1)[0].topic
    configure(bootstrap, group)
    values = [str(index) for index in range(10)]
    produce(bootstrap, topic, values)
    member = java(topic)
    wait_for(member, values=values)
    assert [group, "Stable"] in run("--list", "--state").rows()
    head, row = run("--describe", "--group", group, "--members").rows()
    assert head == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert (row[0], row[-2:]) == (group, ["1", f"{topic}:0"])
    head, row = run("--describe", "--group", group, "--state").rows()
    assert (row[0], row[-2:]) == (group, ["Stable", "1"])
    refused = run("--reset-offsets", "--to-earliest", "--group", group, "--topic", topic, "--execute")
    assert "Share group" in refused.out + refused.err
    member.close()
    head, row = run("--describe", "--group", group).rows()
    assert head == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert (row[:3], row[-1]) == ([group, topic, "0"], "0")
    reset = run("--reset-offsets", "--to-earliest", "--group", group, "--topic", topic, "--execute")
    assert [group, topic, "0", "0"] in reset.rows(), reset
    assert run("--describe", "--group", group).rows()[1] == [group, topic, "0", "0", "10"]
    again = java(topic)
    wait_for(again, values=values)
    again.close()
    deleted = run("--delete-offsets", "--group", group, "--topic", topic)
    assert "Success" in deleted.out or topic in deleted.out, deleted
    gone = run("--delete", "--group", group)
    assert f"Deletion of requested share groups ('{group}') was successful." in gone.out
    assert group not in run("--list").lines
