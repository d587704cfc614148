"""An administrator who looks at groups' offsets all the time: what it was shown has to stay true."""

from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.member import FETCH, Around, Plan
from tests.simulation.network import Host, Link

INTERVAL_MS = 1_000


class Onlooker:
    """Asks for the offsets of one group after another."""

    def __init__(self, world: Around, plans: list[Plan]) -> None:
        self._world = world
        self._plans = plans
        self._host = Host("onlooker")
        self._link: Link | None = None
        world.schedule.after(INTERVAL_MS, self._look)

    def _look(self) -> None:
        self._world.schedule.after(1 + int(self._world.random.random() * 2 * INTERVAL_MS), self._look)
        if self._link is None or self._link.closed:
            self._link = self._world.connect(self._host, "onlooker", lambda: None)
        if self._link is None:
            return
        plan = self._plans[int(self._world.random.random() * len(self._plans))]
        counts = self._world.partition_counts()
        topics = tuple(
            OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(range(counts[topic])))
            for topic in plan.topics[:1]
        )
        group = OffsetFetchRequestGroup(group_id=plan.group_id, topics=topics)
        self._link.send(FETCH, 9, OffsetFetchRequest(groups=(group,)), lambda _: None)
