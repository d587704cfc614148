import sqlite3
from pathlib import Path
from threading import Event
from uuid import UUID

import msgspec
import pytest

from kohort.broker.explain.observed.events import (
    CoordinatorMoved,
    GroupChanged,
    TopicsChanged,
)
from kohort.client import (
    BrokerError,
    ItemsError,
    KohortError,
    NetworkError,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    RequestTimeoutError,
    TopicDescription,
    TopicPartition,
)
from kohort.client.admin_values import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    MemberDescription,
    OpenTransaction,
    ShareGroupOffset,
)
from kohort.client.values import Node
from kohort.observe.asking import Asker
from kohort.observe.cluster import ClusterQuestions, Seen
from kohort.observe.observer import Observer, Target
from kohort.observe.pace import Limits, Pace, Stopped
from kohort.observe.snapshots import Snapshot
from kohort.observe.store import CLUSTER_WIDE, Store
from kohort.observe.test_records import Log
from kohort.observe.topics import ClusterLook, topics_changed
from kohort.observe.watched import Watched, records_left
from kohort.protocol.errors import ErrorCode

NOW = 1_800_000_000_000
NODE = Node(1, "a", 9092, None)


class FakeAdmin:
    """A cluster of two brokers as an Admin tells of it; `errors` has what fails, by topic or group."""

    def __init__(self) -> None:
        self.leaders: dict[str, list[int]] = {}
        self.errors: dict[str, KohortError] = {}
        self.hidden: set[str] = set()
        self.silent_brokers: set[int] = set()
        self.groups: dict[str, GroupDescription] = {}
        self.listed: list[str] | None = None
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.stable: dict[str, int] = {}
        self.open_transactions_: list[OpenTransaction] = []
        self.calls: list[str] = []

    def list_topics(self, *, include_internal: bool) -> tuple[str, ...]:
        assert include_internal
        return tuple(each for each in self.leaders if each not in self.hidden)

    def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        errors = {each: gone for each in names if each not in self.leaders} | {
            each: self.errors[each] for each in names if each in self.errors
        }
        found = {
            each: TopicDescription(
                each,
                UUID(int=1 + len(each)),
                False,
                tuple(
                    PartitionInfo(n, leader, 0, (1, 2), (1,)) for n, leader in enumerate(self.leaders[each])
                ),
            )
            for each in names
            if each not in errors
        }
        if errors:
            raise ItemsError(errors, found)
        return found

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, (NODE, NODE))

    def describe_configs(self, *_of: object) -> dict[str, object]:
        return {}

    def list_offsets(
        self, wanted: dict[TopicPartition, int], *, committed_only: bool
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        leaders = {self.leaders[each.topic][each.partition] for each in wanted}
        if -1 in leaders:  # As the client does: what it cannot ask for fails all of it.
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE)
        if leaders & self.silent_brokers:
            raise NetworkError("no answer")
        stable = self.stable if committed_only else {}
        return {each: OffsetAndTimestamp(stable.get(each.topic, 100), -1, 0) for each in wanted}

    def open_transactions(self) -> tuple[OpenTransaction, ...]:
        self.calls.append("open_transactions")
        if "open_transactions" in self.errors:
            raise self.errors["open_transactions"]
        return tuple(self.open_transactions_)

    def list_share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareGroupOffset]:
        self.calls.append(f"share offsets of {group_id}")
        return {TopicPartition("t", 0): ShareGroupOffset(5)}

    def list_groups(self) -> tuple[GroupListing, ...]:
        names = self.groups if self.listed is None else self.listed
        return tuple(GroupListing(each, "consumer", "Stable", "classic") for each in names)

    def describe_groups(self, *names: str) -> dict[str, GroupDescription]:
        self.calls.append("describe_groups")
        gone = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
        errors = {each: self.errors.get(each, gone) for each in names if each not in self.groups}
        errors |= {each: self.errors[each] for each in names if each in self.errors}
        found = {each: self.groups[each] for each in names if each not in errors}
        if errors:
            raise ItemsError(errors, found)
        return found

    def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        self.calls.append(f"offsets of {group_id}")
        return self.offsets.get(group_id, {})


def questions_of(admin: FakeAdmin, pace: Pace | None = None) -> ClusterQuestions:
    return ClusterQuestions(admin, pace or Pace(1e6, Event()), lambda: NOW)  # type: ignore[arg-type]  # It has what is called.


def watched() -> Watched:
    found = Watched(lambda: NOW, 10.0)
    found.status.cluster_id = "c"
    return found


def test_a_topic_whose_description_times_out_is_not_told_as_deleted() -> None:
    admin = FakeAdmin()
    admin.leaders = {"a": [1], "b": [1, 2], "c": [1]}
    questions = questions_of(admin)
    first = questions.look(ClusterLook()).look
    admin.errors = {"b": RequestTimeoutError("not done within 15000 ms")}
    second = questions.look(first).look
    assert topics_changed(first, second) is None
    del admin.leaders["c"]
    third = questions.look(second).look
    changed = topics_changed(second, third)
    assert changed is not None
    assert (changed.created, changed.deleted) == ((), ("c",))


def test_a_topic_that_may_no_longer_be_seen_is_not_told_as_deleted() -> None:
    admin = FakeAdmin()
    admin.leaders = {"a": [1], "b": [1]}
    questions = questions_of(admin)
    first = questions.look(ClusterLook()).look
    admin.hidden = {"b"}
    admin.errors = {"b": BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    assert topics_changed(first, questions.look(first).look) is None


def test_a_partition_without_a_leader_hides_no_other_lag() -> None:
    admin = FakeAdmin()
    admin.leaders = {"t": [1, -1, 2], "u": [1]}
    questions = questions_of(admin)
    seen = questions.look(ClusterLook())
    places = [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    assert questions.ends(places, seen.leaders) == {"t": {0: 100, 2: 100}, "u": {0: 100}}
    admin.silent_brokers = {1}
    assert questions.ends(places, seen.leaders) == {"t": {2: 100}}
    assert questions.refused == {"ListOffsets of broker 1": "no answer"}
    admin.silent_brokers = set()
    questions.ends(places, seen.leaders)
    assert questions.refused == {}


def test_records_are_left_until_each_partition_is_read_to_its_end() -> None:
    assert records_left({0: 5, 1: 0}, {0: 5, 1: 3, 2: 4}) == 7
    assert records_left({0: 5, 1: 3, 2: 9}, {0: 5, 1: 3, 2: 4}) == 0


def test_a_first_read_that_is_cut_does_not_know_all_groups_afterwards(store: Store) -> None:
    first = watched()
    first.positions = {0: 7}
    first.save(store)  # Killed here.
    second = watched()
    second.restore(store)
    assert second.positions == {0: 7}
    assert not second.facts.knows_all_groups
    second.caught_up()
    second.save(store)
    third = watched()
    third.restore(store)
    assert third.facts.knows_all_groups


def test_groups_of_another_kohort_are_read_again_without_telling_twice(store: Store) -> None:
    log, first = Log(), watched()
    first.records = log.records
    log.generation(1, {"a": [0]})
    log.now_ms += 1_000
    log.generation(2, {"a": [0], "b": [1]})
    first.positions = {0: 2}
    first.caught_up()
    first.save(store)
    told = store.events("c", "g")
    assert len(told) == 2
    database = sqlite3.connect(store._path)
    database.execute("UPDATE groups SET state = ?", (msgspec.msgpack.encode([1, 2, 3]),))
    database.commit()
    database.close()
    again = watched()
    again.restore(store)
    assert (again.positions, again.records.groups, again.facts.knows_all_groups) == ({}, {}, False)
    log = Log()
    log.records = again.records
    log.generation(1, {"a": [0]})
    log.now_ms += 1_000
    log.generation(2, {"a": [0], "b": [1]})
    again.save(store)
    assert store.events("c", "g") == told
    again.caught_up()
    log.now_ms += 1_000
    log.generation(3, {"b": [0, 1]})
    again.save(store)
    newest = store.events("c", "g")[-1]
    assert isinstance(newest, GroupChanged)
    assert (newest.generation_id, newest.former_members, len(store.events("c", "g"))) == (3, 2, 3)


@pytest.mark.parametrize("is_read_in_part", [False, True])
def test_a_kill_while_all_is_read_again_tells_nothing_twice(store: Store, *, is_read_in_part: bool) -> None:
    def lived(found: Watched, *numbers: int) -> None:
        log = Log()
        log.records = found.records
        for number in numbers:
            log.now_ms = NOW + number * 1_000
            log.generation(number, {"a": [0], "b": [1]} if number % 2 else {"a": [0, 1]})

    first = watched()
    lived(first, 1, 2, 3, 4)
    first.positions = {0: 4}
    first.save(store)
    told = store.events("c", "g")
    assert len(told) == 4
    again = watched()
    again.begin_anew(store)
    if is_read_in_part:
        lived(again, 1, 2)
        again.positions = {0: 2}
        again.save(store)
    killed = watched()
    killed.restore(store)
    lived(killed, *((3, 4, 5) if is_read_in_part else (1, 2, 3, 4, 5)))
    killed.save(store)
    assert store.events("c", "g")[:4] == told
    assert len(store.events("c", "g")) == 5
    killed.positions = {0: 5}
    killed.caught_up()
    killed.save(store)
    last = watched()
    last.restore(store)
    assert last._told_ms == {}


def test_each_problem_stands_until_it_is_over_itself() -> None:
    status = watched().status
    status.is_caught_up = True
    status.note("reading", NetworkError("no fetch"))
    status.note("asking", "no answer")
    status.note("asking")
    assert (status.problem, status.is_ready) == ("no fetch", False)
    status.note("reading")
    assert (status.problem, status.is_ready) == ("", True)


def test_a_reader_that_gets_nowhere_is_a_problem() -> None:
    now_ms = NOW
    found = Watched(lambda: now_ms, 10.0)
    found.caught_up()
    for step in range(9):
        now_ms = NOW + step * 10_000
        found.note_ends({"__consumer_offsets": {0: 50, 1: 9}}, now_ms)
    assert found.status.behind == 59
    assert not found.status.is_ready
    assert "59 records of __consumer_offsets wait" in found.status.problem
    found.positions = {0: 50, 1: 9}
    found.note_ends({"__consumer_offsets": {0: 50, 1: 9}}, now_ms)
    assert found.status.is_ready


def test_a_coordinator_that_moves_by_way_of_no_leader_is_an_event(store: Store) -> None:
    admin, found = FakeAdmin(), watched()
    found.records.group("g")
    for leader in (1, -1, 2):
        admin.leaders = {"__consumer_offsets": [leader]}
        found.note(questions_of(admin).look(found.look))
    found.save(store)
    (event,) = store.events("c", "g")
    assert isinstance(event, CoordinatorMoved)
    assert (event.former_node_id, event.node_id) == (1, 2)


def test_a_start_that_is_tried_again_tells_nothing_twice(store: Store) -> None:
    admin, former, found = FakeAdmin(), watched(), watched()
    admin.leaders = {"t": [1]}
    former.note(questions_of(admin).look(former.look))
    former.save(store)
    admin.leaders["new"] = [1]
    for _ in range(2):
        found.restore(store)
        found.note(questions_of(admin).look(found.look))
    found.save(store)
    (event,) = store.events("c", CLUSTER_WIDE)
    assert isinstance(event, TopicsChanged)


def description(group_id: str, *member_ids: str, state: str = "Stable") -> GroupDescription:
    members = tuple(
        MemberDescription(each, None, each, "/h", {"t": (0,)}, topics=("t",)) for each in member_ids
    )
    return GroupDescription(group_id, state, "consumer", "range", NODE, members)


class Describing:
    """An asker where records may not be read."""

    def __init__(self) -> None:
        self.admin, self.watched = FakeAdmin(), watched()
        self.watched.status.reads_records = False
        self.stopping = Event()
        pace = Pace(1e6, self.stopping)
        limits = Limits(interval_seconds=10, calls_per_second=1)
        self.asker = Asker(self.watched, questions_of(self.admin, pace), pace, limits, self.stopping)

    def members(self, group_id: str) -> list[str]:
        return [*self.watched.records.groups[group_id].snapshot.members]


def test_descriptions_that_fail_for_a_moment_remove_no_member() -> None:
    world = Describing()
    world.admin.groups = {"g": description("g", "a"), "h": description("h", "b")}
    world.asker.ask()
    world.admin.errors = {"g": BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
    world.asker.ask()
    world.admin.errors = {"g": RequestTimeoutError("no answer")}
    world.admin.listed = ["h"]  # Its coordinator moves: nobody lists it.
    world.asker.ask()
    assert (world.members("g"), world.members("h")) == (["a"], ["b"])


@pytest.mark.parametrize("is_dead", [False, True])
def test_a_group_that_is_gone_is_gone_here_too(store: Store, *, is_dead: bool) -> None:
    world = Describing()
    world.admin.groups = {"g": description("g", "a")}
    world.admin.offsets = {"g": {TopicPartition("t", 0): OffsetAndMetadata(5)}}
    world.asker.ask()
    assert world.watched.records.groups["g"].places
    world.admin.groups = {"g": description("g", state="Dead")} if is_dead else {}
    world.asker.ask()
    world.watched.records.settle(NOW + 5_000)
    world.watched.save(store)
    assert world.watched.records.groups == {}
    assert dict(store.groups("c")) == {}


def test_offsets_are_asked_for_in_turn() -> None:
    world = Describing()
    world.admin.groups = {each: description(each, "a") for each in "abcdefgh"}
    for _ in range(3):
        world.asker.ask()
    asked = [each[-1] for each in world.admin.calls if each.startswith("offsets")]
    assert asked == [*"abcdefghabcdefg"]


def test_offsets_that_are_deleted_are_removed() -> None:
    world = Describing()
    world.admin.groups = {"g": description("g", "a")}
    where = TopicPartition("t", 0)
    world.admin.offsets = {"g": {where: OffsetAndMetadata(5), TopicPartition("t", 1): OffsetAndMetadata(6)}}
    world.asker.ask()
    world.admin.offsets = {"g": {where: OffsetAndMetadata(5)}}
    world.asker.ask()
    assert [*world.watched.records.groups["g"].places] == [("t", 0)]


def test_nobody_is_asked_any_more_once_the_observer_stops() -> None:
    world = Describing()
    world.admin.groups = {f"g{each}": description(f"g{each}", "a") for each in range(1_000)}
    world.stopping.set()
    with pytest.raises(Stopped):
        world.asker.ask()
    assert world.admin.calls == []
    world.asker.run()  # It ends as well.


def test_descriptions_change_nothing_once_records_may_be_read() -> None:
    world = Describing()
    world.admin.groups = {"g": description("g", "a")}
    describe = world.admin.describe_groups

    def allowed_meanwhile(*names: str) -> dict[str, GroupDescription]:
        world.watched.status.reads_records = True
        return describe(*names)

    world.admin.describe_groups = allowed_meanwhile  # type: ignore[method-assign]
    world.asker.ask()
    assert world.watched.records.groups == {}


def test_a_share_group_that_was_deleted_while_it_was_asked_about_has_no_offsets() -> None:
    found, admin, stopping = watched(), FakeAdmin(), Event()
    admin.leaders = {"t": [1]}
    pace = Pace(1e6, stopping)
    asker = Asker(found, questions_of(admin, pace), pace, Limits(), stopping)
    group = found.records.group("s")
    group.kind, group.is_by_broker = "share", True
    group.become(Snapshot(1, NOW))
    asker.ask()
    assert group.places["t", 0].offset == 5
    group.removed(NOW)
    asker.ask()
    assert admin.calls.count("share offsets of s") == 2
    assert group.is_nothing


class Broken:
    """Questions that fail in a way that nobody foresaw."""

    def look(self, _before: object) -> Seen:
        raise ZeroDivisionError


def test_the_observer_ends_when_the_thread_that_asks_fails(tmp_path: Path) -> None:
    servers = "127.0.0.1:1"
    limits = Limits(0.01)
    target = Target("", {"bootstrap_servers": servers}, {"bootstrap_servers": servers})
    observer = Observer(target, tmp_path / "o.db", limits)
    questions: ClusterQuestions = Broken()  # type: ignore[assignment]
    pace = Pace(100, observer._stopping)
    observer._ask_until_stopped(Asker(observer.watched, questions, pace, limits, observer._stopping))
    assert observer._stopping.is_set()
    assert isinstance(observer._failure, ZeroDivisionError)


def test_each_try_of_a_patient_observer_keeps_one_pace(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    paces = list[Pace]()

    class Unanswered:
        """Questions to a cluster that does not answer."""

        def __init__(self, _admin: object, pace: Pace, _now_ms: object) -> None:
            paces.append(pace)

        def cluster_id(self) -> str:
            if len(paces) == 3:
                observer.stop()
            raise KohortError("nobody is there")

    monkeypatch.setattr("kohort.observe.observer.ClusterQuestions", Unanswered)
    monkeypatch.setattr("kohort.observe.observer.START_AGAIN_SECONDS", 0)
    observer.run(is_patient=True)
    assert paces == [observer._pace] * 3


def test_calls_keep_their_pace() -> None:
    class Clock:
        """An event that notes for how long it is waited for."""

        waited = 0.0

        def wait(self, seconds: float) -> bool:
            self.waited += seconds
            return False

    clock = Clock()
    pace = Pace(2.0, clock)  # type: ignore[arg-type]
    for _ in range(5):
        pace.wait()
    assert pace.calls == 5
    assert clock.waited > 1.9 + 1.4 + 0.9 + 0.4 - 0.5  # Nobody slept: each call waits for all before it.
    pace.wait(6)
    waited = clock.waited
    pace.wait()
    assert clock.waited - waited > 5  # A call of six requests holds up the next one for all six.
    unhindered = Pace(2.0, clock, 4)  # type: ignore[arg-type]
    waited = clock.waited
    unhindered.wait()
    unhindered.wait(3)
    assert clock.waited == waited
    unhindered.wait()
    assert clock.waited == waited  # The fifth begins at once as well: only those after it wait for it.
    unhindered.wait()
    assert 0.4 < clock.waited - waited <= 0.5
