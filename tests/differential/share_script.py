"""Scripts for share groups (KIP-932): members that fetch, acknowledge, renew, lie and go, by seed.

The script keeps count of which records are in whose hands, as Apache Kafka has answered, so that it knows
when a fetch gets something: then it waits as long as it takes, and else not at all.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import trio

from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsPartition,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsTopic,
)
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsTopic,
)
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsTopic,
)
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kohort.protocol.messages.share_fetch import ShareFetchRequest
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.schema import Message
from tests.differential.share_answers import (
    check_given,
    is_assigned,
    partitions_of,
    told_of,
    without_places,
)
from tests.differential.share_records import (
    ACCEPT,
    BATCHES,
    JOINING,
    REJECT,
    RELEASE,
    RENEW,
    Hands,
    Member,
    Words,
)
from tests.differential.share_requests import (
    INITIAL,
    OF_OTHER_KINDS,
    RESET,
    acknowledged_topics,
    fetch_topics,
    forgotten_topics,
    group_configs,
)
from tests.differential.told import Ask, Peer, Rendered, Told, TooSlow

TOPICS = dict.fromkeys(BATCHES, 1)
LEAVING, FINAL = -1, -1
WAIT_MS, NO_WAIT_MS = 5_000, 0
SHORT_LOCK_MS, LOCK_MS = 3_000, 600_000
IN_TIME = 0.6
"""How much of a lock may pass before the script is played anew."""
STRICT = 1


class ShareScript:
    """One script; `play` asks all of it."""

    def __init__(self, seed: int, told: Told) -> None:
        self._random = random = Random(f"share group {seed}")
        self._told = told
        self.style = random.choice(("calm",) * 7 + ("lock",))
        self._limit = random.choice((5, 5, 2, 3))
        self._lock_ms = SHORT_LOCK_MS if self.style == "lock" else LOCK_MS
        self._members = [
            Member(f"member-{number}", f"client-{number}", self._topics())
            for number in range(random.choice((1, 2, 2, 3)))
        ]
        self._steps = random.randint(15, 40)
        self._hands = Hands(random, self._limit)
        self._has_fetched = False
        self._was_shared = False
        """Whether there were two members since the group was empty last."""
        self._is_over = False
        """Whether Kafka goes on with what it had, though its state has begun anew."""

    async def play(self) -> None:
        """Ask everything. Raises: Differs, TooSlow."""
        await self._configure()
        if self._random.random() < 0.2:
            await self._alter()
        for _ in range(self._steps):
            await self._step()
            self._check_time()
            if self._is_over:
                break
        await self._offsets()
        await self._look()

    # -- steps --------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        random = self._random
        if self.style == "lock" and self._hands.is_held():
            return await self._in_time()
        outside = [each for each in self._members if not each.is_in]
        inside = [each for each in self._members if each.is_in]
        if outside and (not inside or random.random() < 0.3):
            return await self._join(random.choice(outside))
        if not inside or random.random() < 0.25:
            return await self._aside()
        member = random.choice(inside)
        chance = random.random()
        if chance < 0.4:
            return await self._fetch(member)
        if chance < 0.72:
            return await self._acknowledge(member)
        if chance < 0.78:
            return await self._heartbeat(member, member.epoch)
        if chance < 0.83:
            return await self._change(member)
        if chance < 0.89:
            return await self._close(member)
        if chance < 0.92:
            return await self._hang_up(member)
        if chance < 0.95:
            return await self._leave(member)
        return await self._everybody_goes()

    async def _in_time(self) -> None:
        """Do what takes no time while somebody holds records, or wait until nobody does."""
        inside = [each for each in self._members if each.is_in]
        chance = self._random.random()
        if chance < 0.5 or not inside:
            return await self._let_locks_end()
        member = self._random.choice(inside)
        return await (self._fetch(member) if chance < 0.7 else self._acknowledge(member))

    async def _configure(self) -> None:
        settings = {
            RESET: "earliest",
            "share.record.lock.duration.ms": str(self._lock_ms),
            "share.delivery.count.limit": str(self._limit),
        }

        def build(peer: Peer) -> Message:
            return group_configs(peer.group_id, settings)

        await self._told.ask(Ask("IncrementalAlterConfigs", 1, build, f"configure {settings}"))

    async def _join(self, member: Member) -> None:
        await self._heartbeat(member, JOINING)
        if member.is_in:
            await self._heartbeat(member, None, settles=True)

    async def _heartbeat(
        self, member: Member, epoch: int | None, *, settles: bool = False, wish: bool = False
    ) -> None:
        """Let the member live; without an epoch by its own, again until it has all that it is given."""
        heard: dict[Peer, int] = {}

        def build(peer: Peer) -> Message:
            own = epoch if epoch is not None else heard.get(peer, member.epoch)
            tells = wish or epoch in (JOINING, None)
            return ShareGroupHeartbeatRequest(
                group_id=peer.group_id,
                member_id=member.member_id,
                member_epoch=own,
                subscribed_topic_names=tuple(member.topics) if tells else None,
            )

        def learn(peer: Peer, answer: Message) -> None:
            if not answer.error_code:  # type: ignore[attr-defined]
                heard[peer] = answer.member_epoch  # type: ignore[attr-defined]

        text = f"heartbeat of {member.member_id} in {epoch} topics={member.topics}"
        ask = Ask(
            "ShareGroupHeartbeat",
            1,
            build,
            text,
            member.client_id,
            learn,
            self._mask(member),
            settles=settles,
        )
        if settles:
            ask.until = is_assigned
        answer = await self._told.ask(ask)
        if answer["error_code"] == 0:
            member.is_in, member.epoch = True, answer["member_epoch"]

    def _mask(self, *joining: Member) -> Callable[[Rendered], Rendered]:
        """Return what leaves out which partitions members have, where that is a matter of luck.

        Two members read two partitions: Apache Kafka goes by the order of its hash tables. Where they do not
        read the same, it shares out each topic by itself, and kohort together what the same members read.
        """
        count = len({each.member_id for each in self._members if each.is_in or each in joining})
        self._was_shared = count > 1 or (count > 0 and self._was_shared)
        return without_places if self._was_shared else (lambda answer: answer)

    async def _change(self, member: Member) -> None:
        member.topics = self._topics()
        await self._heartbeat(member, member.epoch, wish=True)
        await self._heartbeat(member, None, settles=True)

    async def _leave(self, member: Member) -> None:
        def build(peer: Peer) -> Message:
            return ShareGroupHeartbeatRequest(
                group_id=peer.group_id, member_id=member.member_id, member_epoch=LEAVING
            )

        answer = await self._told.ask(
            Ask("ShareGroupHeartbeat", 1, build, f"{member.member_id} leaves", member.client_id)
        )
        if answer["error_code"] == 0:
            member.is_in, member.epoch = False, JOINING

    async def _everybody_goes(self) -> None:
        """Let all go as they should, and move what the group has read."""
        for member in self._members:
            if member.session is not None:
                await self._close(member)
            if member.is_in:
                await self._leave(member)
        await self._look()
        await self._offsets()
        await self._random.choice((self._alter, self._alter, self._delete_offsets, self._delete))()
        await self._offsets()

    # -- records ------------------------------------------------------------------------------------------

    async def _fetch(self, member: Member, said: Sequence[Words] = ()) -> None:
        random = self._random
        opens = member.session is None
        if opens and said:
            return
        epoch = INITIAL if member.session is None else member.session
        version = random.randint(1, 2)
        forgotten: list[str] = []
        if opens:
            named = list(dict.fromkeys(random.sample(("work", "work", "more"), random.choice((1, 1, 2)))))
            member.places = set(named)
        else:
            named = [each for each in ("work", "more") if each not in member.places and random.random() < 0.2]
            if len(member.places) > 1 and random.random() < 0.1:
                forgotten = [random.choice(sorted(member.places))]
            member.places |= set(named)
            member.places -= set(forgotten)
        there = [each for each in sorted(member.places) if self._hands.has_free(each)]
        if len(there) > 1:  # Which of them comes first is a matter of luck.
            named_more = [each for each in there[1:] if each not in named]
            forgotten += named_more
            named = [each for each in named if each not in there[1:]]
            member.places -= set(there[1:])
        if opens and not named:
            return
        wait_ms = WAIT_MS if there and not said else NO_WAIT_MS
        max_records = random.choice((1, 2, 3, 5, 10, 100))
        if said:
            max_records = random.choice((0, 0, max_records))
            if any(RELEASE in each.kinds for each in said):
                max_records = 0  # On kohort they are there for this fetch.
            wait_ms = WAIT_MS if there and max_records else NO_WAIT_MS
        batch_size = random.choice((max_records, 1, 500)) if max_records else 0
        mode = random.randint(0, 1)
        if max_records and (mode != STRICT or version < 2) and any(map(self._hands.has_returned, there)):
            max_records = 100  # Else Kafka ends with what was acquired together, and kohort with a batch.
        renews = version >= 2 and any(RENEW in each.kinds for each in said)
        if renews:
            max_records, wait_ms, batch_size = 0, 0, 0

        def build(peer: Peer) -> Message:
            return ShareFetchRequest(
                group_id=peer.group_id,
                member_id=member.member_id,
                share_session_epoch=epoch,
                max_wait_ms=wait_ms,
                min_bytes=0 if renews else 1,
                max_bytes=0 if renews else 1_000_000,
                max_records=max_records,
                batch_size=batch_size,
                share_acquire_mode=mode,
                is_renew_ack=renews,
                topics=fetch_topics(peer, named, said),
                forgotten_topics_data=forgotten_topics(peer, forgotten),
            )

        text = (
            f"fetch of {member.member_id} in {epoch} {named} not {forgotten} says {list(said)} "
            f"max={max_records} batch={batch_size} mode={mode} wait={wait_ms} of {there}"
        )
        told = {each.topic for each in said}
        ask = Ask("ShareFetch", version, build, text, member.client_id, mask=lambda each: told_of(each, told))
        answer = await self._told.ask(ask)
        if answer["error_code"]:
            return
        self._has_fetched = True
        member.session = epoch + 1
        if wait_ms and self._told.is_recording:
            check_given(answer)
        for topic, partition in partitions_of(answer):
            if not partition["acknowledge_error_code"]:
                self._hands.take_words(topic, member, said)
            for each in partition["acquired_records"]:
                self._hands.acquired(topic, each, member)

    async def _acknowledge(self, member: Member) -> None:
        said = self._hands.words(member)
        if not said or member.session is None:
            return
        if self._random.random() < 0.5:
            await self._fetch(member, said)
        else:
            await self._say(member, said, member.session)

    async def _say(
        self,
        member: Member,
        said: Sequence[Words],
        epoch: int,
        *,
        member_id: str | None = None,
    ) -> None:
        version = self._random.randint(1, 2)
        renews = version >= 2 and any(RENEW in each.kinds for each in said)

        def build(peer: Peer) -> Message:
            return ShareAcknowledgeRequest(
                group_id=peer.group_id,
                member_id=member.member_id if member_id is None else member_id,
                share_session_epoch=epoch,
                is_renew_ack=renews,
                topics=acknowledged_topics(peer, said),
            )

        text = f"{member.member_id} says in {epoch} {list(said)} renews={renews} as {member_id}"
        answer = await self._told.ask(Ask("ShareAcknowledge", version, build, text, member.client_id))
        if answer["error_code"]:
            return
        if member_id is None:
            member.session = None if epoch == FINAL else epoch + 1
        for topic, partition in partitions_of(answer):
            if not partition["error_code"]:
                self._hands.take_words(topic, member, said)
        if epoch == FINAL and member_id is None:
            self._hands.give_back(member)

    async def _close(self, member: Member) -> None:
        if member.session is None:
            return
        said = self._hands.words(member) if self._random.random() < 0.5 else []
        await self._say(member, [each for each in said if RENEW not in each.kinds], FINAL)

    async def _hang_up(self, member: Member) -> None:
        """Let the member's connection end, and with it its session."""
        if member.session is None or self.style == "lock":
            return
        self._told.peer.hang_up(member.client_id)
        member.session = None
        self._hands.give_back(member)
        if not any(self._hands.has_free(each) for each in BATCHES):
            return
        await self._offsets()

    async def _let_locks_end(self) -> None:
        await trio.sleep(1.4 * SHORT_LOCK_MS / 1000)
        self._hands.let_locks_end()

    # -- beside it ----------------------------------------------------------------------------------------

    async def _aside(self) -> None:
        choices: list[Callable[[], Awaitable[None]]] = [
            self._look,
            self._offsets,
            self._list,
            self._lie,
            self._lie,
            self._lie_of_records,
            self._lie_of_records,
            self._lie_of_sessions,
            self._as_another_kind,
            self._describe_others,
            self._alter,
            self._delete,
            self._delete_offsets,
        ]
        await self._random.choice(choices)()

    async def _lie(self) -> None:
        random = self._random
        member = random.choice(self._members)
        member_id = random.choice((member.member_id, "stranger", ""))
        epoch = random.choice((member.epoch + 1, member.epoch - 1, 77, -2, LEAVING, 1))
        group_id = random.choice((None, None, None, "", "nobody's group"))
        topics = random.choice((None, None, ("work",), ()))
        if member_id == member.member_id and epoch == LEAVING and not group_id:
            epoch = 77
        if epoch == JOINING:
            epoch = 77

        def build(peer: Peer) -> Message:
            return ShareGroupHeartbeatRequest(
                group_id=peer.group_id if group_id is None else group_id,
                member_id=member_id,
                member_epoch=epoch,
                subscribed_topic_names=topics,
            )

        text = f"heartbeat as {member_id!r} in {epoch} of {group_id} topics={topics}"
        ask = Ask("ShareGroupHeartbeat", 1, build, text, mask=self._mask(member))
        answer = await self._told.ask(ask)
        if not answer["error_code"] and member_id == member.member_id:
            member.epoch = answer["member_epoch"]
            if topics is not None:
                member.topics = list(topics)

    async def _lie_of_records(self) -> None:
        random = self._random
        member = random.choice(self._members)
        if member.session is None:
            return
        first = random.choice((0, 5, 59, 60, 1_000, -1))
        length = random.choice((1, 1, 3))
        kinds: tuple[int, ...] = random.choice(((ACCEPT,), (RELEASE,), (REJECT,), (9,), (-1,), (), (1, 1)))
        words = [Words(random.choice(("work", "more", "nowhere")), first, first + length - 1, kinds)]
        if random.random() < 0.2:
            words.append(Words(words[0].topic, first, first, (ACCEPT,)))
        if random.random() < 0.15:
            words[0].last = first - 1
        if self._hands.held_by(member, words[0].topic, range(first, first + 3)):
            return  # That would be no lie.
        await self._say(member, words, member.session)

    async def _lie_of_sessions(self) -> None:
        random = self._random
        member = random.choice(self._members)
        epoch = random.choice((member.session or 0, 5, 2**31 - 1, 1)) + random.choice((1, 2))
        if member.session == epoch:
            return
        epoch = min(epoch, 2**31 - 1)
        as_fetch = random.random() < 0.5
        member_id = random.choice((member.member_id, "stranger", ""))
        group_id = random.choice((None, None, "", "nobody's group"))
        epoch = random.choice((epoch, epoch, FINAL if member_id != member.member_id else epoch, -2))

        def build(peer: Peer) -> Message:
            asked = peer.group_id if group_id is None else group_id
            if as_fetch:
                return ShareFetchRequest(
                    group_id=asked,
                    member_id=member_id,
                    share_session_epoch=epoch,
                    max_wait_ms=0,
                    min_bytes=1,
                    max_bytes=1000,
                    max_records=1,
                    batch_size=1,
                    topics=(),
                    forgotten_topics_data=(),
                )
            return ShareAcknowledgeRequest(
                group_id=asked, member_id=member_id, share_session_epoch=epoch, topics=()
            )

        name = "ShareFetch" if as_fetch else "ShareAcknowledge"
        text = f"{name} as {member_id!r} of {group_id} in session {epoch}"
        await self._told.ask(Ask(name, random.randint(1, 2), build, text, "liar"))

    async def _as_another_kind(self) -> None:
        """Ask of a share group what is asked of groups of other kinds."""
        if not any(each.is_in for each in self._members):
            return  # Some of these would make a group of the other kind.
        name, version, build = self._random.choice(OF_OTHER_KINDS)
        await self._told.ask(Ask(name, version, build, f"{name} of the share group"))

    async def _describe_others(self) -> None:
        groups = self._random.choice((["nobody's group"], [""], [], ["nobody's group", "nobody's other"]))
        message = ShareGroupDescribeRequest(group_ids=tuple(groups), include_authorized_operations=False)
        await self._told.ask(Ask("ShareGroupDescribe", 1, lambda _peer: message, f"describe {groups}"))

    async def _list(self) -> None:
        random = self._random
        states = random.choice(([], ["Stable"], ["empty"], ["STABLE"], ["Dead"], ["Odd"]))
        types = random.choice(([], ["share"], ["Share"], ["classic"], ["consumer"]))
        version = random.randint(3, 5)
        message = ListGroupsRequest(
            states_filter=tuple(states) if version >= 4 else (),
            types_filter=tuple(types) if version >= 5 else (),
        )
        await self._told.ask(Ask("ListGroups", version, lambda _peer: message, f"list {states} {types}"))

    async def _look(self) -> None:
        """Have the group described."""

        def build(peer: Peer) -> Message:
            return ShareGroupDescribeRequest(group_ids=(peer.group_id,), include_authorized_operations=False)

        await self._told.ask(Ask("ShareGroupDescribe", 1, build, "describe", mask=self._mask(), settles=True))

    async def _offsets(self) -> None:
        """Have it said how far the group has read; what nobody waited for is written by and by."""
        random = self._random
        version = random.randint(0, 1)
        topics = random.choice((None, None, ["work"], ["work", "more"], ["nowhere"]))
        other = random.random() < 0.1

        def build(peer: Peer) -> Message:
            group = DescribeShareGroupOffsetsGroup(
                group_id="nobody's group" if other else peer.group_id,
                topics=None
                if topics is None
                else tuple(
                    DescribeShareGroupOffsetsTopic(topic_name=each, partitions=(0,)) for each in topics
                ),
            )
            return DescribeShareGroupOffsetsRequest(groups=(group,))

        text = f"describe offsets {topics} other={other}"
        await self._told.ask(Ask("DescribeShareGroupOffsets", version, build, text, settles=True))

    async def _alter(self) -> None:
        random = self._random
        topics = random.choice((["work"], ["work", "more"], ["nowhere"]))
        offset = random.choice((0, 3, 20, 60, 100))
        index = random.choice((0, 0, 0, 0, 5))

        def build(peer: Peer) -> Message:
            partition = AlterShareGroupOffsetsPartition(partition_index=index, start_offset=offset)
            return AlterShareGroupOffsetsRequest(
                group_id=peer.group_id,
                topics=tuple(
                    AlterShareGroupOffsetsTopic(topic_name=each, partitions=(partition,)) for each in topics
                ),
            )

        answer = await self._told.ask(
            Ask("AlterShareGroupOffsets", 0, build, f"alter {topics}-{index} {offset}")
        )
        if answer["error_code"]:
            return
        for topic in answer["responses"]:
            for partition in topic["partitions"]:
                if not partition["error_code"]:
                    self._begin(topic["topic_name"], offset)

    async def _delete_offsets(self) -> None:
        topics = self._random.choice((["work"], ["more"], ["work", "more"], ["nowhere"]))

        def build(peer: Peer) -> Message:
            return DeleteShareGroupOffsetsRequest(
                group_id=peer.group_id,
                topics=tuple(DeleteShareGroupOffsetsTopic(topic_name=each) for each in topics),
            )

        answer = await self._told.ask(Ask("DeleteShareGroupOffsets", 0, build, f"delete offsets {topics}"))
        if not answer["error_code"]:
            for topic in answer["responses"]:
                if not topic["error_code"]:
                    self._begin(topic["topic_name"], 0)

    async def _delete(self) -> None:
        def build(peer: Peer) -> Message:
            return DeleteGroupsRequest(groups_names=(peer.group_id,))

        answer = await self._told.ask(Ask("DeleteGroups", 2, build, "delete the group"))
        if not answer["results"][0]["error_code"]:
            for topic in BATCHES:
                self._begin(topic, 0)

    # -- who has what -------------------------------------------------------------------------------------

    def _begin(self, topic: str, offset: int) -> None:
        self._is_over = self._has_fetched
        if topic in BATCHES:
            self._hands.begin(topic, offset)

    def _topics(self) -> list[str]:
        return self._random.choice((["more", "work"], ["more", "nowhere", "work"]))

    def _check_time(self) -> None:
        """Raises: TooSlow where a lock may have ended on one of them."""
        since_s = self._hands.acquired_s
        if since_s is not None and time.monotonic() - since_s > IN_TIME * self._lock_ms / 1000:
            raise TooSlow
