"""Questions to other brokers of the cluster: one request has all waiting questions for the same broker.

The requester is answered in any case, and has to retry itself.
Source: Kafka's InterBrokerSendThread, TransactionMarkerChannelManager, PersisterStateManager.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.workers import Workers

QUESTIONS_PER_REQUEST_MAX = 1_000

QuestionT = TypeVar("QuestionT")
QuestionT_contra = TypeVar("QuestionT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class PeerApi(Protocol[QuestionT_contra, AnswerT_co]):
    """How questions of one kind are sent to another broker. It is hashable: equal ones share a queue."""

    @property
    def requests_max(self) -> int:
        """How many requests may be under way to one broker. With one, answers keep the questions' order."""
        ...

    @property
    def fails_all(self) -> bool:
        """Whether a request without an answer fails the questions that wait behind it as well."""
        ...

    def named_as(self, question: QuestionT_contra, /) -> tuple[Hashable, Hashable]:
        """Return the name that a request has once at most, and what questions of that name must share."""
        ...

    async def ask(
        self, others: OtherBrokers, node_id: int, questions: Sequence[QuestionT_contra], /
    ) -> Sequence[AnswerT_co | None]:
        """Return the answer to each question, None without one. Raises: Unreachable, ValueError."""
        ...

    def refused(self, question: QuestionT_contra, /) -> AnswerT_co:
        """Return the answer for a broker that does not answer."""
        ...


class _Queue(Generic[QuestionT, AnswerT]):
    """Questions that wait for one broker, and how many requests are under way to it."""

    __slots__ = ("requests", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[QuestionT, Callable[[AnswerT], None]]] = []
        self.requests = 0


class PeerRequests:
    """The queues of questions to other brokers. The loop's thread only."""

    def __init__(self, others: OtherBrokers, workers: Workers, log: ThrottledLog) -> None:
        self._others = others
        self._workers = workers
        self._log = log
        self._queues: dict[tuple[int, PeerApi[Any, Any]], _Queue[Any, Any]] = {}

    def ask(
        self,
        node_id: int,
        api: PeerApi[QuestionT, AnswerT],
        question: QuestionT,
        respond: Callable[[AnswerT], None],
    ) -> None:
        """Ask another broker, with what waits already; `respond` gets the answer or a refusal."""
        key = node_id, api
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        queue.waiting.append((question, respond))
        if queue.requests < api.requests_max:
            queue.requests += 1
            self._workers.spawn(self._run, node_id, api, queue)

    async def _run(self, node_id: int, api: PeerApi[Any, Any], queue: _Queue[Any, Any]) -> None:
        """Send requests until nothing waits."""
        try:
            while queue.waiting:
                await self._send(node_id, api, queue)
        finally:
            queue.requests -= 1
            if not queue.requests:
                del self._queues[node_id, api]

    async def _send(self, node_id: int, api: PeerApi[Any, Any], queue: _Queue[Any, Any]) -> None:
        asked, queue.waiting = _next_request(api, queue.waiting)
        answers: Sequence[Any] = ()
        try:
            answers = await api.ask(self._others, node_id, [question for question, _ in asked])
        except (Unreachable, ValueError) as error:  # The latter: a code that only a newer broker knows.
            self._log.warning("another broker does not answer", node_id=node_id, error=str(error))
            if api.fails_all:  # A later question must not be answered before this one is asked again.
                asked += queue.waiting
                queue.waiting = []
        for position, (question, respond) in enumerate(asked):
            answer = answers[position] if position < len(answers) else None
            try:
                respond(api.refused(question) if answer is None else answer)
            except Exception:  # noqa: BLE001  # A supervisor: the others wait for their answers.
                self._log.exception("an answer of another broker met an impossible state", node_id=node_id)


def peers_of(services: CoordinatorServices, log: FilteringBoundLogger) -> PeerRequests | None:
    """Return the queues of a coordinator, None for a broker alone."""
    if services.others is None:
        return None
    return PeerRequests(services.others, services.workers, ThrottledLog(log, services.clock))


Waiting = list[tuple[Any, Callable[[Any], None]]]


def _next_request(api: PeerApi[Any, Any], waiting: Waiting) -> tuple[Waiting, Waiting]:
    """Return the questions that go together next, and the rest; those of one name keep their order."""
    together: Waiting = []
    rest: Waiting = []
    shared_by: dict[Hashable, Hashable] = {}
    for each in waiting:
        name, shared = api.named_as(each[0])
        if shared_by.setdefault(name, shared) == shared and len(together) < QUESTIONS_PER_REQUEST_MAX:
            together.append(each)
        else:
            shared_by[name] = _NOTHING
            rest.append(each)
    return together, rest


_NOTHING = object()
"""Equal to nothing: no more questions with a name go into the request."""
