"""How far behind each group is, in offsets and in seconds, and whether it keeps up. Nobody has to consume."""

from kohort.broker.lag.ends import EndsElsewhere, LocalEnds, NoneElsewhere
from kohort.broker.lag.watch import LagWatch, PartitionLag
from kohort.broker.lag.window import Verdict, Window, worst

__all__ = [
    "EndsElsewhere",
    "LagWatch",
    "LocalEnds",
    "NoneElsewhere",
    "PartitionLag",
    "Verdict",
    "Window",
    "worst",
]
