"""What an observer knows of a cluster's topics, and of its name, from one process to the next."""

from pathlib import Path
from threading import Event
from uuid import UUID

import msgspec
import pytest

from kohort.broker.explain.findings import Likelihood
from kohort.broker.explain.observed.events import GroupChanged, TopicsChanged
from kohort.broker.explain.observed.explaining import explain
from kohort.client import (
    BrokerError,
    ConfigEntry,
    OffsetAndMetadata,
    ResourceType,
    TopicPartition,
    UnsupportedVersionError,
)
from kohort.client.admin_values import ClusterDescription, ConfigSource
from kohort.observe.asking import Asker
from kohort.observe.cluster import Seen
from kohort.observe.described import take_description, take_offsets
from kohort.observe.facts import Facts
from kohort.observe.group import ObservedGroup
from kohort.observe.observer import Observer, Target, cluster_name
from kohort.observe.pace import Limits, Pace
from kohort.observe.snapshots import Snapshot
from kohort.observe.store import CLUSTER_WIDE, Store
from kohort.observe.test_observer import NOW, FakeAdmin, description, questions_of, watched
from kohort.observe.topics import ClusterLook
from kohort.observe.watched import Watched
from kohort.protocol.errors import ErrorCode


def with_topics(**topics: int) -> Seen:
    """A look at topics with one partition each, by the number of their id."""
    ids = {name: UUID(int=number) for name, number in topics.items()}
    look = ClusterLook(NOW, dict.fromkeys(ids, 1), topic_ids={name: each.hex for name, each in ids.items()})
    return Seen(look, {}, {topic_id: name for name, topic_id in ids.items()})


def test_a_topic_that_was_made_anew_while_the_observer_was_down_is_told(store: Store) -> None:
    former = watched()
    former.note(with_topics(t=1, u=2))
    group = former.records.group("g")
    group.kind = "share"
    for topic in ("t", "u"):
        group.commit(topic, 0, 900, NOW)
    former.save(store)
    found = watched()
    found.restore(store)
    assert found.facts.topic_names == {UUID(int=1): "t", UUID(int=2): "u"}
    found.note(with_topics(t=3, u=2))
    assert set(found.records.groups["g"].places) == {("u", 0)}
    found.save(store)
    (event,) = store.events("c", CLUSTER_WIDE)
    assert isinstance(event, TopicsChanged)
    assert (event.created, event.deleted) == (("t",), ("t",))


def test_a_topic_that_was_gone_for_a_while_has_no_offsets_of_before() -> None:
    found = watched()
    group = found.records.group("g")
    group.kind = "share"
    found.note(with_topics(t=1, u=2))
    for topic in ("t", "u"):
        group.commit(topic, 0, 900, NOW)
    for seen in (with_topics(u=2), with_topics(t=3, u=2)):
        found.note(seen)
    assert set(group.places) == {("u", 0)}


def test_names_of_topics_that_are_gone_are_kept_for_a_while_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kohort.observe.watched.FORMER_NAMES_MAX", 2)
    found = watched()
    for number in range(1, 9):
        found.note(with_topics(t=number, u=100))
    assert found.facts.topic_names == {
        UUID(int=100): "u",
        **{UUID(int=each): "t" for each in (6, 7, 8)},
    }


@pytest.mark.parametrize("kind", ["share", "consumer"])
@pytest.mark.parametrize("reads_records", [False, True])
def test_offsets_by_descriptions_are_dropped_with_a_topic_that_was_made_anew(
    kind: str, reads_records: bool
) -> None:
    found = watched()
    found.status.reads_records = reads_records
    group = found.records.group("g")
    group.kind = kind
    seen, anew = with_topics(t=1, u=2), with_topics(t=3, u=2)
    found.note(seen)
    for topic in ("t", "u"):
        group.commit(topic, 0, 900, NOW)
        group.share_starts[topic, 0] = 900
    found.note(seen)
    assert len(group.places) == 2
    found.note(anew)
    is_described = kind == "share" or not reads_records
    assert set(group.places) == ({("u", 0)} if is_described else {("t", 0), ("u", 0)})
    assert (("t", 0) in group.share_starts) != is_described


@pytest.mark.parametrize(
    "servers", ["b:9092, a:9092", "a:9092,b:9092", ["b:9092", "a:9092"], ["a:9092", "b:9092", "a:9092"]]
)
def test_a_cluster_without_an_id_is_named_by_its_servers(servers: str | list[str]) -> None:
    assert cluster_name(servers) == "a:9092,b:9092"


class OldAdmin(FakeAdmin):
    """A cluster before Kafka 2.8."""

    def __init__(self, **_options: object) -> None:
        super().__init__()

    def __enter__(self) -> "OldAdmin":
        return self

    def __exit__(self, *_error: object) -> None:
        """It has no connection."""

    def describe_cluster(self) -> ClusterDescription:
        raise UnsupportedVersionError("DescribeCluster")


def test_the_history_of_a_cluster_without_an_id_goes_on_under_its_plain_name(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = watched()
    former.status.cluster_id = "['b:9092', 'a:9092']"
    former.note(with_topics(t=1))
    former.save(store)
    monkeypatch.setattr("kohort.observe.observer.Admin", OldAdmin)
    servers = {"bootstrap_servers": ["b:9092", "a:9092"]}
    observer = Observer(Target("", servers, servers), store._path, Limits())  # type: ignore[arg-type]  # They are both.
    names: list[str] = []

    def found(name: str) -> None:
        names.append(name)
        observer.stop()

    observer.run(found=found)
    assert names == ["a:9092,b:9092"]
    assert observer.watched.look.topic_ids == {"t": UUID(int=1).hex}
    assert (store.cluster_state(former.status.cluster_id), bool(store.cluster_state(names[0]))) == (
        None,
        True,
    )


def entry(name: str, value: str | None) -> ConfigEntry:
    return ConfigEntry(name, value, ConfigSource.DEFAULT_CONFIG, is_read_only=False, is_sensitive=False)


class Configured(FakeAdmin):
    """A cluster with settings of its brokers and groups; None for a group whose settings are refused."""

    def __init__(self, **broker: str | None) -> None:
        super().__init__()
        self.broker = {name.replace("_", "."): value for name, value in broker.items()}
        self.timeouts: dict[str, str | None] = {}

    def describe_configs(self, resource: object, name: object = "") -> dict[str, ConfigEntry]:  # type: ignore[override]  # As the client has it.
        if resource is not ResourceType.GROUP:
            return {each: entry(each, value) for each, value in self.broker.items()}
        self.calls.append(f"settings of {name}")
        if self.timeouts[str(name)] is None:
            raise BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return {"consumer.session.timeout.ms": entry("consumer.session.timeout.ms", self.timeouts[str(name)])}


@pytest.mark.parametrize("value", [None, "", "a week", "-1", "1.5", "\u0661", "9" * 40])
def test_a_setting_that_is_no_number_is_not_known(value: str | None) -> None:
    admin = Configured(offsets_retention_minutes=value, group_consumer_session_timeout_ms=" 45000 ")
    facts = Facts()
    questions_of(admin).settings([1], facts)
    assert (facts.offsets_retention_ms, facts.session_timeout_ms) == (0, 45_000)


def asking(admin: FakeAdmin, found: Watched) -> Asker:
    return Asker(found, questions_of(admin), Pace(1e6, Event()), Limits(), Event())


def test_groups_with_epochs_are_asked_for_their_own_session_timeouts_in_turn(store: Store) -> None:
    admin, found = Configured(group_consumer_session_timeout_ms="45000"), watched()
    admin.timeouts = {"a": "10000", "b": "45000", "refused": None}
    for group_id in (*admin.timeouts, "classic"):
        group = found.records.group(group_id)
        group.is_by_broker = group_id != "classic"
        group.commit("t", 0, 5, NOW)
    asker = asking(admin, found)
    for _ in range(5):
        asker.ask()
    assert [each for each in admin.calls if each.startswith("settings")] == [
        f"settings of {each}" for each in ("a", "b", "refused", "a", "b")
    ]
    timeouts = {each: found.facts.session_timeout_of("consumer", each) for each in ("a", "b", "refused")}
    assert timeouts == {"a": 10_000, "b": 45_000, "refused": 45_000}
    found.save(store)
    again = watched()
    again.restore(store)
    assert again.facts.group_session_timeouts_ms == found.facts.group_session_timeouts_ms
    group = found.records.group("a")
    group.remove("t", 0, NOW)
    group.settle()
    found.save(store)
    assert "a" not in found.facts.group_session_timeouts_ms


def test_a_member_of_a_group_with_its_own_session_timeout_dies_by_that() -> None:
    group = ObservedGroup("g", Facts(session_timeout_ms=45_000, group_session_timeouts_ms={"g": 10_000}))
    group.is_by_broker = True
    group.become(Snapshot(1, NOW))
    group.become(Snapshot(2, NOW + 1_000))
    (event,) = group.events
    assert isinstance(event, GroupChanged)
    assert event.session_timeout_ms == 10_000


def test_few_brokers_are_asked_for_settings_that_they_refuse() -> None:
    class Refusing(FakeAdmin):
        def describe_configs(self, *of: object) -> dict[str, object]:
            self.calls.append(f"settings of {of[-1]}")
            raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    admin = Refusing()
    questions = questions_of(admin)
    questions.settings(range(1, 100), Facts())
    assert admin.calls == ["settings of 1", "settings of 2", "settings of 3"]
    assert "DescribeConfigs" in questions.refused


@pytest.mark.parametrize(("hours", "is_kept"), [(1, True), (23, True), (25, False)])
def test_records_are_read_again_after_a_time_in_which_tombstones_are_removed(
    store: Store, hours: int, is_kept: bool
) -> None:
    """A group that was deleted since, and whose tombstones are gone, would stay for ever."""
    former = watched()
    former.note(with_topics(t=1))
    former.records.group("g").commit("t", 0, 5, NOW)
    former.positions = {0: 7}
    former.caught_up()
    former.save(store)
    found = Watched(lambda: NOW + hours * 3_600_000, 10.0)
    found.status.cluster_id = "c"
    found.restore(store)
    assert (found.positions, [*found.records.groups]) == (({0: 7}, ["g"]) if is_kept else ({}, []))
    assert found.facts.knows_all_groups == is_kept
    assert found.look.topic_ids == {"t": UUID(int=1).hex}
    found.note(with_topics(t=2))
    assert len(found._cluster_news) == 1, "what topics there were is known"


def test_without_the_right_to_read_records_nothing_is_read_again(store: Store) -> None:
    former = watched()
    former.status.reads_records = False
    former.note(with_topics(t=1))
    former.records.group("g").commit("t", 0, 5, NOW)
    former.save(store)
    found = Watched(lambda: NOW + 48 * 3_600_000, 10.0)
    found.status.cluster_id = "c"
    found.restore(store)
    assert [*found.records.groups] == ["g"]


def test_descriptions_prove_nothing_about_a_session() -> None:
    """An offset that is seen at a look was committed at any time since the look before."""
    group = ObservedGroup("g", Facts(session_timeout_ms=45_000))
    for second in range(0, 50, 10):
        members = ("a", "b") if second < 40 else ("b",)
        told = msgspec.structs.replace(description("g", *members[::-1]), group_epoch=len(members))
        take_description(group, told, NOW + second * 1_000)
        if second == 30:  # Each group has its turn.
            take_offsets(group, {TopicPartition("t", 0): OffsetAndMetadata(5)}, NOW + second * 1_000)
    gone = group.events[-1]
    assert isinstance(gone, GroupChanged)
    assert [each.member.member_id for each in gone.gone] == ["a"]
    (explanation,) = explain([gone])
    assert {each.likelihood for each in explanation.findings} == {Likelihood.POSSIBLE}
