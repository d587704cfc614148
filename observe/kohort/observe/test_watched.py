"""What an observer knows of a cluster's topics, and of its name, from one process to the next."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kohort.broker.explain.observed.events import TopicsChanged
from kohort.client import UnsupportedVersionError
from kohort.client.admin_values import ClusterDescription
from kohort.observe.cluster import Seen
from kohort.observe.observer import Observer, Target, cluster_name
from kohort.observe.pace import Limits
from kohort.observe.store import CLUSTER_WIDE, Store
from kohort.observe.test_observer import NOW, FakeAdmin, watched
from kohort.observe.topics import ClusterLook


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "observe.db")
    yield found
    found.close()


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
