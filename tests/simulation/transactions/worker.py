"""A worker: a member of a group that writes for the partitions it is given, and commits offsets (KIP-447).

All workers of the group count on for the same partitions, each by a transactional id of its own. So nothing
but the group tells a worker that is late from the one that goes on: its generation, in what it commits, and
offsets that nobody is shown while a transaction may change them.
"""

from collections.abc import Iterable, Sequence
from random import Random

from kohort.client.assignors import Subscription
from kohort.client.membership.wire import decode_assignment, encode_assignment, encode_subscription
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.simulation.transactions.ledger import Ledger, Place
from tests.simulation.transactions.process import Around, Ask, Sleep
from tests.simulation.transactions.producer import (
    NO_GENERATION,
    PATIENCE_MS,
    PAUSE_MS_MAX,
    RETRY_MS,
    Abortable,
    Ended,
    Producer,
)

GROUP = "workers"
PROTOCOL = "range"
SESSION_MS, REBALANCE_MS = 8_000, 12_000
JOIN_PATIENCE_MS = REBALANCE_MS + 6_000
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 5, 3, 3
HASTY = 0.03  # How many commit with the generation of before, as who has not heard of the newest would.
OUT = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS))


class Worker(Producer):
    """One process of the group, in one generation after another."""

    def __init__(
        self,
        world: Around,
        name: str,
        random: Random,
        *,
        ledger: Ledger,
        places: Sequence[Place],
        inputs: Sequence[Place],
    ) -> None:
        """`inputs` are the partitions that the group is about; where one is, its numbers are written."""
        super().__init__(world, name, random, ledger=ledger, places=places, anchor=inputs[0])
        self.group_id = GROUP
        self._inputs = inputs

    async def run(self) -> None:
        """Count for what it is given until another process takes the id."""
        try:
            await self._initialise()
            while True:
                assigned = await self._join()
                await self._count_for(assigned)
        except Ended:
            return

    def _is_done(self, codes: Iterable[int]) -> bool:
        """Return whether none has failed; who is out of the group gives its transaction up."""
        found = {ErrorCode(each) for each in codes}
        if found & OUT:
            if ErrorCode.UNKNOWN_MEMBER_ID in found:
                self._member_id = ""
            self._generation_id = NO_GENERATION
            raise Abortable
        return super()._is_done(found)

    async def _count_for(self, assigned: Sequence[Place]) -> None:
        """Count for these partitions, one after another, until the group has a new generation."""
        numbers: dict[Place, int] = {}
        while await self._is_in():
            await Sleep(int(self._random.random() * PAUSE_MS_MAX))
            if not assigned:
                continue
            self.anchor = place = self._random.choice(assigned)
            self._counter = counter_of(place)
            if place not in numbers:
                numbers[place] = await self._next_number()
            generation_id = self._generation_id
            if self._random.random() < HASTY:
                self._generation_id -= 1
            numbers[place] += await self._count(numbers[place])
            if self._generation_id == NO_GENERATION:
                return
            self._generation_id = generation_id

    # -- the group ------------------------------------------------------------------------------------------

    async def _join(self) -> list[Place]:
        """Return what it is given in a generation that it is in."""
        while True:
            message = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._subscription()),),
            )
            answer = await Ask("JoinGroup", JOIN_VERSION, message, JOIN_PATIENCE_MS, lambda _: None)
            if isinstance(answer, JoinGroupResponse):
                if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                    self._member_id = answer.member_id
                elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                if not answer.error_code:
                    assigned = await self._sync(answer)
                    if assigned is not None:
                        return assigned
            await Sleep(RETRY_MS)

    def _subscription(self) -> bytes:
        return encode_subscription(Subscription(tuple(sorted({topic for topic, _ in self._inputs}))))

    async def _sync(self, joined: JoinGroupResponse) -> list[Place] | None:
        """Return what it is given, None where it has to join again; the leader says who gets what."""
        message = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=self._assignments(joined.members),
        )
        answer = await Ask("SyncGroup", SYNC_VERSION, message, JOIN_PATIENCE_MS, lambda _: None)
        if not isinstance(answer, SyncGroupResponse) or answer.error_code:
            return None
        self._generation_id = joined.generation_id
        owned = decode_assignment(answer.assignment)
        return [(topic, index) for topic, indexes in owned.items() for index in indexes]

    def _assignments(
        self, members: Sequence[JoinGroupResponseMember]
    ) -> tuple[SyncGroupRequestAssignment, ...]:
        """Return who gets which partitions: by turns, and not as in the generation before."""
        ids = [each.member_id for each in members]
        self._random.shuffle(ids)
        found = []
        for place, member_id in enumerate(ids):
            owned: dict[str, tuple[int, ...]] = {}
            for topic, index in self._inputs[place :: len(ids)]:
                owned[topic] = (*owned.get(topic, ()), index)
            found.append(SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(owned)))
        return tuple(found)

    async def _is_in(self) -> bool:
        """Say that it lives; return whether its generation is the newest."""
        while True:
            message = HeartbeatRequest(
                group_id=GROUP, generation_id=self._generation_id, member_id=self._member_id
            )
            answer = await Ask("Heartbeat", HEARTBEAT_VERSION, message, PATIENCE_MS, lambda _: None)
            if isinstance(answer, HeartbeatResponse):
                if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                if not answer.error_code or answer.error_code in OUT:
                    return not answer.error_code
            await Sleep(RETRY_MS)


def counter_of(place: Place) -> str:
    """Return who counts: the group, by partition."""
    return f"{GROUP}/{place[0]}-{place[1]}"
