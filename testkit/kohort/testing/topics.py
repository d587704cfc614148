"""Creates topics for a test without a client."""

from collections.abc import Iterable, Mapping

from kohort.broker.broker import Broker
from kohort.broker.metadata.topic_plans import UNSET, NewTopic
from kohort.protocol.errors import ApiError
from kohort.testing.running import RunningBroker
from kohort.testing.settings import SettingValue, dotted, text_of


def create_topics(
    run: RunningBroker,
    topics: Iterable[str] | Mapping[str, int | None],
    configs: Mapping[str, SettingValue] | None = None,
) -> None:
    """Create topics with these numbers of partitions, or the broker's default. A string is one name.

    Raises: ApiError.
    """
    if isinstance(topics, str):
        topics = [topics]
    counts = topics if isinstance(topics, Mapping) else dict.fromkeys(topics)
    texts = {dotted(name): text_of(name, value) for name, value in (configs or {}).items()}
    wanted = [
        NewTopic(name, UNSET if count is None else count, configs=texts) for name, count in counts.items()
    ]

    async def create(broker: Broker) -> None:
        for outcome in (await broker.topics.create(wanted)).values():
            if isinstance(outcome, ApiError):
                raise outcome

    run.call_async(create)
