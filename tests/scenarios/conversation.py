"""Plays a scenario: lines that say what somebody does, and below each what the coordinator makes of it.

A line at the margin is a step, one that begins with `#` is for the reader, and what is indented is the
coordinator's: answers, records, notes, and the group's state where it changes. Time is virtual.

    ana joins                     # a member with the id that it was given; `as=` makes it static
    ana syncs ana=t-0 ben=t-1     # whoever does not lead just syncs
    ana beats | commits t-0=5 | fetches t-0 | leaves | hangs up | starts anew
    ana commits t-0=5 transaction=7      # it counts once that ends: the transaction 7 commits, or aborts
    ana fetches t-0 stable=yes           # and hears of none before
    3s pass

What members of groups with epochs do is in `heartbeats.py`, what becomes of records of share groups in
`sharing.py`.
"""

import re
import shlex
from collections.abc import Callable
from itertools import count

from kohort.broker.explain.history import HistoryRoom
from kohort.broker.explain.journal import RebalanceJournal
from kohort.broker.group import (
    CancelTimer,
    Command,
    Decision,
    DeleteGroup,
    DescribeGroup,
    Effect,
    EndOffsets,
    Event,
    ExpireOffsets,
    GroupConfig,
    GroupCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    Note,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Record,
    Reply,
    RequestLost,
    SetTimer,
    SyncGroup,
    TimerFired,
    TimerKey,
    TopicsDeleted,
    TxnOffsetCommit,
    refusal,
)
from kohort.broker.group.decision import TransactionalWrite
from kohort.broker.group.share.commands import ShareStateReady
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.test_world import CheckedCoordinator
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.schema import Message
from tests.scenarios.durations import ScenarioError, duration_ms
from tests.scenarios.heartbeats import EpochHeartbeat, EpochMember, Topics
from tests.scenarios.sharing import FIRST_LINE, SharePartitionConversation
from tests.scenarios.telling import answer_text, event_text, record_text, seconds

SETTING = re.compile(r"[a-z.]+ = \d+")
Fields = dict[str, str]


def partitions_of(text: str) -> dict[str, list[int]]:
    """Return `t-0,t-1,u-0` by topic."""
    topics: dict[str, list[int]] = {}
    for each in filter(None, text.split(",")):
        topic, _, index = each.rpartition("-")
        topics.setdefault(topic, []).append(int(index))
    return topics


class Person:
    """A client with a name: what it joined with, and what it was told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: Fields = {}
        self.member_id = ""
        self.generation_id = -1
        self.protocol: str | None = None
        self.request_id = 0
        self.in_epochs: EpochMember | None = None

    def field(self, name: str, default: str) -> str:
        """Return what it said when it joined, now or before."""
        return self.fields.get(name, default)

    @property
    def instance(self) -> str | None:
        """Its group.instance.id."""
        return self.fields.get("as")

    def hear(self, message: Message) -> None:
        """Keep what a client keeps of an answer."""
        if self.in_epochs is not None:
            self.in_epochs.hear(message)
        if isinstance(message, JoinGroupResponse):
            if message.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = message.member_id
            if message.error_code == ErrorCode.NONE:
                self.generation_id = message.generation_id
                self.protocol = message.protocol_name


class Conversation:
    """One coordinator, its log, its timers, and who talks to it."""

    def __init__(self) -> None:
        self.settings: dict[str, int] = {}
        self.lines: list[str] = []
        self._core: GroupCoordinator | None = None
        self._now_ms = 0
        self._log: list[tuple[tuple[Record, ...], TransactionalWrite | None]] = []
        self._timers: dict[TimerKey, tuple[int, int]] = {}
        self._people: dict[str, Person] = {}
        self._asked: dict[int, tuple[str, Command | EpochHeartbeat]] = {}
        self._states: dict[str, str] = {}
        self._topics = Topics()
        self._ids = count(1)
        self._numbers = count(1)
        self._loading = False
        self._flush_fails = False

    @property
    def core(self) -> GroupCoordinator:
        """The coordinator, made with the settings at its first use."""
        if self._core is None:
            self._core = CheckedCoordinator(
                GroupConfig(**self.settings), journal=RebalanceJournal(HistoryRoom())
            )
        return self._core

    def tell(self, text: str) -> None:
        """Write a line of the coordinator's."""
        self.lines.append(f"    {text}")

    # -- steps ----------------------------------------------------------------------------------------------

    def play(self, line: str) -> None:
        """Do what the line says. Raises: ScenarioError."""
        if SETTING.fullmatch(line):
            name, _, value = line.partition(" = ")
            self.settings[name.replace(".", "_")] = int(value)
            return
        self._step(shlex.split(line, comments=True))
        self._sleep(0)  # What was to happen at once has happened before anybody says anything more.

    def _step(self, words: list[str]) -> None:
        if words[-1] in ("pass", "passes") and len(words) == 2:
            self._sleep(duration_ms(words[0]))
        elif (words[0], len(words)) in (("the", 3), ("the", 4)):
            self._happen(" ".join(words[1:]))
        else:
            self._act(words)

    def _act(self, words: list[str]) -> None:
        name, verb, *rest = words
        person = self._people.setdefault(name, Person(name))
        fields = dict(each.split("=", 1) for each in rest if "=" in each)
        plain = [each for each in rest if "=" not in each]
        actions: dict[str, Callable[[Person, Fields, list[str]], None]] = {
            "joins": self._join,
            "syncs": self._sync,
            "beats": self._beat,
            "commits": self._commit,
            "fetches": self._fetch,
            "leaves": self._leave,
            "removes": self._remove,
            "hangs": self._hang_up,
            "starts": self._start_anew,
            "describes": self._describe,
            "lists": self._list,
            "deletes": self._delete,
            "enters": lambda person, fields, _: self._heartbeat(person, "enters", fields),
            "lives": lambda person, _, __: self._heartbeat(person, "lives", {}),
            "tells": lambda person, _, __: self._heartbeat(person, "tells", {}),
            "goes": lambda person, _, plain: self._heartbeat(person, " ".join(["goes", *plain]), {}),
        }
        if verb not in actions:
            raise ScenarioError(f"nobody knows how to {verb!r}: {' '.join(words)}")
        actions[verb](person, fields, plain)

    def _happen(self, what: str) -> None:
        words = what.split()
        if what == "broker restarts":
            self._restart()
        elif what == "broker loads":
            self._loading = True
        elif what == "load ends":
            self._loading = False
            self._restart()
        elif what == "flush fails":
            self._flush_fails = True
        elif what == "retention check":
            self._do("", ExpireOffsets())
        elif words[0] == "transaction" and words[2] in ("commits", "aborts"):
            self._do(
                "the coordinator", EndOffsets(next(self._ids), int(words[1]), 0, words[2] == "commits", 0)
            )
        elif words[0] == "topic" and words[2] == "comes":
            name, _, number = words[1].partition(":")
            self._topics.come(name, int(number))
        elif what == "share state comes":
            for group in self.core.groups.values():
                if isinstance(group, ShareGroup):
                    asked = {topic_id: each.partitions for topic_id, each in group.initializing.items()}
                    self._do("", ShareStateReady(group.group_id, asked))
        elif words[0] == "topic" and words[2] == "vanishes":
            self._do("", TopicsDeleted(frozenset({words[1]})))
        else:
            raise ScenarioError(f"nobody knows how the {what!r} could happen")

    # -- what clients do ------------------------------------------------------------------------------------

    def _group_id(self, person: Person, fields: Fields) -> str:
        return fields.get("group", person.field("group", "g"))

    def _join(self, person: Person, fields: Fields, _plain: list[str]) -> None:
        person.fields |= {name: value for name, value in fields.items() if name != "reason"}
        topics = tuple(person.field("topics", "t").split(","))
        metadata = ConsumerProtocolSubscription(topics=topics).encode_versioned()
        message = JoinGroupRequest(
            group_id=self._group_id(person, fields),
            session_timeout_ms=duration_ms(person.field("session", "10s")),
            rebalance_timeout_ms=duration_ms(person.field("rebalance", "60s")),
            member_id=person.member_id,
            group_instance_id=person.instance,
            protocol_type=person.field("type", "consumer"),
            protocols=tuple(
                JoinGroupRequestProtocol(name=each, metadata=metadata)
                for each in person.field("protocols", "range").split(",")
            ),
            reason=fields.get("reason"),
        )
        fresh_id = f"{person.instance or person.name}-{next(self._numbers)}"
        version = int(person.field("version", "9"))
        person.request_id = request_id = next(self._ids)
        self._do(
            person.name,
            JoinGroup(
                request_id, message, version, fresh_id, person.name, "/10.0.0.1", None, lambda topic: True
            ),
        )

    def _sync(self, person: Person, fields: Fields, _plain: list[str]) -> None:
        given = {name: text for name, text in fields.items() if name in self._people}
        message = SyncGroupRequest(
            group_id=self._group_id(person, {}),
            generation_id=int(fields.get("generation", person.generation_id)),
            member_id=person.member_id,
            group_instance_id=person.instance,
            protocol_type=person.field("type", "consumer"),
            protocol_name=fields.get("protocol", person.protocol),
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=self._people[name].member_id, assignment=_assignment(text)
                )
                for name, text in given.items()
            ),
        )
        person.request_id = request_id = next(self._ids)
        self._do(person.name, SyncGroup(request_id, message, 5))

    def _beat(self, person: Person, fields: Fields, _plain: list[str]) -> None:
        message = HeartbeatRequest(
            group_id=self._group_id(person, {}),
            generation_id=int(fields.get("generation", person.generation_id)),
            member_id=fields.get("member", person.member_id),
            group_instance_id=person.instance,
        )
        self._do(person.name, Heartbeat(next(self._ids), message))

    def _commit(self, person: Person, fields: Fields, _plain: list[str]) -> None:
        told = {name: value for name, value in fields.items() if re.fullmatch(r".+-\d+", name)}
        if "transaction" in fields:
            self._commit_in_transaction(person, fields, told)
            return
        topics = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=int(told[f"{topic}-{index}"]),
                        committed_metadata="x" * int(fields.get("metadata", "0")),
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in partitions_of(",".join(told)).items()
        )
        message = OffsetCommitRequest(
            group_id=self._group_id(person, fields),
            generation_id_or_member_epoch=int(fields.get("generation", person.generation_id)),
            member_id=person.member_id,
            group_instance_id=person.instance,
            topics=topics,
        )
        self._do(person.name, OffsetCommit(next(self._ids), message, 9))

    def _commit_in_transaction(self, person: Person, fields: Fields, told: Fields) -> None:
        topics = tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=int(told[f"{topic}-{index}"])
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in partitions_of(",".join(told)).items()
        )
        message = TxnOffsetCommitRequest(
            transactional_id=f"id-{fields['transaction']}",
            group_id=self._group_id(person, fields),
            producer_id=int(fields["transaction"]),
            producer_epoch=0,
            generation_id_or_member_epoch=int(fields.get("generation", person.generation_id)),
            member_id=person.member_id,
            group_instance_id=person.instance,
            topics=topics,
        )
        self._do(person.name, TxnOffsetCommit(next(self._ids), message))

    def _fetch(self, person: Person, fields: Fields, plain: list[str]) -> None:
        topics = None
        if plain != ["everything"]:
            topics = tuple(
                OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(indexes))
                for topic, indexes in partitions_of(",".join(plain)).items()
            )
        group = OffsetFetchRequestGroup(group_id=self._group_id(person, fields), topics=topics)
        self._do(person.name, OffsetFetch(next(self._ids), group, require_stable="stable" in fields))

    def _leave(self, person: Person, fields: Fields, _plain: list[str]) -> None:
        self._leave_together(person, [person], fields)

    def _remove(self, person: Person, fields: Fields, plain: list[str]) -> None:
        """An administrator removes members: static ones by their instance ids."""
        named = [self._people.get(each) or _by_instance(each) for each in plain]
        self._leave_together(person, named, fields)

    def _leave_together(self, person: Person, leavers: list[Person], fields: Fields) -> None:
        message = LeaveGroupRequest(
            group_id=self._group_id(person, fields),
            member_id="",
            members=tuple(
                MemberIdentity(
                    member_id=each.member_id, group_instance_id=each.instance, reason=fields.get("reason")
                )
                for each in leavers
            ),
        )
        self._do(person.name, LeaveGroup(next(self._ids), message, 5))

    def _hang_up(self, person: Person, _fields: Fields, _plain: list[str]) -> None:
        self._do(person.name, RequestLost(person.request_id))

    def _start_anew(self, person: Person, _fields: Fields, _plain: list[str]) -> None:
        """The process is another one: it has the settings, and knows nothing else."""
        person.member_id, person.generation_id, person.request_id = "", -1, 0
        person.in_epochs = None

    def _heartbeat(self, person: Person, what: str, fields: Fields) -> None:
        """One of a member of a consumer, a share or a streams group."""
        if what == "enters":
            person.fields |= fields
            name = f"{person.name}-{next(self._numbers)}"
            person.in_epochs = person.in_epochs or EpochMember(name, person.fields)
        if person.in_epochs is None:
            raise ScenarioError(f"{person.name} is nobody's member")
        self._do(person.name, person.in_epochs.says(next(self._ids), self._topics, what))

    # -- what administrators do -----------------------------------------------------------------------------

    def _describe(self, person: Person, _fields: Fields, plain: list[str]) -> None:
        self._do(person.name, DescribeGroup(next(self._ids), plain[0], 6))

    def _list(self, person: Person, fields: Fields, _plain: list[str]) -> None:
        states = tuple(filter(None, fields.get("states", "").split(",")))
        self._do(person.name, ListGroups(next(self._ids), states))

    def _delete(self, person: Person, fields: Fields, plain: list[str]) -> None:
        if "of" not in plain:
            self._do(person.name, DeleteGroup(next(self._ids), plain[0]))
            return
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=each) for each in indexes),
            )
            for topic, indexes in partitions_of(plain[0]).items()
        )
        message = OffsetDeleteRequest(group_id=plain[2], topics=topics)
        self._do(person.name, OffsetDelete(next(self._ids), message))

    # -- the shell ------------------------------------------------------------------------------------------

    def _do(self, name: str, command: Command | EpochHeartbeat) -> None:
        """Do what a shell does with a command."""
        request_id = getattr(command, "request_id", 0)
        if name and not isinstance(command, RequestLost):
            self._asked[request_id] = (name, command)
        if self._loading:
            self._refuse(request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        decision = self.core.handle(command, self._now_ms)
        if decision.records and self._flush_fails:
            self._lose(request_id, decision)
        else:
            self._carry_out(decision)

    def _refuse(self, request_id: int, code: ErrorCode) -> None:
        name, command = self._asked.pop(request_id)
        message = command.refused(code) if isinstance(command, EpochHeartbeat) else refusal(command, code)
        if message is not None:
            self._answer(name, message)

    def _lose(self, request_id: int, decision: Decision) -> None:
        """The disk fails: what was decided is not done, all who wait are sent away, the log is read anew."""
        self._flush_fails = False
        self._replay(decision.records, decision.transaction)
        self.tell("lost: the flush failed")
        if request_id in self._asked:
            self._refuse(request_id, ErrorCode.NOT_COORDINATOR)
        for effect in self.core.give_up(ErrorCode.NOT_COORDINATOR).effects:
            if isinstance(effect, Reply) and effect.request_id in self._asked:
                self._answer(self._asked.pop(effect.request_id)[0], effect.message)
        self._restart()

    def _carry_out(self, decision: Decision) -> None:
        write = decision.transaction
        self._replay(decision.records, write)
        if decision.records or write is not None:
            self._log.append((decision.records, write))
        pending = "" if write is None else f", once transaction {write.producer_id} is committed"
        for record in decision.records:
            self.tell(f"log: {record_text(record)}{pending}")
        if write is not None and write.end is not None:
            ended = "committed" if write.end.is_commit else "aborted"
            self.tell(f"log: transaction {write.producer_id} is {ended}")
        for effect in decision.effects:
            self._perform(effect)
        self._tell_states()

    def _replay(self, records: tuple[Record, ...], write: TransactionalWrite | None) -> None:
        for record in records:
            if write is None:
                self.core.replay(record)
            else:
                self.core.replay_pending(write.producer_id, record)
        if write is not None and write.end is not None:
            self.core.end_pending(write.producer_id, write.end.is_commit)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Reply(request_id, message):
                self._answer(self._asked.pop(request_id)[0], message)
            case SetTimer(key, deadline_ms):
                self._timers[key] = (deadline_ms, next(self._ids))
            case CancelTimer(key):
                self._timers.pop(key, None)
            case Note(event):
                self._note(event)

    def _answer(self, name: str, message: Message) -> None:
        if name in self._people:
            self._people[name].hear(message)
        self.tell(f"-> {name}: {answer_text(message)}")

    def _note(self, event: Event) -> None:
        self.tell(f"note: {event_text(event)}")

    def _tell_states(self) -> None:
        states = {
            group_id: f"{group.state.value}, generation {group.generation_id}"
            for group_id, group in self.core.groups.items()
        }
        for group_id in sorted(states.keys() | self._states.keys()):
            if states.get(group_id) != self._states.get(group_id):
                self.tell(f"{group_id} is {states.get(group_id, 'gone')}")
        self._states = states

    def _sleep(self, ms: int) -> None:
        """Let time pass; what happens on the way is told with its time since the step before."""
        began_ms, until_ms = self._now_ms, self._now_ms + ms
        while self._timers:
            key, (deadline_ms, _) = min(self._timers.items(), key=lambda each: each[1])
            if deadline_ms > until_ms:
                break
            del self._timers[key]
            self._now_ms = max(self._now_ms, deadline_ms)
            told = len(self.lines)
            self._do("", TimerFired(key))
            if len(self.lines) > told and ms:
                self.lines.insert(told, f"  after {seconds(self._now_ms - began_ms)}")
        self._now_ms = until_ms

    def _restart(self) -> None:
        """Another process, or this one after a failure, takes over from the log."""
        self._core = CheckedCoordinator(self.core.config, journal=RebalanceJournal(HistoryRoom()))
        self._timers.clear()
        self._asked.clear()
        for records, write in self._log:
            self._replay(records, write)
        self._carry_out(self._core.loaded(self._now_ms))


def _assignment(text: str) -> bytes:
    parts = tuple(
        TopicPartitions(topic=topic, partitions=tuple(indexes))
        for topic, indexes in partitions_of(text).items()
    )
    return ConsumerProtocolAssignment(assigned_partitions=parts).encode_versioned()


def _by_instance(instance: str) -> Person:
    person = Person(instance)
    person.fields["as"] = instance
    return person


def played(text: str) -> str:
    """Return the scenario with the coordinator's part as it is now. Raises: ScenarioError."""
    is_of_records = any(FIRST_LINE.fullmatch(line) for line in text.splitlines())
    conversation = SharePartitionConversation() if is_of_records else Conversation()
    for line in text.splitlines():
        if line.startswith(" "):
            continue  # What the coordinator made of it the last time.
        conversation.lines.append(line)
        if line and not line.startswith("#"):
            conversation.play(line)
    return "\n".join(conversation.lines) + "\n"
