"""The lag of each group, in offsets and in seconds, and whether it keeps up. Idle groups count, too."""

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
