"""Opens the place where members' states are kept."""

from contextlib import AbstractAsyncContextManager

from kohort.client.config import ConsumerOptions
from kohort.queues.region.coordinating import Region
from kohort.queues.region.states import States, TopicStates


def open_states(region: Region, options: ConsumerOptions) -> AbstractAsyncContextManager[States]:
    """Return where the region says, to be opened by `async with`. Raises: MissingExtraError, KohortError."""
    if not region.states_url:
        return TopicStates(region, options)
    from kohort.queues.region.files import FileStates  # noqa: PLC0415

    return FileStates(region)
