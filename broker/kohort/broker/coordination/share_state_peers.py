"""What is asked of share coordinators that are on other brokers.

What comes together while an answer is awaited goes together in the next request; of a group and an API there
is one under way to each broker, so that answers come in the order of the questions. Whoever asked hears in
any case, and is the one to ask again. Source: Kafka's PersisterStateManager.
"""

from collections.abc import Callable
from typing import Any

from kohort.broker.coordination.share_state_wire import BY_COMMAND, Kind, Place
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.workers import Workers
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message

PARTITIONS_PER_REQUEST_MAX = 1_000

Respond = Callable[[Message], None]
Asked = tuple[Any, Respond]
LineKey = tuple[int, type, str]


class ShareStatePeers:
    """The lines to other brokers. The loop's thread only."""

    def __init__(self, others: OtherBrokers, workers: Workers, log: ThrottledLog) -> None:
        self.node_id = others.node_id
        self._others = others
        self._workers = workers
        self._log = log
        self._lines: dict[LineKey, list[Asked]] = {}  # What waits; a line is there while it asks.

    def ask(self, node_id: int, command: Any, respond: Respond) -> None:
        """Have that broker's share coordinator decide; `respond` gets its answer, or why there is none."""
        key = node_id, type(command), command.key.group_id
        waiting = self._lines.get(key)
        if waiting is None:
            self._lines[key] = [(command, respond)]
            self._workers.spawn(self._run, key)
        else:
            waiting.append((command, respond))

    async def _run(self, key: LineKey) -> None:
        """Ask until nothing waits."""
        try:
            while self._lines[key]:
                asked, self._lines[key] = _split(self._lines[key])
                await self._ask(key, asked)
        finally:
            del self._lines[key]

    async def _ask(self, key: LineKey, asked: list[Asked]) -> None:
        node_id, kind, group_id = key
        results: dict[Place, Message] = {}
        try:
            results = await self._results(BY_COMMAND[kind], node_id, group_id, asked)
        except Unreachable as error:
            self._log.warning("a broker can't be asked about share groups", node_id=node_id, error=str(error))
            # Nor can it be for those who wait: what was said later must not be kept before this.
            asked += self._lines[key]
            self._lines[key] = []
        for command, respond in asked:
            place = command.key.topic_id, command.key.partition
            answer = results.get(place) or command.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            try:
                respond(answer)
            except Exception:  # noqa: BLE001  # A supervisor: what goes wrong there is kept from the others who wait.
                self._log.exception("whoever asked another broker failed", node_id=node_id)

    async def _results(
        self, kind: Kind, node_id: int, group_id: str, asked: list[Asked]
    ) -> dict[Place, Message]:
        request = kind.asking(group_id, [command for command, _ in asked])
        return kind.results(await self._others.ask(node_id, request, kind.response, kind.version))


def _split(waiting: list[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Return what may go together next, and the rest: a request names a partition once."""
    together: list[Asked] = []
    rest: list[Asked] = []
    named = set()
    for each in waiting:
        key = each[0].key
        if key in named or len(together) == PARTITIONS_PER_REQUEST_MAX:
            rest.append(each)
        else:
            together.append(each)
        named.add(key)
    return together, rest
