"""How far behind each group is, in offsets and in seconds, and whether it keeps up. Nobody has to consume."""

from kohort.broker.lag.watch import LagWatch, PartitionLag
from kohort.broker.lag.window import Verdict, Window, worst

__all__ = ["LagWatch", "PartitionLag", "Verdict", "Window", "worst"]
