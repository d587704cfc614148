"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from collections import Counter
from collections.abc import Sequence

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.configs import ConfigChange, invalid_request
from kohort.protocol.errors import ApiError


async def alter_unless_repeated(
    admin: Administration, changes: Sequence[ConfigChange], *, validate_only: bool
) -> list[tuple[ConfigChange, ApiError | None]]:
    """Return each change with its error or None; a resource that is named twice is not changed at all."""
    counts = Counter((change.type, change.name) for change in changes)
    single = [change for change in changes if counts[change.type, change.name] == 1]
    errors = await admin.configs.alter(single, validate_only=validate_only)
    twice = invalid_request("the resource is named more than once in the request")
    outcome = dict(zip(((change.type, change.name) for change in single), errors, strict=True))
    return [(change, outcome.get((change.type, change.name), twice)) for change in changes]
