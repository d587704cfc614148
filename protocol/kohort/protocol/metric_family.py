"""What a metric is: brokers, workers and observers describe theirs by this."""

from typing import NamedTuple


class Family(NamedTuple):
    """A metric: its name as a query writes it, its kind, its labels, and what it says."""

    name: str
    kind: str
    labels: tuple[str, ...]
    documentation: str
